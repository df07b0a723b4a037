//! An import onto a disk that is full, a real one: a small file system in memory, where this
//! machine lets us make one.

use std::fs;
use std::process::Command;

use tamarack_testing::TestDir;

use crate::program::text;

/// The import ends with status 3, says what to do and which lines are stored; all of these are
/// there; and with more space the same import goes through.
#[test]
fn an_import_onto_a_full_disk() {
    let dir = TestDir::new("an_import_onto_a_full_disk");
    let lines: String = (0..60_000).map(|number| format!("key {number:06}\t{number}{}\n", "v".repeat(200))).collect();
    fs::write(dir.path().join("in.tsv"), &lines).expect("the directory is writable");
    fs::create_dir(dir.path().join("disk")).expect("the directory is writable");
    // Values that do not compress to nothing would be better; so: no compression.
    let script = format!(
        "mount -t tmpfs -o size=9m tmpfs disk || exit 77
         import() {{ '{0}' import disk/db in.tsv --buffer 1MiB --compression none --acks acks; }}
         import 2> full.err; echo $? > status; tail -n 1 acks > acked
         '{0}' export disk/db > full.tsv 2> export.err; echo $? >> status
         mount -o remount,size=200m disk
         import 2> freed.err; echo $? >> status
         '{0}' export disk/db > freed.tsv && '{0}' verify disk/db; echo $? >> status",
        env!("CARGO_BIN_EXE_tamarack")
    );
    let ran = Command::new("unshare").args(["-rm", "sh", "-c", &script]).current_dir(dir.path()).output();
    if !ran.as_ref().is_ok_and(|ran| ran.status.code() == Some(0)) {
        println!("no file system of our own here, so nothing is shown: {ran:?}");
        return;
    }
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect("the script wrote it");
    assert_eq!(read("status"), "3\n0\n0\n0\n", "{}{}{}", read("full.err"), read("export.err"), read("freed.err"));
    let message = read("full.err");
    println!("{}", message.replace(text(dir.path()), ""));
    assert!(message.contains("free some space, then try again") && message.contains("are stored"), "{message}");
    let acked: usize = read("acked").trim().parse().expect("a number of lines");
    assert!(acked > 1000 && acked < 60_000, "{acked} lines fit");
    let expected: String = lines.lines().take(acked).flat_map(|line| [line, "\n"]).collect();
    assert!(read("full.tsv").starts_with(&expected), "what was acknowledged is there");
    assert_eq!(read("freed.tsv"), lines);
}
