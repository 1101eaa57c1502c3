// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint: its tag, handlers, segment, translation table and counters.

use crate::name::Name;
use crate::vipl::Handle;
use bellwire_am::{CREDITS_DEFAULT, Counters, TAG_ALL, TAG_NONE, TRANSLATIONS_DEFAULT};
use std::collections::BTreeMap;

/// An entry of the translation table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    pub name: Name,
    pub tag: u64,
    /// The MAP object, once it was used.
    pub map: Option<u32>,
}

/// The memory that bulk messages and gets of others reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnSegment {
    pub address: u64,
    pub length: u64,
    pub handle: u32,
}

/// Whether `length` bytes at `offset` lie within a segment of `bytes`.
#[inline]
pub(crate) fn lies_within(offset: u64, length: u64, bytes: u64) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= bytes)
}

/// A place for a handler.
pub(crate) enum Slot<H> {
    Free,
    Here(H),
    /// It runs.
    Out,
}

/// An endpoint.
pub(crate) struct Endpoint<H> {
    pub name: Name,
    pub tag: u64,
    pub ptag: Handle,
    handlers: Vec<Slot<H>>,
    pub on_departure: Slot<H>,
    translations: Vec<Option<Translation>>,
    entries: usize,
    pub segment: Option<OwnSegment>,
    /// Requests that it may have out on a connection made from now on.
    pub credits: u32,
    pub counters: Counters,
    /// Its MAP objects that are not dead, by peer; of oneself the one that asks.
    pub peers: BTreeMap<Name, u32>,
}

impl<H> Endpoint<H> {
    pub(crate) fn new(name: Name, ptag: Handle) -> Self {
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
            peers: BTreeMap::new(),
        }
    }

    /// Whether a message with this tag is accepted.
    pub(crate) fn accepts(&self, tag: u64) -> bool {
        (self.tag == tag && tag != TAG_NONE) || self.tag == TAG_ALL
    }

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

    pub(crate) fn slot(&mut self, index: u8) -> Option<&mut Slot<H>> {
        self.handlers.get_mut(usize::from(index))
    }

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

    /// A handler that is to run.
    pub(crate) fn take_handler(&mut self, index: u8) -> Option<H> {
        self.slot(index).and_then(take_out)
    }
}

/// A handler out of its place, if it is there.
pub(crate) fn take_out<H>(slot: &mut Slot<H>) -> Option<H> {
    match core::mem::replace(slot, Slot::Out) {
        Slot::Here(handler) => Some(handler),
        other => {
            *slot = other;
            None
        }
    }
}
