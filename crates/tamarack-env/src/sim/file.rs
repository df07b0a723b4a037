//! The handles that a process holds: open files and locks.
//!
//! A handle names an inode, so it goes on working when the file is renamed or removed. Each call
//! becomes a [`Call`] with its operation and goes through the [`Machine`]; nothing is decided here
//! but who may write. Dropping a handle is no call: it only lets the disk know that the file's
//! space may be freed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::background::Process;
use super::fault::{Call, CallKind};
use super::inode::Inode;
use super::machine::{Machine, Operation, Outcome, call};
use crate::env::{Access, File, Lock, Step};

/// The alignment of direct reads, in bytes. Nothing depends on it here but what callers make of it.
const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct SimFile {
    machine: Arc<Machine>,
    process: Arc<Process>,
    inode: Inode,
    /// Under which it was opened; it may have another name by now.
    path: Arc<Path>,
    access: Access,
}

#[derive(Debug)]
pub(super) struct SimLock {
    machine: Arc<Machine>,
    inode: Inode,
    number: u64,
}

impl SimFile {
    pub(super) fn new(
        machine: Arc<Machine>,
        process: Arc<Process>,
        inode: Inode,
        path: &Path,
        access: Access,
    ) -> Arc<Self> {
        machine.with(|state| state.disk_mut().opened(inode));
        Arc::new(Self { machine, process, inode, path: path.into(), access })
    }

    fn call(&self, kind: CallKind, step: Option<Step>, offset: u64, bytes: usize) -> Call {
        call(kind, step, self.path.clone(), offset, bytes)
    }

    fn change(&self, call: Call, operation: Operation) -> io::Result<Outcome> {
        if self.access != Access::ReadWrite {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file was opened for reading only"));
        }
        self.machine.change(&self.process.life, call, operation)
    }

    /// Reads that bypass the page cache see what is on the device, which after a full sync is the
    /// same.
    fn is_direct(&self) -> bool {
        self.access == Access::ReadDirect
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let call = self.call(CallKind::Read, None, offset, buffer.len());
        let count = self.machine.observe(&self.process.life, call)?;
        let disk = self.machine.disk();
        let count = disk.file(self.inode).seen(self.is_direct()).read(&mut buffer[..count], offset);
        self.machine.with(|state| state.charge_read(self.inode, offset, count));
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, step: Step) -> io::Result<usize> {
        let call = self.call(CallKind::Write, Some(step), offset, bytes.len());
        match self.change(call, Operation::Write { inode: self.inode, bytes: bytes.into() })? {
            Outcome::Wrote(count) => Ok(count),
            other => unreachable!("a write gave {other:?}"),
        }
    }

    fn sync(&self, step: Step) -> io::Result<()> {
        let call = self.call(CallKind::Sync, Some(step), 0, 0);
        // Any handle may sync: it is the file that becomes durable, not the handle.
        self.machine.change(&self.process.life, call, Operation::Sync { inode: self.inode }).map(|_| ())
    }

    fn set_len(&self, length: u64, step: Step) -> io::Result<()> {
        let call = self.call(CallKind::SetLen, Some(step), length, 0);
        self.change(call, Operation::SetLen { inode: self.inode }).map(|_| ())
    }

    fn allocate(&self, length: u64, step: Step) -> io::Result<()> {
        let call = self.call(CallKind::Allocate, Some(step), length, 0);
        self.change(call, Operation::Allocate { inode: self.inode }).map(|_| ())
    }

    fn reserve(&self, length: u64, step: Step) -> io::Result<()> {
        let call = self.call(CallKind::Reserve, Some(step), length, 0);
        self.change(call, Operation::Reserve { inode: self.inode }).map(|_| ())
    }

    fn len(&self) -> io::Result<u64> {
        self.machine.observe(&self.process.life, self.call(CallKind::Len, None, 0, 0))?;
        Ok(self.machine.disk().file(self.inode).seen(self.is_direct()).len())
    }

    fn direct_alignment(&self) -> Option<usize> {
        self.is_direct().then_some(SECTOR_BYTES)
    }

    /// Nothing becomes durable: the contract promises nothing, and a crash image may keep any
    /// unsynced write anyway. Only a device with a speed gets something to do.
    fn start_writeback(&self, offset: u64, length: u64) {
        if self.process.life.check().is_ok() {
            self.machine.with(|state| state.start_writeback(self.inode, offset, length));
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.machine.with(|state| state.disk_mut().closed(self.inode));
    }
}

impl SimLock {
    /// Takes the lock of a file, which is created if needed.
    pub(super) fn take(machine: Arc<Machine>, path: &Path) -> io::Result<Box<dyn Lock>> {
        let (inode, number) = machine.lock(path)?;
        Ok(Box::new(Self { machine, inode, number }))
    }

    /// Takes a share of the lock of a file.
    pub(super) fn share(machine: Arc<Machine>, path: &Path) -> io::Result<Box<dyn Lock>> {
        let (inode, number) = machine.share_lock(path)?;
        Ok(Box::new(Self { machine, inode, number }))
    }
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.machine.unlock(self.inode, self.number);
    }
}
