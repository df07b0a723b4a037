//! Mapped files: LevelDB maps up to a thousand tables, and pages that are mapped do not leave the
//! page cache.

use std::ffi::c_void;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use rustix::mm::{Advice, madvise};

/// Unmaps all pages of files below `dir` from this process. The mappings stay, and the next access
/// to one finds its page in the page cache or reads it from the file.
pub(super) fn release(dir: &Path) -> io::Result<()> {
    let dir = fs::canonicalize(dir)?.display().to_string();
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        if let Some(range) = shared_range(line, &dir) {
            // SAFETY: `MADV_DONTNEED` loses nothing of a shared mapping of a file. One that was
            // unmapped since then is refused with an error, which is returned; LevelDB maps
            // nothing else meanwhile than tables, for which the same holds.
            unsafe { madvise(range.start as *mut c_void, range.len(), Advice::LinuxDontNeed)? };
        }
    }
    Ok(())
}

/// The addresses of a line of `/proc/self/maps`, if it is a shared mapping of a file below `dir`:
/// `7f00-7f10 r--s 00000000 fe:00 1234 /path`.
fn shared_range(line: &str, dir: &str) -> Option<Range<usize>> {
    let (addresses, rest) = line.split_once(' ')?;
    let is_shared = rest.split(' ').next()?.ends_with('s');
    let path = &rest[rest.find('/')?..];
    let (from, to) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let is_below = path.strip_prefix(dir).is_some_and(|name| name.starts_with('/'));
    (is_shared && is_below).then_some(address(from)?..address(to)?)
}

#[test]
fn lines_of_mappings_are_read() {
    let line = "7f00-7f10 r--s 00000000 fe:00 1234                       /data/db/000005.ldb";
    assert_eq!(shared_range(line, "/data/db"), Some(0x7f00..0x7f10));
    assert_eq!(shared_range(line, "/data/d"), None, "a directory with another name");
    assert_eq!(shared_range(&line.replace("r--s", "r--p"), "/data/db"), None, "a private mapping");
    assert_eq!(shared_range("7f00-7f10 rw-p 00000000 00:00 0", "/data/db"), None, "no file");
}
