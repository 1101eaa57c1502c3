// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that others ask for: to which endpoint, in whose inbox. One acceptor for each device; whoever polls a bundle lets it work.

use crate::connection::{CREDITS_MAX, SEGMENTS_AHEAD};
use crate::name::{Ask, Name, device_discriminator};
use crate::status::Error;
use bellwire_via::handle::Handle;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, InboxHandle, Instant, NetAddress, PtagHandle, ViAttributes, WaitHandle};
use std::collections::BTreeMap;

/// Requests that are met at a time, at first and at most; others ask again within milliseconds.
const WAITS_MIN: usize = 16;
const WAITS_MAX: usize = 1024;
/// Messages of one connection that may wait in an inbox: all requests of a client, or all replies, and what control there is: counts, at most one for each
/// request; segments; the end.
pub(crate) const LIMIT: u32 = 2 * CREDITS_MAX + SEGMENTS_AHEAD as u32 + 8;

/// Context of a VI that its bundle does not know yet.
pub(crate) const UNKNOWN: u64 = 0;

#[derive(Clone, Copy, Debug)]
struct Listed {
    inbox: InboxHandle,
    ptag: PtagHandle,
}

/// Who can be asked for, and who asks.
#[derive(Debug)]
pub struct Acceptor {
    host: Vec<u8>,
    device: [u8; 16],
    waits: Vec<WaitHandle>,
    /// How many there are to be: as many as have ever come at a time.
    waits_wanted: usize,
    endpoints: BTreeMap<u64, Listed>,
    next_endpoint: u64,
    /// Connection requests of the engine that have been seen to.
    seen: u64,
}

impl Acceptor {
    /// An acceptor for an engine; `device` is never used by another one.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub fn new<W: Wire>(engine: &mut Engine<W>, device: [u8; 16]) -> Result<Self, Error> {
        let host = engine.wire().host_address().to_vec();
        let mut acceptor = Self { host, device, waits: Vec::new(), waits_wanted: WAITS_MIN, endpoints: BTreeMap::new(), next_endpoint: 1, seen: 0 };
        acceptor.listen(engine)?;
        Ok(acceptor)
    }

    fn listen<W: Wire>(&mut self, engine: &mut Engine<W>) -> Result<(), Error> {
        let local = NetAddress::new(&self.host, &device_discriminator(&self.device)).ok_or(Error::BadArgument)?;
        while self.waits.len() < self.waits_wanted {
            self.waits.push(engine.connect_wait(&local, Instant::NEVER)?);
        }
        Ok(())
    }

    /// Whether requests have come that nobody has seen to.
    #[inline]
    pub fn is_asked<W: Wire>(&self, engine: &Engine<W>) -> bool {
        engine.connection_requests() != self.seen
    }

    /// Requests seen to.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Lists a new endpoint.
    pub(crate) fn list(&mut self, inbox: InboxHandle, ptag: PtagHandle) -> Result<Name, Error> {
        let number = self.next_endpoint;
        let name = Name::new(&self.host, self.device, number).ok_or(Error::BadArgument)?;
        self.next_endpoint += 1;
        self.endpoints.insert(number, Listed { inbox, ptag });
        Ok(name)
    }

    /// An endpoint is no more.
    pub(crate) fn unlist(&mut self, name: &Name) {
        self.endpoints.remove(&name.endpoint);
    }

    /// An endpoint is in another bundle from now on.
    pub(crate) fn relist(&mut self, name: &Name, inbox: InboxHandle) {
        if let Some(listed) = self.endpoints.get_mut(&name.endpoint) {
            listed.inbox = inbox;
        }
    }

    /// The inbox of an endpoint.
    pub(crate) fn inbox_of(&self, endpoint: u64) -> Option<InboxHandle> {
        self.endpoints.get(&endpoint).map(|listed| listed.inbox)
    }

    /// Answers all requests that have come: those for endpoints listed are accepted, the bundle hears of it by its inbox; others are rejected.
    pub fn accept<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.seen = engine.connection_requests();
        let mut still = Vec::with_capacity(self.waits.len());
        for wait in core::mem::take(&mut self.waits) {
            match engine.poll_wait(wait) {
                Ok(None) => still.push(wait),
                Ok(Some(request)) => {
                    let listed = Ask::parse(&request.remote).and_then(|ask| self.endpoints.get(&ask.wanted).copied());
                    let accepted = listed.is_some_and(|l| {
                        let Ok(vi) = create_vi(engine, l.ptag, l.inbox, UNKNOWN) else { return false };
                        let accepted = engine.accept(request.incoming, vi).is_ok();
                        if !accepted {
                            let _ = engine.destroy_vi(vi);
                        }
                        accepted
                    });
                    if !accepted {
                        let _ = engine.reject(request.incoming);
                    }
                }
                Err(_) => {}
            }
        }
        if still.is_empty() {
            self.waits_wanted = (2 * self.waits_wanted).min(WAITS_MAX);
        }
        self.waits = still;
        let _ = self.listen(engine);
    }

    /// Nobody is accepted any more.
    pub fn close<W: Wire>(&mut self, engine: &mut Engine<W>) {
        for wait in self.waits.drain(..) {
            engine.cancel_wait(wait);
        }
    }
}

/// A VI for messages of this layer.
pub(crate) fn create_vi<W: Wire>(engine: &mut Engine<W>, ptag: PtagHandle, inbox: InboxHandle, context: u64) -> Result<bellwire_via::ViHandle, Error> {
    let attributes = ViAttributes { ptag: Some(ptag), rdma_write: true, qos: u64::from(CREDITS_MAX), ..ViAttributes::default() };
    let vi = engine.create_vi(&attributes, None, None, None)?;
    engine.set_inbox(vi, inbox, LIMIT, context)?;
    Ok(vi)
}

/// Ends a VI, whatever its state.
pub(crate) fn end_vi<W: Wire>(engine: &mut Engine<W>, vi: bellwire_via::ViHandle) {
    if vi != Handle::from_raw(0) {
        let _ = engine.disconnect(vi);
        let _ = engine.destroy_vi(vi);
    }
}
