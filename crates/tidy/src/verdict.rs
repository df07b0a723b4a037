//! How a rule reports: everything that breaks it at once, one line each.

/// Fails unless there is nothing to complain about.
pub(crate) fn assert_none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}\n  {}\n", complaints.join("\n  "));
}
