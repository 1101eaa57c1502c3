// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global memory for Rust programs: every process of a job has memory of its own, and a global pointer names a place in any of them. The operations are those of Split-C (section 4.2, "Split-C Global
//! Memory", of the paper on VIA, Active Messages and Split-C that the project starts from; D. E. Culler and others, "Parallel Programming in Split-C", Supercomputing 1993), with types that make misuse hard.
//!
//! ```no_run
//! use bellwire_global::{Global, SpreadArray};
//!
//! let global = Global::start()?;
//! // A block of 100 numbers in each process.
//! let array = SpreadArray::new(&global, global.processes() as usize, 100, 0u64)?;
//! let next = (global.process() as usize + 1) % global.processes() as usize;
//! global.write(array.at(next, 7), 42)?;
//! global.barrier()?;
//! assert_eq!(array.local(0).get(7), 42);
//! drop(array);
//! global.finish()?;
//! # Ok::<(), bellwire_global::Error>(())
//! ```
//!
//! `bellwire run -n 4 PROGRAM` starts it, and so does every launcher that `bellwire-job` knows. Over shared memory an access to a word is a load or a store behind a look into a table; between hosts it is
//! a message. The program does not see a difference, except in time.
//!
//! | operation | when it is complete |
//! |---|---|
//! | [`Global::read`], [`Global::write`] | when it returns |
//! | [`Phase::get`], [`Phase::put`] | when the [`Global::split`] around it returns |
//! | [`Global::put`] | after [`Global::sync`] |
//! | [`Global::store`] | when the target has counted it ([`Global::store_sync`]), or for everybody after [`Global::all_store_sync`] |
//!
//! What is caught, and when:
//! - Reading what a get is still bringing does not compile: the destination is borrowed until the phase is over.
//! - What is not plain data (references, anything with padding or with bits that mean nothing) does not compile: [`Plain`].
//! - A spread array cannot outlive global memory, and global memory cannot end while there is one: lifetimes.
//! - A pointer to nothing is an [`Error`]: what is not in symmetric memory is never touched, whatever bits a pointer has.
//! - An index outside a block, or slices of different lengths, panic, as with slices.
//! - Processes whose spread allocations do not agree get [`Error::Misfit`].
//!
//! | file | what |
//! |---|---|
//! | `plain.rs` | which types can lie in global memory; words |
//! | `pointer.rs` | [`GlobalPtr`], [`GlobalSlice`], [`SpreadPtr`] |
//! | `spread.rs` | [`SpreadArray`], and a process's own blocks of it |
//! | `start.rs` | [`Global`]: start and end |
//! | `access.rs` | one access: read, write, put, store, atomic operations |
//! | `split.rs` | [`Phase`]: gets and puts that are complete together |
//! | `together.rs` | what all processes do together |
//!
//! Unsafe code relies on G1 of `bellwire-gas` (what is mapped stays mapped) and on three invariants.
//! - T1: symmetric memory is used by volatile accesses, atomics and copies alone: no reference to it is made. Who makes a slice of it ([`Local::as_mut_slice`]) has promised that nobody else uses it meanwhile.
//! - T2: the destination of a get is valid until the phase is over: `'scope` outlives every use, and the phase's end waits, also when it unwinds.
//! - T3: the table of processes is written by `Global::start` alone, of which one succeeds in a process, and read through a `Global`.

mod access;
mod plain;
mod pointer;
mod split;
mod spread;
mod start;
mod together;

pub use bellwire_gas::{Error, Left, Trouble};
pub use bellwire_job::Job;
pub use plain::{AtomicWord, Bits, Number, Plain, Scalar};
pub use pointer::{GlobalPtr, GlobalSlice, SpreadPtr};
pub use split::Phase;
pub use spread::{Local, SpreadArray};
pub use start::Global;
