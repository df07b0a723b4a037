//! The names of all places that change storage, in one list.
//!
//! Each mutating call to the environment carries one of these. Tests count them, omit them, delay
//! them past each other and let each fail; a place that is missing here cannot be written, since a
//! [`Step`] is made nowhere else.

use tamarack_env::Step;

macro_rules! steps {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: Step = Step($text);)+
        /// Every step.
        pub const ALL: &[Step] = &[$($name),+];
    };
}

steps! {
    /// The database's directory is made.
    DATABASE_CREATE = "database: create directory";
    /// The name of a new database directory becomes durable in its parent.
    DATABASE_SYNC_PARENT = "database: sync parent directory";

    /// A log segment is made.
    LOG_CREATE = "log: create segment";
    /// Space for a log segment is reserved.
    LOG_ALLOCATE = "log: allocate";
    /// A segment's header is written.
    LOG_HEADER = "log: write header";
    /// A new segment's header becomes durable before anything is appended to it.
    LOG_SYNC_HEADER = "log: sync header";
    /// A commit group is appended.
    LOG_APPEND = "log: append";
    /// Commit groups become durable.
    LOG_SYNC = "log: sync";
    /// An older segment becomes durable before a newer one may acknowledge anything.
    LOG_SYNC_PREVIOUS = "log: sync previous segment";
    /// The name of a new segment becomes durable before anything is appended to it.
    LOG_SYNC_DIRECTORY = "log: sync directory";
    /// A failed append is cut off.
    LOG_CUT = "log: cut failed append";
    /// The cut becomes durable before anything else is appended.
    LOG_SYNC_CUT = "log: sync cut";
    /// The unused rest of a segment is given back when it is closed.
    LOG_TRIM = "log: trim";
    /// A segment that is no longer needed is removed.
    LOG_REMOVE = "log: remove segment";
    /// What recovery read, but does not know to be durable, is written again.
    LOG_RECOVERY_WRITE = "log: write recovered again";
    /// What recovery read becomes durable before anything is built on it.
    LOG_RECOVERY_SYNC = "log: sync recovered segment";
    /// A torn tail is cut off at recovery.
    LOG_RECOVERY_CUT = "log: cut torn tail";
    /// A segment past the log's end is removed at recovery.
    LOG_RECOVERY_REMOVE = "log: remove segment past the end";
    /// Removals at recovery become durable.
    LOG_RECOVERY_SYNC_DIRECTORY = "log: sync directory after recovery";

    /// A table file is made.
    TABLE_CREATE = "table: create";
    /// Blocks are written.
    TABLE_WRITE = "table: write";
    /// A finished table becomes durable.
    TABLE_SYNC = "table: sync";
    /// The names of finished tables become durable.
    TABLE_SYNC_DIRECTORY = "table: sync directory";
    /// A table that nothing names any more, or an orphan, is removed.
    TABLE_REMOVE = "table: remove";

    /// A manifest is made.
    MANIFEST_CREATE = "manifest: create";
    /// A manifest's header and first edit, which describes the whole state, are written.
    MANIFEST_WRITE_BASE = "manifest: write base";
    /// A new manifest becomes durable before `CURRENT` names it.
    MANIFEST_SYNC_BASE = "manifest: sync base";
    /// The name of a new manifest becomes durable before `CURRENT` names it.
    MANIFEST_SYNC_DIRECTORY = "manifest: sync directory";
    /// Space for edits is reserved, so that a disk that is full shows before an edit is written, and not in its sync.
    MANIFEST_RESERVE = "manifest: reserve";
    /// An edit is appended.
    MANIFEST_APPEND = "manifest: append";
    /// An edit becomes durable.
    MANIFEST_SYNC = "manifest: sync";
    /// What is durable is marked as such, for the next one who reads.
    MANIFEST_MARK = "manifest: mark durable";
    /// An edit or a mark that could not be written in full is cut off.
    MANIFEST_CUT_APPEND = "manifest: cut failed append";
    /// The cut becomes durable before anything else is appended.
    MANIFEST_SYNC_CUT = "manifest: sync cut";
    /// A torn tail is cut off at recovery.
    MANIFEST_CUT = "manifest: cut torn tail";
    /// What recovery read and nothing says to be durable is written once more, so that the next sync carries it to the device.
    MANIFEST_RECOVERY_WRITE = "manifest: write recovered again";
    /// What recovery read becomes durable before anything is built on it.
    MANIFEST_RECOVERY_SYNC = "manifest: sync recovered";
    /// The names that recovery found become durable before anything is removed or built on them.
    MANIFEST_RECOVERY_SYNC_DIRECTORY = "manifest: sync directory at recovery";
    /// A manifest that `CURRENT` does not name is removed.
    MANIFEST_REMOVE = "manifest: remove";
    /// The temporary file that will become `CURRENT` is made.
    CURRENT_CREATE = "current: create";
    /// Its one line is written.
    CURRENT_WRITE = "current: write";
    /// It becomes durable.
    CURRENT_SYNC = "current: sync";
    /// It takes the name `CURRENT`.
    CURRENT_RENAME = "current: rename";
    /// The new name becomes durable.
    CURRENT_SYNC_DIRECTORY = "current: sync directory";
    /// A temporary file left by a crash is removed.
    CURRENT_REMOVE = "current: remove temporary";

    /// A table's file gets a name in a checkpoint's directory.
    CHECKPOINT_LINK = "checkpoint: link table";
    /// Where a file cannot have one, a copy is made.
    CHECKPOINT_COPY_CREATE = "checkpoint: create copy";
    /// The copy is written.
    CHECKPOINT_COPY_WRITE = "checkpoint: write copy";
    /// The copy becomes durable.
    CHECKPOINT_COPY_SYNC = "checkpoint: sync copy";
    /// `CURRENT` of a checkpoint that failed in the end is removed, so that there is no database any more.
    CHECKPOINT_REMOVE_CURRENT = "checkpoint: remove CURRENT";
    /// That becomes durable before anything is removed that it leads to.
    CHECKPOINT_SYNC_REMOVED = "checkpoint: sync removal";
    /// What else there is of a checkpoint that failed is removed.
    CHECKPOINT_REMOVE = "checkpoint: remove";

    /// A file that is damaged, or that others replace, gets another name.
    REPAIR_SET_ASIDE = "repair: set aside";
    /// Such names become durable: before anything else is set aside that of `CURRENT`, and all of them before there is a new one.
    REPAIR_SYNC_DIRECTORY = "repair: sync directory";
}
