// SPDX-License-Identifier: MIT OR Apache-2.0
//! The multicast groups of a device.

use crate::types::Gid;
use bellwire_via::wire::udp::{GroupSender, GroupSocket};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The groups of a device.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub joined: BTreeMap<Gid, Joined>,
    pub sender: Option<GroupSender>,
}

#[derive(Debug)]
pub(crate) struct Joined {
    pub socket: Arc<GroupSocket>,
    /// The queue pairs that are attached.
    pub qps: Vec<u32>,
}
