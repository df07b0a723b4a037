//! Allocations of single threads, counted by a global allocator: cached reads allocate nothing
//! (`reads`), and a memtable's account of its memory is exact (`buffer`).

#![cfg(not(feature = "shuttle"))]
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

mod allocator;
mod memtable;
mod reads;
