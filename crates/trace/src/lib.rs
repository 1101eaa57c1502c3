// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: what a program called, what the engine did of it, and when. `bellwire trace` runs a
//! program with `BELLWIRE_TRACE` set to a folder; each thread that has something to tell writes a
//! file there, and the command reads them all.
//!
//! | what | where |
//! |---|---|
//! | calls that set something up | [`mod@call`] |
//! | addresses in events | [`address`] |
//! | the kinds of events, and what their fields mean | [`kinds`] |
//! | an event in slots of four words, and back | [`event`] |
//! | whether this process is traced, since when, and into which folder | [`session`] |
//! | the log of the calling thread | [`here`] |
//! | time stamps, and what they are in nanoseconds | [`stamp`] |
//! | marks of the steps of a message, for measuring programs | [`probe`] |
//! | which of many objects are compared this time | [`turns`] |
//! | the file of a thread, read with care | [`mod@file`] |
//! | one clock for the files of all threads | [`timeline`] |
//! | the clocks of several hosts, tied by messages | [`hosts`] |
//! | how far a clock is ahead of another, and the error | [`offset`] |
//!
//! Nothing here costs a program that is not traced: layers ask [`here::is_on`] when a NIC or a
//! context is opened, and then have what they do watched (`bellwire_memory::token`), or other
//! functions called.

#![forbid(unsafe_code)]

pub mod address;
pub mod call;
pub mod event;
pub mod file;
pub mod here;
pub mod hosts;
pub mod kinds;
pub mod offset;
pub mod probe;
pub mod session;
pub mod stamp;
pub mod timeline;
pub mod turns;

pub use event::Event;
pub use kinds::Kind;
