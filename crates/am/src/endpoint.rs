// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint: its tag, handlers, segment, translation table and counters.

use crate::connection::ConnectionId;
use crate::header::CREDITS_DEFAULT;
use crate::name::Name;
use crate::region::Region;
use crate::tables::{self, Entries, Handlers, Slot, TAG_NONE};
use bellwire_via::{MemHandle, PtagHandle};
use std::sync::Arc;

/// What an endpoint counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Requests sent, by size: short, medium, bulk; and gets.
    pub requests_sent: [u64; 4],
    /// Requests handled.
    pub requests_received: [u64; 4],
    /// Replies sent: short, medium, bulk, those of gets.
    pub replies_sent: [u64; 4],
    /// Replies handled.
    pub replies_received: [u64; 4],
    /// Payload bytes of all that was sent.
    pub bytes_sent: u64,
    /// Payload bytes of all that was handled.
    pub bytes_received: u64,
    /// Messages that came back to this endpoint.
    pub returned: u64,
    /// Messages that this endpoint sent back.
    pub refused: u64,
    /// Times that a request waited for credits, room or a connection.
    pub stalls: u64,
    /// Connections ended since the peer sent what cannot be.
    pub malformed: u64,
    /// Messages that were copied once more than usual: they could not leave at once, or they came
    /// while nobody polled for them.
    pub copied: u64,
}

impl Counters {
    /// Adds those of another endpoint.
    pub fn add(&mut self, other: &Self) {
        for (a, b) in [
            (&mut self.requests_sent, &other.requests_sent),
            (&mut self.requests_received, &other.requests_received),
            (&mut self.replies_sent, &other.replies_sent),
            (&mut self.replies_received, &other.replies_received),
        ] {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        }
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.returned += other.returned;
        self.refused += other.refused;
        self.stalls += other.stalls;
        self.malformed += other.malformed;
        self.copied += other.copied;
    }
}

/// An entry of the translation table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    pub connection: ConnectionId,
}

/// The memory that bulk messages and gets of others reach.
#[derive(Debug)]
pub(crate) struct Segment {
    pub address: u64,
    pub length: u64,
    pub handle: MemHandle,
    /// Its memory, if it is not the program's own.
    pub owner: Option<Arc<Region>>,
}

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint<H> {
    pub(crate) name: Name,
    pub(crate) tag: u64,
    pub(crate) ptag: PtagHandle,
    pub(crate) handlers: Handlers<H>,
    pub(crate) on_departure: Slot<H>,
    pub(crate) translations: Entries<Translation>,
    pub(crate) segment: Option<Segment>,
    /// Requests that it may have out on a connection made from now on.
    pub(crate) credits: u32,
    pub(crate) counters: Counters,
}

impl<H> Endpoint<H> {
    pub(crate) fn new(name: Name, ptag: PtagHandle) -> Self {
        Self {
            name,
            tag: TAG_NONE,
            ptag,
            handlers: Handlers::default(),
            on_departure: Slot::Free,
            translations: Entries::default(),
            segment: None,
            credits: CREDITS_DEFAULT,
            counters: Counters::default(),
        }
    }

    /// Whether a message with this tag is accepted.
    #[inline]
    pub(crate) fn accepts(&self, tag: u64) -> bool {
        tables::accepts(self.tag, tag)
    }
}
