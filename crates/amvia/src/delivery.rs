// SPDX-License-Identifier: MIT OR Apache-2.0
//! A message that has come, from its arrival until its handler has returned.

use crate::head::Head;
use crate::name::Name;
use crate::vi::Memory;
use std::sync::Arc;

/// A message.
pub(crate) struct Delivery {
    pub map: u32,
    pub lane: usize,
    /// Its receive buffer, if it is still to be posted again, and what keeps that.
    pub receive: Option<usize>,
    pub _memory: Arc<Memory>,
    /// v1: a reply that was fetched.
    pub fetched: Vec<u8>,
    pub endpoint: u32,
    pub source: Name,
    pub tag: u64,
    pub head: Head,
    /// The payload: in the receive buffer, or in the endpoint's segment.
    pub payload: *const u8,
    pub length: usize,
    pub has_replied: bool,
}

// SAFETY: D1: the payload lies in the receive buffer, which `_memory` keeps, in `fetched`, or in a
// segment, which the program keeps as `AM_SetSeg` asks.
unsafe impl Send for Delivery {}
