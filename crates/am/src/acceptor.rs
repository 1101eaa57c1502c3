// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that others ask for: to which endpoint, in whose inbox. One acceptor for each
//! device; each poll of a bundle lets it work.

use crate::header::{CREDITS_MAX, SEGMENTS_AHEAD};
use crate::name::{Ask, Name, device_address};
use crate::status::Error;
use bellwire_peer::Mailbox;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, InboxHandle, PtagHandle, ViAttributes};
use std::collections::BTreeMap;

/// Messages of one connection that may wait in an inbox: all requests of a client, or all replies,
/// and what control there is: counts, at most one for each request; segments; the end.
pub(crate) const LIMIT: u32 = 2 * CREDITS_MAX + SEGMENTS_AHEAD as u32 + 8;

/// Where the messages of the connections of an endpoint arrive.
pub(crate) fn mailbox(ptag: PtagHandle, inbox: InboxHandle) -> Mailbox {
    let attributes = ViAttributes { ptag: Some(ptag), rdma_write: true, qos: u64::from(CREDITS_MAX), ..ViAttributes::default() };
    Mailbox::new(inbox, attributes, LIMIT)
}

/// The endpoints that peers can ask for, and the requests for them.
#[derive(Debug)]
pub struct Acceptor {
    host: Vec<u8>,
    device: [u8; 16],
    waits: bellwire_via::Acceptor,
    endpoints: BTreeMap<u64, Mailbox>,
    next_endpoint: u64,
}

impl Acceptor {
    /// An acceptor for an engine; `device` is never used by another one.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub fn new<W: Wire>(engine: &mut Engine<W>, device: [u8; 16]) -> Result<Self, Error> {
        let host = engine.wire().host_address().to_vec();
        let at = device_address(&host, &device).ok_or(Error::BadArgument)?;
        let waits = bellwire_via::Acceptor::new(engine, at)?;
        Ok(Self { host, device, waits, endpoints: BTreeMap::new(), next_endpoint: 1 })
    }

    /// Whether requests have come that nobody has seen to.
    #[inline]
    pub fn is_asked<W: Wire>(&self, engine: &Engine<W>) -> bool {
        self.waits.is_asked(engine)
    }

    /// Requests seen to.
    pub fn seen(&self) -> u64 {
        self.waits.seen()
    }

    /// Lists a new endpoint.
    pub(crate) fn list(&mut self, inbox: InboxHandle, ptag: PtagHandle) -> Result<Name, Error> {
        let number = self.next_endpoint;
        let name = Name::new(&self.host, self.device, number).ok_or(Error::BadArgument)?;
        self.next_endpoint += 1;
        self.endpoints.insert(number, mailbox(ptag, inbox));
        Ok(name)
    }

    /// An endpoint is no more.
    pub(crate) fn unlist(&mut self, name: &Name) {
        self.endpoints.remove(&name.endpoint);
    }

    /// An endpoint is in another bundle from now on.
    pub(crate) fn relist(&mut self, name: &Name, inbox: InboxHandle) {
        if let Some(listed) = self.endpoints.get_mut(&name.endpoint) {
            *listed = listed.moved_to(inbox);
        }
    }

    /// Where the messages of an endpoint arrive.
    pub(crate) fn mailbox_of(&self, endpoint: u64) -> Option<&Mailbox> {
        self.endpoints.get(&endpoint)
    }

    /// Answers all requests that have come: those for endpoints listed are accepted, the bundle
    /// hears of it by its inbox; others are rejected.
    pub fn accept<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let endpoints = &self.endpoints;
        self.waits.accept(engine, |engine, address| {
            let ask = Ask::parse(address)?;
            endpoints.get(&ask.wanted)?.vi_to_accept(engine)
        });
    }

    /// Nobody is accepted any more.
    pub fn close<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.waits.close(engine);
    }
}
