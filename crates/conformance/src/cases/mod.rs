// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules, one function each. Every function builds what it needs on an empty
//! [`Stage`](crate::Stage).

pub mod completion;
pub mod connect;
pub mod extensions;
pub mod faults;
pub mod inbox;
pub mod memory;
pub mod peer;
pub mod pressure;
pub mod protection;
pub mod rdma;
pub mod reliability;
pub mod states;
pub mod transfer;
