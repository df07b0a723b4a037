//! The list of all steps that change storage, by name.
//!
//! Each mutating call to the environment carries one of these. Tests count them, omit them, reorder
//! them and let each fail. No step is missing here, since a [`Step`] is made nowhere else.

use tamarack_env::Step;

macro_rules! steps {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: Step = Step($text);)+
        /// Every step.
        pub const ALL: &[Step] = &[$($name),+];
    };
}

steps! {
    /// Creates the database's directory.
    DATABASE_CREATE = "database: create directory";
    /// Syncs the parent of a new database directory, so that its name is durable.
    DATABASE_SYNC_PARENT = "database: sync parent directory";

    /// Creates a WAL segment.
    WAL_CREATE = "wal: create segment";
    /// Preallocates a WAL segment.
    WAL_ALLOCATE = "wal: allocate";
    /// Writes a segment's header.
    WAL_HEADER = "wal: write header";
    /// Syncs a new segment's header before anything is appended to it.
    WAL_SYNC_HEADER = "wal: sync header";
    /// Appends a commit group.
    WAL_APPEND = "wal: append";
    /// Syncs commit groups.
    WAL_SYNC = "wal: sync";
    /// Syncs an older segment before a newer one may acknowledge anything.
    WAL_SYNC_PREVIOUS = "wal: sync previous segment";
    /// Syncs the name of a new segment before anything is appended to it.
    WAL_SYNC_DIRECTORY = "wal: sync directory";
    /// Truncates a failed append.
    WAL_CUT = "wal: cut failed append";
    /// Syncs the truncation before anything else is appended.
    WAL_SYNC_CUT = "wal: sync cut";
    /// Frees the unused rest of a closed segment.
    WAL_TRIM = "wal: trim";
    /// Removes a segment that is no longer needed.
    WAL_REMOVE = "wal: remove segment";
    /// Writes again what recovery read, but does not know to be durable.
    WAL_RECOVERY_WRITE = "wal: write recovered again";
    /// Syncs what recovery read before anything is built on it.
    WAL_RECOVERY_SYNC = "wal: sync recovered segment";
    /// Truncates a torn tail at recovery.
    WAL_RECOVERY_CUT = "wal: cut torn tail";
    /// Removes a segment past the WAL's end at recovery.
    WAL_RECOVERY_REMOVE = "wal: remove segment past the end";
    /// Syncs removals at recovery.
    WAL_RECOVERY_SYNC_DIRECTORY = "wal: sync directory after recovery";

    /// Creates a table file.
    TABLE_CREATE = "table: create";
    /// Writes blocks.
    TABLE_WRITE = "table: write";
    /// Syncs a finished table.
    TABLE_SYNC = "table: sync";
    /// Syncs the names of finished tables.
    TABLE_SYNC_DIRECTORY = "table: sync directory";
    /// Removes an unreferenced table, or an orphan.
    TABLE_REMOVE = "table: remove";

    /// Creates a manifest.
    MANIFEST_CREATE = "manifest: create";
    /// Writes a manifest's header and first edit, which describes the whole state.
    MANIFEST_WRITE_BASE = "manifest: write base";
    /// Syncs a new manifest before `CURRENT` names it.
    MANIFEST_SYNC_BASE = "manifest: sync base";
    /// Syncs the name of a new manifest before `CURRENT` names it.
    MANIFEST_SYNC_DIRECTORY = "manifest: sync directory";
    /// Reserves space for edits, so that a full disk fails this call, and not the sync of an edit.
    MANIFEST_RESERVE = "manifest: reserve";
    /// Appends an edit.
    MANIFEST_APPEND = "manifest: append";
    /// Syncs an edit.
    MANIFEST_SYNC = "manifest: sync";
    /// Marks what is durable, for the next recovery.
    MANIFEST_MARK = "manifest: mark durable";
    /// Truncates an incomplete edit or mark.
    MANIFEST_CUT_APPEND = "manifest: cut failed append";
    /// Syncs the truncation before anything else is appended.
    MANIFEST_SYNC_CUT = "manifest: sync cut";
    /// Truncates a torn tail at recovery.
    MANIFEST_CUT = "manifest: cut torn tail";
    /// Writes again what recovery read, but does not know to be durable, so that the next sync
    /// carries it to the device.
    MANIFEST_RECOVERY_WRITE = "manifest: write recovered again";
    /// Syncs what recovery read before anything is built on it.
    MANIFEST_RECOVERY_SYNC = "manifest: sync recovered";
    /// Syncs the names that recovery found before anything is removed or built on them.
    MANIFEST_RECOVERY_SYNC_DIRECTORY = "manifest: sync directory at recovery";
    /// Removes a manifest that `CURRENT` does not name.
    MANIFEST_REMOVE = "manifest: remove";
    /// Creates the temporary file that becomes `CURRENT`.
    CURRENT_CREATE = "current: create";
    /// Writes its one line.
    CURRENT_WRITE = "current: write";
    /// Syncs it.
    CURRENT_SYNC = "current: sync";
    /// Renames it to `CURRENT`.
    CURRENT_RENAME = "current: rename";
    /// Syncs the new name.
    CURRENT_SYNC_DIRECTORY = "current: sync directory";
    /// Removes a temporary file left by a crash.
    CURRENT_REMOVE = "current: remove temporary";

    /// Links a table's file into a checkpoint's directory.
    CHECKPOINT_LINK = "checkpoint: link table";
    /// Creates a copy where a file cannot be linked.
    CHECKPOINT_COPY_CREATE = "checkpoint: create copy";
    /// Writes the copy.
    CHECKPOINT_COPY_WRITE = "checkpoint: write copy";
    /// Syncs the copy.
    CHECKPOINT_COPY_SYNC = "checkpoint: sync copy";
    /// Removes `CURRENT` of a checkpoint that failed in the end, so that its directory is no
    /// database.
    CHECKPOINT_REMOVE_CURRENT = "checkpoint: remove CURRENT";
    /// Syncs that removal before anything is removed that `CURRENT` leads to.
    CHECKPOINT_SYNC_REMOVED = "checkpoint: sync removal";
    /// Removes the other files of a failed checkpoint.
    CHECKPOINT_REMOVE = "checkpoint: remove";

    /// Creates the file whose reads, writes and syncs a calibration measures.
    CALIBRATION_CREATE_DATA = "calibration: create data file";
    /// Preallocates the part of it that is synced, as a WAL segment is.
    CALIBRATION_ALLOCATE_DATA = "calibration: allocate data";
    /// Writes it.
    CALIBRATION_WRITE_DATA = "calibration: write data";
    /// Syncs it.
    CALIBRATION_SYNC_DATA = "calibration: sync data";
    /// Removes its name, or a temporary file left by a crash.
    CALIBRATION_REMOVE = "calibration: remove temporary";
    /// Creates the temporary file that becomes `CALIBRATION`.
    CALIBRATION_CREATE = "calibration: create";
    /// Writes the measured figures.
    CALIBRATION_WRITE = "calibration: write";
    /// Syncs them.
    CALIBRATION_SYNC = "calibration: sync";
    /// Renames it to `CALIBRATION`.
    CALIBRATION_RENAME = "calibration: rename";
    /// Syncs the new name.
    CALIBRATION_SYNC_DIRECTORY = "calibration: sync directory";

    /// Renames a file that is damaged, or that repair replaces.
    REPAIR_SET_ASIDE = "repair: set aside";
    /// Syncs the new names: that of `CURRENT` before any other file is set aside, and all of them
    /// before there is a new `CURRENT`.
    REPAIR_SYNC_DIRECTORY = "repair: sync directory";
}
