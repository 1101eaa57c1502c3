// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a handler gets: the message, and the right to reply once.

use crate::bulk::{BULK, Source};
use crate::core::{Core, place};
use crate::header::{ARGS_MAX, Answer, BULK_BYTES_MAX, Kind, MEDIUM_BYTES_MAX};
use crate::name::{EndpointId, Name};
use crate::objects::{Handler, Message};
use crate::payload::{Data, NO_DATA, Payload};
use crate::probe::{Off, Probe, Stage, mark};
use crate::region::Region;
use crate::status::Error;
use bellwire_via::Engine;
use bellwire_via::wire::host::HostWire;
use std::sync::Arc;

impl Message<'_> {
    /// The arguments.
    #[inline]
    pub fn args(&self) -> &[i32] {
        self.delivery.head.args()
    }

    /// The payload of a medium or bulk message, or of a get's answer; of a short message none.
    #[inline]
    pub fn payload(&self) -> Payload<'_> {
        Payload { place: self.delivery.place.as_ref(), start: self.delivery.start }
    }

    /// Whether it is a short message, which has no payload.
    #[inline]
    pub fn is_short(&self) -> bool {
        matches!(self.delivery.head.kind, Kind::Short | Kind::ReplyShort)
    }

    /// The endpoint that sent it.
    pub fn source(&self) -> Name {
        self.delivery.source
    }

    /// A number for the connection that it came over, which no other connection of the bundle has
    /// while this one lasts. What a peer says of itself ([`source`](Self::source)) others can say
    /// too; this they cannot.
    pub fn connection(&self) -> u64 {
        u64::from(self.delivery.connection.raw())
    }

    /// The endpoint that it came to.
    pub fn endpoint(&self) -> EndpointId {
        self.delivery.endpoint
    }

    /// The tag that it carried; of a reply the one that its request carried.
    pub fn tag(&self) -> u64 {
        self.delivery.tag
    }

    /// Whether it is a request, which may be answered; else a reply.
    pub fn is_request(&self) -> bool {
        self.delivery.is_request()
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: not a request, answered already, or a parameter means
    /// nothing; [`Error::NotSent`]: the requester is gone.
    #[inline]
    pub fn reply(&mut self, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(Kind::ReplyShort, handler, NO_DATA, args)
    }

    /// Answers a request with a payload of at most [`MEDIUM_BYTES_MAX`] bytes, which is copied.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub fn reply_medium(&mut self, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(Kind::ReplyMedium, handler, (payload.as_ptr(), payload.len()), args)
    }

    /// As [`reply_medium`](Self::reply_medium), out of memory of the program that peers may be
    /// writing.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    ///
    /// # Safety
    /// U2: the `data.1` bytes at `data.0` are readable throughout the call.
    pub unsafe fn reply_medium_of_program(&mut self, handler: u8, data: (*const u8, usize), args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(Kind::ReplyMedium, handler, data, args)
    }

    /// As [`reply_bulk`](Self::reply_bulk), out of memory of the program that peers may be writing.
    ///
    /// # Errors
    /// As [`reply_bulk`](Self::reply_bulk).
    ///
    /// # Safety
    /// U2: the `data.1` bytes at `data.0` are readable throughout the call.
    pub unsafe fn reply_bulk_of_program(&mut self, handler: u8, offset: u64, data: (*const u8, usize), args: &[i32]) -> Result<(), Error> {
        self.send_bulk(handler, offset, &Source { from: data.0, length: data.1, region: None }, args)
    }

    /// Answers a request with at most [`BULK_BYTES_MAX`] bytes that go to `offset` in the
    /// requester's segment. Data that cannot be written there now is copied, and written later.
    ///
    /// # Errors
    /// As [`reply`](Self::reply); [`Error::BadArgument`] also: outside of that segment;
    /// [`Error::Resource`]. The request can still be answered otherwise.
    pub fn reply_bulk(&mut self, handler: u8, offset: u64, data: &[u8], args: &[i32]) -> Result<(), Error> {
        self.send_bulk(handler, offset, &Source { from: data.as_ptr(), length: data.len(), region: None }, args)
    }

    /// As [`reply_bulk`](Self::reply_bulk), with `length` bytes from `at` on of a region, which
    /// must not change before they have arrived.
    ///
    /// # Errors
    /// As [`reply_bulk`](Self::reply_bulk).
    pub fn reply_bulk_from(&mut self, handler: u8, offset: u64, (region, at, length): (&Arc<Region>, usize, usize), args: &[i32]) -> Result<(), Error> {
        self.send_bulk(handler, offset, &Source::of_region(region, at, length)?, args)
    }

    fn may_reply(&self, handler: u8, args: &[i32]) -> bool {
        !self.delivery.has_replied && self.is_request() && handler != 0 && args.len() <= ARGS_MAX
    }

    fn send_bulk(&mut self, handler: u8, offset: u64, source: &Source<'_>, args: &[i32]) -> Result<(), Error> {
        if !self.may_reply(handler, args) || source.length > BULK_BYTES_MAX {
            return Err(Error::BadArgument);
        }
        let id = self.delivery.connection;
        let answer = Answer { kind: Kind::ReplyXfer, handler, words: [offset, 0, 0], args };
        self.answer::<Off>(BULK, source.length, |core, engine| core.answer_bulk(engine, id, answer, source, None))
    }

    #[inline]
    pub(crate) fn send<P: Probe<Stage>>(&mut self, kind: Kind, handler: u8, payload: Data, args: &[i32]) -> Result<(), Error> {
        if !self.may_reply(handler, args) || payload.1 > MEDIUM_BYTES_MAX {
            return Err(Error::BadArgument);
        }
        let id = self.delivery.connection;
        let size = usize::from(kind == Kind::ReplyMedium);
        self.answer::<P>(size, payload.1, |core, engine| core.answer::<_, P>(engine, id, &Answer { kind, handler, words: [0; 3], args }, payload))
    }

    /// Has `send` answer the request, which counts as handled then.
    #[inline]
    fn answer<P: Probe<Stage>>(
        &mut self,
        size: usize,
        bytes: usize,
        send: impl FnOnce(&mut Core<Handler>, &mut Engine<HostWire>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut guard = self.bundle.core();
        let core = &mut *guard;
        let Some(connection) = core.connections.get_mut(self.delivery.connection) else { return Err(Error::NotSent) };
        let before = connection.credits.handled();
        connection.credits.has_handled();
        if let Err(e) = self.bundle.device.nic.with(|engine| send(core, engine)) {
            if let Some(connection) = core.connections.get_mut(self.delivery.connection) {
                connection.credits.unhandle(before);
            }
            return Err(e);
        }
        self.delivery.has_replied = true;
        if let Some(endpoint) = core.endpoints.get_mut(place(self.delivery.endpoint)) {
            endpoint.counters.replies_sent[size] += 1;
            endpoint.counters.bytes_sent += bytes as u64;
        }
        mark!(P, ReplyNoted);
        Ok(())
    }
}

impl Message<'_> {
    /// As [`reply`](Self::reply).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn reply_probed<P: Probe<Stage>>(&mut self, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send::<P>(Kind::ReplyShort, handler, NO_DATA, args)
    }
}
