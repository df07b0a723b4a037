//! Allocations of single threads, counted by a global allocator: cached reads (`reads`) and puts
//! (`writes`) allocate nothing, and the accounts of their memory that memtables (`memtable`) and
//! decoded index blocks (`fences`) give are exact.

#![cfg(not(feature = "shuttle"))]
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

mod allocator;
mod fences;
mod memtable;
mod reads;
mod writes;
