// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files by which programs find RDMA devices, as the C library's calls show them:
//! `/dev/infiniband` and `/sys/class/infiniband*` with the devices behind them. Nothing of it is on
//! a disk: texts are answered from memory, so nothing can be left behind.
//!
//! | file | concern |
//! |---|---|
//! | `tree.rs` | files, folders and links by path; how a path is followed |
//! | `view.rs` | the tree of our devices |
//! | `character.rs` | character devices and their names |
//! | `gate.rs` | which paths and descriptors are ours: the only cost that other programs have |
//! | `table.rs` | descriptors of ours, and what they are |
//! | `real.rs` | the C library's own calls |
//! | `calls/` | the calls that are taken, one file for a family |
//!
//! Every call begins with the gate. A foreign path goes to the C library unchanged. A path of ours
//! that leads outside (a link to a network interface) goes there by its real name.
//!
//! Invariants, on which `unsafe` blocks rely:
//! - F1: arguments are those of a call of the C library: what it may read or write, so may we.
//! - F2: a function of `real.rs` is the C library's own, called with the arguments of the call that
//!   was taken.

mod calls;
mod character;
mod gate;
mod real;
mod table;
mod tree;
mod view;

pub(crate) use gate::as_the_system_has_them;
