//! Files of a small database, whole and damaged.

#![expect(clippy::disallowed_methods, reason = "the tests read, copy and damage real files")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tamarack::Db;
use tamarack_env::OsEnv;
use tamarack_format::checksum::FileKind;
use tamarack_format::checksum_repair::repair_checksums;
use tamarack_format::claims;
use tamarack_format::meta::TableId;
use tamarack_format::record;
use tamarack_testing::read_dir;

use crate::testing::{Ran, Random, TestDir, run, run_ok, special_bytes};

/// How many damages of each kind of file.
const DAMAGES: u64 = 300;

/// Makes a database with several tables and a WAL; returns its path.
fn database(dir: &TestDir) -> String {
    let db = dir.join("db");
    let lines: String = (0..1200).map(|i| format!("key {:04}\tvalue {i} {}\n", i * 7 % 1200, "v".repeat(60))).collect();
    let words = ["--buffer", "32KiB", "--memory", "1MiB", "--compression", "lz4", "--policy", "tiering:T=4"];
    run_ok(&[&["import", &db, &dir.file("in.tsv", lines)][..], &words].concat());
    // So that nothing is left to be done when it is opened.
    run_ok(&["compact", &db, "--settle"]);
    run_ok(&["put", &db, "key 0003", "new"]);
    run_ok(&["delete", &db, "key 0004"]);
    db
}

/// The files of the database, by their names.
fn files(db: &str) -> BTreeMap<String, Vec<u8>> {
    read_dir(&*OsEnv::new(), Path::new(db))
}

fn with_ending(db: &str, ending: &str) -> Vec<(String, Vec<u8>)> {
    let found: Vec<_> = files(db).into_iter().filter(|(name, _)| name.ends_with(ending)).collect();
    assert!(!found.is_empty(), "no file ends with {ending}");
    found
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn inspect(db: &str, name: &str, words: &[&str]) -> Ran {
    let path = Path::new(db).join(name);
    run(&[&["inspect", path.to_str().expect("text")][..], words].concat())
}

/// Each file is whole and says what the others say, though the database is open meanwhile; and none
/// is changed.
#[test]
fn whole_files_are_shown() {
    let dir = TestDir::new("whole_files_are_shown");
    let db = database(&dir);
    let open = Db::open(&db).expect("it opens");
    let before = files(&db);
    let (mut tables, mut table_entries, mut wal_entries) = (0, 0, 0);
    for name in before.keys() {
        let ran = inspect(&db, name, &["--entries"]);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{name}: {ran:?}");
        assert!(ran.out.contains("no damage"), "{name}: {}", ran.out);
        let shown = json(&inspect(&db, name, &["--entries", "--json"]).out);
        assert_eq!((&shown["ok"], &shown["file"]), (&Value::from(true), &Value::from(name.as_str())));
        let contents = shown["contents"].as_array().map_or(0, Vec::len) as u64;
        match name.rsplit('.').next().expect("a name") {
            "sst" => {
                assert_eq!(shown["entries"], contents, "{name}");
                assert_eq!(shown["blocks"].as_array().map(Vec::len), shown["data_blocks"].as_u64().map(|n| n as usize));
                (tables, table_entries) = (tables + 1, table_entries + contents);
            }
            "wal" => {
                assert_eq!(shown["entries"], contents, "{name}");
                wal_entries += contents;
            }
            "manifest" => {
                assert_eq!(shown["tables"], before.keys().filter(|name| name.ends_with("sst")).count(), "{shown}");
                assert!(shown["trees"][0]["shape"].as_str().is_some_and(|words| words.contains("tiering")), "{shown}");
            }
            "CURRENT" => assert!(before.contains_key(shown["manifest"].as_str().expect("a name")), "{shown}"),
            "LOCK" => assert_eq!(shown["kind"], "lock"),
            other => panic!("a file with the ending {other}"),
        }
    }
    assert!(
        tables > 1 && table_entries + wal_entries >= 1202,
        "{tables} tables, {table_entries} and {wal_entries} entries"
    );
    assert!(files(&db) == before, "a file was changed");
    open.close().expect("it closes");
}

/// Bounds and limits choose what is shown; all is checked all the same.
#[test]
fn shows_what_is_wanted() {
    let dir = TestDir::new("shows_what_is_wanted");
    let db = database(&dir);
    run_ok(&["compact", &db]);
    let (name, mut bytes) = with_ending(&db, ".sst").pop().expect("there is one");
    let shown = json(&inspect(&db, &name, &["--entries", "--json", "--prefix", "key 000", "--limit", "3"]).out);
    let keys: Vec<_> =
        shown["contents"].as_array().expect("entries").iter().map(|entry| entry["key"].as_str()).collect();
    assert_eq!(keys, [Some("key 0000"), Some("key 0001"), Some("key 0002")]);
    assert_eq!(shown["blocks"].as_array().map(Vec::len), Some(3));
    let ran = inspect(&db, &name, &["--entries", "--from", "key 0002", "--limit", "2"]);
    assert!(ran.out.contains("put     key 0002\tvalue ") && ran.out.contains("key 0003\tnew\n"), "{}", ran.out);
    assert!(
        !ran.out.contains("key 0001\t") && !ran.out.contains("key 0005\t") && ran.out.contains("more\n"),
        "{}",
        ran.out
    );
    assert_eq!(run(&["inspect", &db, "--from", "a"]).status, 2, "bounds are for entries");

    // Far behind what is shown.
    let at = bytes.len() * 2 / 3;
    bytes[at] ^= 1;
    std::fs::write(Path::new(&db).join(&name), bytes).expect("it can be written");
    assert_eq!(inspect(&db, &name, &["--limit", "1"]).status, 1);
}

/// A file that has another name is recognised; one that has another file's name is told.
#[test]
fn names_and_contents() {
    let dir = TestDir::new("names_and_contents");
    let db = database(&dir);
    for (name, bytes) in files(&db).into_iter().filter(|(name, _)| name != "LOCK") {
        let kind = json(&inspect(&db, &name, &["--json"]).out)["kind"].clone();
        let shown = run_ok(&["inspect", &dir.file("copy.bak", &bytes), "--json"]);
        assert_eq!(json(&shown)["kind"], kind, "{name}");
        if let Some((_, ending)) = name.split_once('.') {
            let other = format!("0000000099.{ending}");
            let ran = run(&["inspect", &dir.file(&other, &bytes)]);
            assert_eq!(ran.status, 1, "{ran:?}");
            assert!(ran.out.contains("damaged at byte") && ran.out.contains("99"), "{}", ran.out);
        }
    }
    for (path, word) in [
        (db.as_str(), "directory"),
        (dir.join("none.sst").as_str(), "no such file"),
        (dir.file("words.txt", "words").as_str(), "neither name nor content"),
    ] {
        let ran = run(&["inspect", path]);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{path}");
        assert!(ran.err.contains(word), "{}", ran.err);
    }
}

/// Some damage: bits flipped, bytes overwritten, zeroed, moved, cut off or added. Gives its name.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let length = bytes.len() as u64;
    let from = random.below(length.max(1)) as usize;
    let to = (from + 1 + random.below(200) as usize).min(bytes.len());
    match random.below(6) {
        0 => {
            for _ in 0..=random.below(2) {
                bytes[random.below(length) as usize] ^= 1 << random.below(8);
            }
            "flip"
        }
        1 => {
            bytes[from..to].fill_with(|| random.below(256) as u8);
            "overwrite"
        }
        2 => {
            bytes[from..to].fill(0);
            "zero"
        }
        3 => {
            let target = random.below(length) as usize;
            let count = (to - from).min(bytes.len() - target);
            bytes.copy_within(from..from + count, target);
            "move"
        }
        4 => {
            bytes.truncate(from);
            "cut"
        }
        _ => {
            bytes.extend(special_bytes(random, 100));
            "add"
        }
    }
}

/// Whatever is damaged is told, or changes nothing of what the file holds; and nothing is shown
/// that was not there.
fn tells_damage(ending: &str) {
    let dir = TestDir::new(&format!("tells_damage{ending}"));
    let db = database(&dir);
    let mut random = Random::new(tamarack_testing::seed(0x7a3a_2ac5));
    let originals: Vec<_> = with_ending(&db, ending)
        .into_iter()
        .map(|(name, bytes)| {
            let shown = json(&inspect(&db, &name, &["--entries", "--json"]).out);
            (name, bytes, shown)
        })
        .collect();
    let mut told = 0;
    for round in 0..DAMAGES {
        let (name, original, whole) = &originals[random.below(originals.len() as u64) as usize];
        let mut bytes = original.clone();
        let how = damage(&mut bytes, &mut random);
        let path = dir.file(name, &bytes);
        let text = run(&["inspect", &path, "--entries"]);
        let ran = run(&["inspect", &path, "--entries", "--json"]);
        let what = format!("round {round}: {how} of {name}: {}", text.out.lines().last().unwrap_or_default());
        assert_eq!(text.status, ran.status, "{what}");
        assert!(matches!(ran.status, 0 | 1), "{what}: {}", ran.err);
        let shown = json(&ran.out);
        let problems = shown["problems"].as_array().expect("a list");
        assert_eq!(problems.is_empty(), ran.status == 0, "{what}");
        told += u64::from(ran.status);
        for list in ["contents", "edits"] {
            let (now, then) = (items(&shown, list), items(whole, list));
            let mut rest = then.iter();
            assert!(now.iter().all(|item| rest.any(|other| other == item)), "{what}: {list} that were not there");
            // Where whole records are cut off or become reserved space, none is missed.
            let may_end = how == "cut" || ending == ".wal" && matches!(how, "zero" | "move") && then.starts_with(&now);
            assert!(ran.status == 1 || may_end || now == then, "{what}: {list} are missing");
        }
        let is_exact = ending == ".sst" || ending == "CURRENT";
        assert!(!is_exact || bytes == *original || ran.status == 1, "{what}: not told");
    }
    assert!(told > DAMAGES / 2, "only {told} of {DAMAGES} were told");
}

fn items(shown: &Value, list: &str) -> Vec<Value> {
    shown[list].as_array().cloned().unwrap_or_default()
}

#[test]
fn damaged_tables_are_told() {
    tells_damage(".sst");
}

#[test]
fn damaged_logs_are_told() {
    tells_damage(".wal");
}

#[test]
fn damaged_manifests_are_told() {
    tells_damage(".manifest");
}

#[test]
fn a_damaged_current_is_told() {
    tells_damage("CURRENT");
}

/// Damage does not hide what stands behind it.
#[test]
fn goes_on_after_damage() {
    let dir = TestDir::new("goes_on_after_damage");
    let db = database(&dir);
    for (name, bytes) in with_ending(&db, ".sst") {
        let whole = json(&inspect(&db, &name, &["--json", "--entries"]).out);
        let block = |at: usize| whole["blocks"][at]["offset"].as_u64().expect("an offset") as usize;
        let mut damaged = bytes.clone();
        damaged[block(0) + 3] ^= 1;
        damaged[block(1) + 3] ^= 1;
        let shown = json(&run(&["inspect", &dir.file(&name, &damaged), "--json", "--entries"]).out);
        let offsets: Vec<_> = items(&shown, "problems").iter().map(|problem| problem["offset"].as_u64()).collect();
        assert_eq!(offsets, [Some(block(0) as u64), Some(block(1) as u64)], "{shown}");
        let lost = whole["blocks"][0]["entries"].as_u64().zip(whole["blocks"][1]["entries"].as_u64());
        let lost = lost.map(|(a, b)| (a + b) as usize).expect("numbers");
        assert_eq!(items(&shown, "contents"), items(&whole, "contents")[lost..]);

        // Without its footer's checksum the blocks are found all the same.
        let mut damaged = bytes;
        *damaged.last_mut().expect("not empty") ^= 1;
        let shown = json(&run(&["inspect", &dir.file(&name, &damaged), "--json", "--entries"]).out);
        assert_eq!(items(&shown, "contents"), items(&whole, "contents"), "{shown}");
        assert_eq!(items(&shown, "problems").len(), 1);
    }
    let (name, mut bytes) = with_ending(&db, ".manifest").pop().expect("there is one");
    let whole = json(&inspect(&db, &name, &["--json"]).out);
    let second = whole["edits"][1]["offset"].as_u64().expect("an offset");
    bytes[second as usize + 13] ^= 1;
    let shown = json(&run(&["inspect", &dir.file(&name, &bytes), "--json"]).out);
    assert_eq!(items(&shown, "edits").len() + 1, items(&whole, "edits").len());
    assert_eq!(
        (&shown["problems"][0]["offset"], &shown["problems"][0]["kind"]),
        (&Value::from(second), &Value::from("damaged"))
    );
    assert_eq!(shown["version_after_edit"], whole["edits"][0]["edit"]);
}

/// Damage behind checksums that fit, and files of random bytes: anything is shown or told, and
/// nothing panics.
#[test]
fn any_bytes_are_survived() {
    let dir = TestDir::new("any_bytes_are_survived");
    let db = database(&dir);
    let mut random = Random::new(tamarack_testing::seed(0x7a3a_2ac5));
    let originals: Vec<_> = files(&db).into_iter().collect();
    let mut whole = 0;
    for _ in 0..2 * DAMAGES {
        let (name, bytes) = &originals[random.below(originals.len() as u64) as usize];
        let mut bytes = bytes.clone();
        if random.below(8) == 0 {
            bytes = special_bytes(&mut random, 600);
        } else if !bytes.is_empty() {
            damage(&mut bytes, &mut random);
        }
        fit_checksums(name, &mut bytes);
        let form = ["--entries", "--json"][random.below(2) as usize];
        let ran = run(&["inspect", &dir.file(name, &bytes), form]);
        assert!(matches!(ran.status, 0 | 1 | 3), "{name}: {ran:?}");
        whole += u64::from(ran.status == 0);
    }
    assert!(whole > 0, "no checksum was made to fit");
}

/// Each byte that leads somewhere, altered behind checksums that fit: of a table the footer, the
/// other parts, and the first bytes of filter and index; of a WAL segment and a manifest the first
/// bytes.
#[test]
fn every_byte_that_leads_somewhere() {
    let dir = TestDir::new("every_byte_that_leads_somewhere");
    let db = database(&dir);
    for ending in [".sst", ".wal", ".manifest"] {
        let (name, bytes) = with_ending(&db, ending).into_iter().min_by_key(|(_, bytes)| bytes.len()).expect("one");
        let shown = json(&inspect(&db, &name, &["--json"]).out);
        let begins = |list| items(&shown, list).iter().map(|row| row["offset"].as_u64()).collect::<Vec<_>>();
        let mut offsets: Vec<usize> = [begins("parts"), begins("index"), vec![Some(0)]]
            .concat()
            .into_iter()
            .flat_map(|begin| (begin.expect("a number") as usize..bytes.len()).take(40))
            .collect();
        if ending == ".sst" {
            offsets.extend(bytes.len() - 250..bytes.len());
        }
        let mut told = 0;
        for offset in offsets {
            for change in [0xFF, 1, 2] {
                let mut bytes = bytes.clone();
                bytes[offset] ^= change;
                fit_checksums(&name, &mut bytes);
                let ran = run(&["inspect", &dir.file(&name, &bytes), "--entries"]);
                assert!(matches!(ran.status, 0 | 1 | 3), "{name} at {offset}: {ran:?}");
                told += u64::from(ran.status > 0);
            }
        }
        assert!(told > 20, "{name}: {told} told");
    }
}

/// Makes the checksums of an altered file fit again.
fn fit_checksums(name: &str, bytes: &mut [u8]) {
    if name.ends_with(".sst") {
        if let Some(claim) = claims::of_table(bytes) {
            repair_checksums(bytes, claim.database, TableId(claim.number));
        }
    } else if let Some(kind) = journal_kind(name)
        && let Some(claim) = claims::of_journal(bytes, kind)
    {
        record::repair_checksums(bytes, kind, claim.database, claim.number);
    }
}

fn journal_kind(name: &str) -> Option<FileKind> {
    match name.rsplit_once('.')?.1 {
        "wal" => Some(FileKind::Wal),
        "manifest" => Some(FileKind::Manifest),
        _ => None,
    }
}
