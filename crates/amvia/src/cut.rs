// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk data and long replies, which mapping v1 cuts into pieces.

use crate::head::Head;
use crate::record::Record;

/// A bulk request or get whose pieces leave.
pub(crate) struct Stream {
    pub record: Record,
    pub head: Head,
    pub data: *const u8,
    pub sent: usize,
}

// SAFETY: S1: the data is memory of the program, which stays until the request is over or its last
// piece has left, as the caller of the request has promised.
unsafe impl Send for Stream {}

/// A reply that is fetched.
pub(crate) struct Fetch {
    pub number: u64,
    pub record: Record,
    pub head: Head,
    pub length: usize,
    pub asked: usize,
    pub data: Vec<u8>,
}
