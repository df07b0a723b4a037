//! LevelDB's C API (`leveldb/c.h`) behind safe functions: only what is measured, for one database.
//!
//! An error of LevelDB is a panic, which ends the measurement.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::{ptr, slice};

/// Types of which C tells nothing but pointers.
macro_rules! opaque {
    ($($name:ident)*) => { $(#[repr(C)] struct $name([u8; 0]);)* };
}

opaque! { RawDb RawOptions RawRead RawWrite RawIterator RawFilter RawCache }

// SAFETY: the declarations are those of `leveldb/c.h` of version 1.23; `uint8_t` is its boolean.
#[link(name = "leveldb")]
unsafe extern "C" {
    fn leveldb_major_version() -> c_int;
    fn leveldb_minor_version() -> c_int;
    fn leveldb_free(pointer: *mut c_void);

    fn leveldb_options_create() -> *mut RawOptions;
    fn leveldb_options_destroy(options: *mut RawOptions);
    fn leveldb_options_set_create_if_missing(options: *mut RawOptions, value: u8);
    fn leveldb_options_set_paranoid_checks(options: *mut RawOptions, value: u8);
    fn leveldb_options_set_write_buffer_size(options: *mut RawOptions, bytes: usize);
    fn leveldb_options_set_max_open_files(options: *mut RawOptions, files: c_int);
    fn leveldb_options_set_max_file_size(options: *mut RawOptions, bytes: usize);
    fn leveldb_options_set_block_size(options: *mut RawOptions, bytes: usize);
    fn leveldb_options_set_compression(options: *mut RawOptions, kind: c_int);
    fn leveldb_options_set_filter_policy(options: *mut RawOptions, filter: *mut RawFilter);
    fn leveldb_options_set_cache(options: *mut RawOptions, cache: *mut RawCache);
    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut RawFilter;
    fn leveldb_filterpolicy_destroy(filter: *mut RawFilter);
    fn leveldb_cache_create_lru(bytes: usize) -> *mut RawCache;
    fn leveldb_cache_destroy(cache: *mut RawCache);
    fn leveldb_readoptions_create() -> *mut RawRead;
    fn leveldb_readoptions_destroy(options: *mut RawRead);
    fn leveldb_writeoptions_create() -> *mut RawWrite;
    fn leveldb_writeoptions_destroy(options: *mut RawWrite);
    fn leveldb_writeoptions_set_sync(options: *mut RawWrite, value: u8);

    fn leveldb_open(options: *const RawOptions, dir: *const c_char, error: *mut *mut c_char) -> *mut RawDb;
    fn leveldb_close(db: *mut RawDb);
    fn leveldb_put(
        db: *mut RawDb,
        options: *const RawWrite,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_get(
        db: *mut RawDb,
        options: *const RawRead,
        key: *const c_char,
        key_bytes: usize,
        value_bytes: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn leveldb_compact_range(
        db: *mut RawDb,
        from: *const c_char,
        from_bytes: usize,
        to: *const c_char,
        to_bytes: usize,
    );
    fn leveldb_property_value(db: *mut RawDb, name: *const c_char) -> *mut c_char;

    fn leveldb_create_iterator(db: *mut RawDb, options: *const RawRead) -> *mut RawIterator;
    fn leveldb_iter_destroy(iterator: *mut RawIterator);
    fn leveldb_iter_valid(iterator: *const RawIterator) -> u8;
    fn leveldb_iter_seek(iterator: *mut RawIterator, key: *const c_char, key_bytes: usize);
    fn leveldb_iter_seek_to_last(iterator: *mut RawIterator);
    fn leveldb_iter_next(iterator: *mut RawIterator);
    fn leveldb_iter_prev(iterator: *mut RawIterator);
    fn leveldb_iter_key(iterator: *const RawIterator, bytes: *mut usize) -> *const c_char;
    fn leveldb_iter_value(iterator: *const RawIterator, bytes: *mut usize) -> *const c_char;
    fn leveldb_iter_get_error(iterator: *const RawIterator, error: *mut *mut c_char);
}

/// What can be set of a database.
pub(super) struct Settings {
    pub memtable_bytes: usize,
    pub table_bytes: usize,
    pub block_bytes: usize,
    pub cache_bytes: usize,
    pub filter_bits: i32,
    pub open_files: i32,
    pub compresses: bool,
    pub syncs: bool,
}

/// An open database.
pub(super) struct Db {
    db: *mut RawDb,
    filter: *mut RawFilter,
    cache: *mut RawCache,
    read: *mut RawRead,
    write: *mut RawWrite,
}

// SAFETY: "A DB is safe for concurrent access from multiple threads without any external
// synchronization" (leveldb/db.h); so are its cache and its filter policy. The options for reads
// and writes are not changed after opening.
unsafe impl Sync for Db {}

/// The version of the library that is linked, such as 1.23.
pub(super) fn version() -> String {
    // SAFETY: both only return a constant.
    let (major, minor) = unsafe { (leveldb_major_version(), leveldb_minor_version()) };
    format!("{major}.{minor}")
}

impl Db {
    /// Opens the database in `dir`, or makes it there.
    pub(super) fn open(dir: &Path, settings: &Settings) -> Self {
        let dir = CString::new(dir.as_os_str().as_encoded_bytes()).expect("a path has no zero bytes");
        // SAFETY: each setter gets the options that were just created; the filter policy and the
        // cache outlive the database (see `drop`), which has a copy of the options.
        unsafe {
            let options = leveldb_options_create();
            let filter = leveldb_filterpolicy_create_bloom(settings.filter_bits);
            let cache = leveldb_cache_create_lru(settings.cache_bytes);
            leveldb_options_set_create_if_missing(options, 1);
            leveldb_options_set_paranoid_checks(options, 1);
            leveldb_options_set_write_buffer_size(options, settings.memtable_bytes);
            leveldb_options_set_max_file_size(options, settings.table_bytes);
            leveldb_options_set_max_open_files(options, settings.open_files);
            leveldb_options_set_block_size(options, settings.block_bytes);
            leveldb_options_set_compression(options, settings.compresses.into());
            leveldb_options_set_filter_policy(options, filter);
            leveldb_options_set_cache(options, cache);
            let (read, write) = (leveldb_readoptions_create(), leveldb_writeoptions_create());
            leveldb_writeoptions_set_sync(write, settings.syncs.into());
            let db = checked(|error| leveldb_open(options, dir.as_ptr(), error));
            leveldb_options_destroy(options);
            Self { db, filter, cache, read, write }
        }
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8]) {
        let ((key, key_bytes), (value, value_bytes)) = (c_bytes(key), c_bytes(value));
        // SAFETY: the pointers are those of `self` and of borrowed bytes, which are copied.
        checked(|error| unsafe { leveldb_put(self.db, self.write, key, key_bytes, value, value_bytes, error) });
    }

    /// Calls `found` with the value, if there is one.
    pub(super) fn get(&self, key: &[u8], found: impl FnOnce(&[u8])) {
        let ((key, key_bytes), mut bytes) = (c_bytes(key), 0);
        // SAFETY: the pointers are those of `self`, of borrowed bytes and of a local variable.
        let value = checked(|error| unsafe { leveldb_get(self.db, self.read, key, key_bytes, &mut bytes, error) });
        if !value.is_null() {
            // SAFETY: LevelDB has allocated so many bytes for the caller, who frees them once.
            unsafe {
                found(slice::from_raw_parts(value.cast(), bytes));
                leveldb_free(value.cast());
            }
        }
    }

    /// Flushes the memtable, and compacts tables with keys between `from` and `to`, both included.
    pub(super) fn compact(&self, from: &[u8], to: &[u8]) {
        let ((from, from_bytes), (to, to_bytes)) = (c_bytes(from), c_bytes(to));
        // SAFETY: the pointers are those of `self` and of bytes that are borrowed until it returns.
        unsafe { leveldb_compact_range(self.db, from, from_bytes, to, to_bytes) }
    }

    /// A text of LevelDB about itself, such as `leveldb.stats`.
    pub(super) fn property(&self, name: &CStr) -> String {
        // SAFETY: the pointers are those of `self` and of a string that ends with a zero byte.
        let text = unsafe { leveldb_property_value(self.db, name.as_ptr()) };
        owned(text).unwrap_or_else(|| panic!("leveldb has a property {name:?}"))
    }

    pub(super) fn cursor(&self) -> Cursor<'_> {
        // SAFETY: the pointers are those of `self`, which the cursor borrows.
        let iterator = unsafe { leveldb_create_iterator(self.db, self.read) };
        Cursor { iterator, db: PhantomData }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: nothing else has these pointers: cursors borrow `self`. What the database uses
        // goes after it.
        unsafe {
            leveldb_close(self.db);
            leveldb_cache_destroy(self.cache);
            leveldb_filterpolicy_destroy(self.filter);
            leveldb_readoptions_destroy(self.read);
            leveldb_writeoptions_destroy(self.write);
        }
    }
}

/// A position among the entries of a snapshot.
pub(super) struct Cursor<'a> {
    iterator: *mut RawIterator,
    db: PhantomData<&'a Db>,
}

impl Cursor<'_> {
    /// Goes to the first entry from `key` on.
    pub(super) fn seek(&mut self, key: &[u8]) {
        let (key, bytes) = c_bytes(key);
        // SAFETY: the iterator lives as long as `self`.
        unsafe { leveldb_iter_seek(self.iterator, key, bytes) }
    }

    /// Goes to the last entry up to `key`, `key` included.
    pub(super) fn seek_down(&mut self, key: &[u8]) {
        self.seek(key);
        match self.entry() {
            Some((at, _)) if at == key => (),
            Some(_) => self.previous(),
            // SAFETY: the iterator lives as long as `self`.
            None => unsafe { leveldb_iter_seek_to_last(self.iterator) },
        }
    }

    /// Steps upward. There must be an entry here.
    pub(super) fn next(&mut self) {
        // SAFETY: the iterator lives as long as `self`; callers have looked at an entry.
        unsafe { leveldb_iter_next(self.iterator) }
    }

    /// Steps downward. There must be an entry here.
    pub(super) fn previous(&mut self) {
        // SAFETY: the iterator lives as long as `self`; callers have looked at an entry.
        unsafe { leveldb_iter_prev(self.iterator) }
    }

    /// Key and value, unless the cursor has left the entries.
    pub(super) fn entry(&self) -> Option<(&[u8], &[u8])> {
        // SAFETY: a valid iterator has a key and a value, which stay until it moves; moving takes
        // `&mut self`.
        unsafe {
            if leveldb_iter_valid(self.iterator) == 0 {
                return None;
            }
            let (mut key_bytes, mut value_bytes) = (0, 0);
            let key = leveldb_iter_key(self.iterator, &mut key_bytes);
            let value = leveldb_iter_value(self.iterator, &mut value_bytes);
            Some((slice::from_raw_parts(key.cast(), key_bytes), slice::from_raw_parts(value.cast(), value_bytes)))
        }
    }

    /// Panics if the cursor has met an error, which also ends its entries.
    pub(super) fn check(&self) {
        // SAFETY: the iterator lives as long as `self`.
        checked(|error| unsafe { leveldb_iter_get_error(self.iterator, error) });
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing else has the pointer.
        unsafe { leveldb_iter_destroy(self.iterator) }
    }
}

fn c_bytes(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// What `call` returns, unless it sets an error.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> T {
    let mut error = ptr::null_mut();
    let returned = call(&mut error);
    if let Some(error) = owned(error) {
        panic!("leveldb works: {error}");
    }
    returned
}

/// The text that LevelDB has allocated for the caller; `None` of null.
fn owned(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: all texts that the API returns end with a zero byte, and are freed by their caller,
    // once: no other function here keeps one.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        leveldb_free(text.cast());
        Some(owned)
    }
}
