// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint: its tag, handlers, segment, translation table and counters.

use crate::name::Name;
use crate::vipl::Handle;
use bellwire_am::tables::{self, Entries, Handlers, Slot};
use bellwire_am::{CREDITS_DEFAULT, Counters, TAG_NONE};
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

/// An endpoint.
pub(crate) struct Endpoint<H> {
    pub name: Name,
    pub tag: u64,
    pub ptag: Handle,
    pub handlers: Handlers<H>,
    pub on_departure: Slot<H>,
    pub translations: Entries<Translation>,
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
            handlers: Handlers::default(),
            on_departure: Slot::Free,
            translations: Entries::default(),
            segment: None,
            credits: CREDITS_DEFAULT,
            counters: Counters::default(),
            peers: BTreeMap::new(),
        }
    }

    /// Whether a message with this tag is accepted.
    pub(crate) fn accepts(&self, tag: u64) -> bool {
        tables::accepts(self.tag, tag)
    }
}
