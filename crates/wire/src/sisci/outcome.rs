// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcomes of calls that take time, which the worker makes and the NIC reads.

use super::message::Door;
use crate::LinkFailure;
use bellwire_sisci_calls::{Remote, RemoteDataInterrupt, RemoteInterrupt};
use std::sync::Arc;

/// Where a NIC is: its node, and whether that is this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub node: u32,
    pub near: bool,
}

/// A NIC that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub door: Door,
    pub place: Place,
    pub control: Arc<RemoteDataInterrupt>,
    /// Tells of its end.
    pub hub: Remote,
}

/// A peer's end of a link.
#[derive(Debug)]
pub(super) struct Joined {
    pub remote: Remote,
    pub control: Arc<RemoteDataInterrupt>,
    pub bell: Option<Arc<RemoteInterrupt>>,
}

/// How a job ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Found { request: u64, found: Result<Found, LinkFailure> },
    Joined { token: u64, joined: Result<Joined, LinkFailure> },
    Mapped { token: u64, segment: u32, write: bool, remote: Option<Remote> },
}
