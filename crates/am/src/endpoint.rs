// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint: its tag, handlers, segment, translation table and counters.

use crate::connection::ConnectionId;
use crate::header::CREDITS_DEFAULT;
use crate::name::Name;
use crate::region::Region;
use bellwire_via::{MemHandle, PtagHandle};
use std::sync::Arc;

/// Handlers of an endpoint; 0 is for messages that come back.
pub const HANDLERS: usize = 256;
/// Entries of the translation table at first, and at most.
pub const TRANSLATIONS_DEFAULT: usize = 256;
/// Most entries of a translation table.
pub const TRANSLATIONS_MAX: usize = 1 << 20;
/// The tag that accepts nothing.
pub const TAG_NONE: u64 = 0;
/// The tag that accepts everything.
pub const TAG_ALL: u64 = 1;

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

/// Whether `length` bytes at `offset` lie within a segment of `bytes`.
#[inline]
pub(crate) fn lies_within(offset: u64, length: u64, bytes: u64) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= bytes)
}

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint<H> {
    pub(crate) name: Name,
    pub(crate) tag: u64,
    pub(crate) ptag: PtagHandle,
    /// As far as any was ever set; behind that all are free. Most endpoints use few of their
    /// tables' places, and there may be thousands of endpoints.
    handlers: Vec<Slot<H>>,
    pub(crate) on_departure: Slot<H>,
    /// The same; how many entries there are is said by `entries`.
    translations: Vec<Option<Translation>>,
    entries: usize,
    pub(crate) segment: Option<Segment>,
    /// Requests that it may have out on a connection made from now on.
    pub(crate) credits: u32,
    pub(crate) counters: Counters,
}

/// A place for a handler.
#[derive(Debug)]
pub(crate) enum Slot<H> {
    Free,
    Here(H),
    /// It runs.
    Out,
}

impl<H> Endpoint<H> {
    pub(crate) fn new(name: Name, ptag: PtagHandle) -> Self {
        Self {
            name,
            tag: TAG_NONE,
            ptag,
            handlers: Vec::new(),
            on_departure: Slot::Free,
            translations: Vec::new(),
            entries: TRANSLATIONS_DEFAULT,
            segment: None,
            credits: CREDITS_DEFAULT,
            counters: Counters::default(),
        }
    }

    /// Whether a message with this tag is accepted.
    #[inline]
    pub(crate) fn accepts(&self, tag: u64) -> bool {
        (self.tag == tag && tag != TAG_NONE) || self.tag == TAG_ALL
    }

    /// Where an entry leads, if it is mapped.
    #[inline]
    pub(crate) fn translation(&self, index: u32) -> Option<&Translation> {
        self.translations.get(index as usize)?.as_ref()
    }

    /// The entry, to be changed. `None`: there is none of that number.
    pub(crate) fn translation_mut(&mut self, index: u32) -> Option<&mut Option<Translation>> {
        let index = index as usize;
        if index >= self.entries {
            return None;
        }
        if index >= self.translations.len() {
            self.translations.resize(index + 1, None);
        }
        self.translations.get_mut(index)
    }

    /// Entries of the table.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// The first entry that is free.
    pub(crate) fn free_entry(&self) -> Option<u32> {
        let free = self.translations.iter().position(Option::is_none).unwrap_or(self.translations.len());
        (free < self.entries).then_some(free as u32)
    }

    /// Changes the table's length. `false`: an entry that would go is mapped.
    pub(crate) fn set_entries(&mut self, entries: usize) -> bool {
        if self.translations.iter().skip(entries).any(Option::is_some) {
            return false;
        }
        self.translations.truncate(entries);
        self.entries = entries;
        true
    }

    /// A handler's place, if anything was ever there.
    #[inline]
    pub(crate) fn slot(&mut self, index: u8) -> Option<&mut Slot<H>> {
        self.handlers.get_mut(usize::from(index))
    }

    /// A handler's place.
    pub(crate) fn slot_to_set(&mut self, index: u8) -> &mut Slot<H> {
        let index = usize::from(index);
        if index >= self.handlers.len() {
            self.handlers.resize_with(index + 1, || Slot::Free);
        }
        &mut self.handlers[index]
    }

    /// The first number of a handler of messages that is free.
    pub(crate) fn free_slot(&self) -> Option<u8> {
        let used = self.handlers.iter().skip(1);
        let free = 1 + used.clone().position(|slot| matches!(slot, Slot::Free)).unwrap_or(used.len());
        u8::try_from(free).ok()
    }

    /// All handlers, to be dropped with no lock held.
    pub(crate) fn take_handlers(&mut self) -> Vec<Slot<H>> {
        core::mem::take(&mut self.handlers)
    }
}
