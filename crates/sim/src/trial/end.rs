// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels: two ends that connect again and again, and what each has posted.

use super::content::BLANK;
use crate::memory::Memory;
use bellwire_time::Instant;
use bellwire_via::{Reliability, Segment, ViHandle, WaitHandle};
use std::collections::VecDeque;

/// Bytes of a place for a message.
pub(super) const PLACE: usize = 8192;
/// Places to send from, and as many to receive into.
pub(super) const PLACES: usize = 4;
/// Bytes of a slot that the peer writes.
pub(super) const SLOT: usize = 2048;
/// Such slots.
pub(super) const SLOTS: usize = 2;
/// Where they begin.
pub(super) const WINDOW: usize = 2 * PLACES * PLACE;
/// What the peer reads: where, and bytes.
pub(super) const LIBRARY_AT: usize = WINDOW + SLOTS * SLOT;
pub(super) const LIBRARY_BYTES: usize = 4096;
const ALL: usize = LIBRARY_AT + LIBRARY_BYTES;

/// How an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its node is dead.
    Gone,
    Idle,
    /// It asks, or waits to be asked.
    Asking(Option<WaitHandle>),
    Connected,
}

/// A request that is posted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Send { number: u64 },
    Write,
    Read { from: usize, bytes: usize },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Posted<T> {
    pub context: u64,
    pub place: usize,
    pub what: T,
}

/// One end.
#[derive(Debug)]
pub(super) struct End {
    pub node: usize,
    pub phase: Phase,
    pub vi: ViHandle,
    pub memory: Memory,
    pub region: u32,
    /// What its library holds.
    pub library: u64,
    /// Its connection, or the one it asks for: no other of the trial has this number.
    pub connection: u64,
    pub asked_at: Instant,
    /// Messages sent on it.
    pub sent: u64,
    pub sends: VecDeque<Posted<Work>>,
    pub receives: VecDeque<Posted<()>>,
    /// Places that are in use, bits; those to send from, then those to receive into.
    pub busy: [u8; 2],
    /// The connection from which messages come, and the number of the next.
    pub heard: Option<u64>,
    pub heard_next: u64,
    /// Slots that the peer has been told to write: its connection, the message's number, bytes.
    pub slots: [Option<(u64, u64, usize)>; SLOTS],
    /// Errors heard on this connection.
    pub lost: u32,
}

impl End {
    pub fn new(node: usize) -> Self {
        Self {
            node,
            phase: Phase::Gone,
            vi: ViHandle::from_raw(0),
            memory: Memory::new(0),
            region: 0,
            library: 0,
            connection: 0,
            asked_at: Instant(0),
            sent: 0,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            busy: [0; 2],
            heard: None,
            heard_next: 0,
            slots: [None; SLOTS],
            lost: 0,
        }
    }

    /// New memory, nothing posted: its node has been started.
    pub fn begin(&mut self) {
        *self = Self { memory: Memory::new(ALL), phase: Phase::Idle, ..Self::new(self.node) };
        self.blank();
    }

    /// What no RDMA write may be outstanding for is blank again.
    pub fn blank(&mut self) {
        self.memory.fill(WINDOW, SLOTS * SLOT, BLANK);
        self.slots = [None; SLOTS];
    }

    pub fn segment(&self, at: usize, bytes: usize) -> Segment {
        Segment { address: self.memory.address() + at as u64, length: bytes as u32, handle: self.region }
    }

    /// A place that is free, from now on busy. 0: to send from, 1: to receive into.
    pub fn take_place(&mut self, kind: usize) -> Option<usize> {
        let place = (0..PLACES).find(|place| self.busy[kind] & 1 << place == 0)?;
        self.busy[kind] |= 1 << place;
        Some(place)
    }

    pub fn free_place(&mut self, kind: usize, place: usize) {
        self.busy[kind] &= !(1 << place);
    }
}

/// Where a place begins.
pub(super) const fn place_at(kind: usize, place: usize) -> usize {
    (kind * PLACES + place) * PLACE
}

/// Two ends.
#[derive(Debug)]
pub(super) struct Channel {
    pub level: Reliability,
    /// Messages wait for receive descriptors.
    pub rnr_wait: bool,
    /// The second end waits for the first to ask; else they ask each other.
    pub served: bool,
    pub ends: [End; 2],
}
