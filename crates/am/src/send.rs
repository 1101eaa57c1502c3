// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests as programs send them: at once if they can leave, else polling meanwhile.

use crate::bulk::{Bulk, Get, Source, Written};
use crate::connection::{ConnectionId, Record};
use crate::core::{Core, Request, Sent};
use crate::name::EndpointId;
use crate::objects::{Bundle, Handler};
use crate::probe::{Off, Probe, Stage};
use crate::region::Region;
use crate::status::{Error, Operation, Status};
use bellwire_memory::token::{Held, thread_id};
use bellwire_via::Engine;
use bellwire_via::wire::host::HostWire;
use std::sync::Arc;
use std::time::Instant;

/// A sender without credits goes on when some of them are back, or nothing comes for so many polls.
const POLLS_IN_VAIN_MAX: u32 = 32;

/// A part of a region: from which byte on, how many.
pub type Part<'a> = (&'a Arc<Region>, usize, usize);

impl Bundle {
    /// Sends a short request: `handler` of the endpoint in entry `index` runs with `args`, of which
    /// there may be [`ARGS_MAX`](crate::ARGS_MAX). While it cannot leave, this polls.
    ///
    /// # Errors
    /// [`Error::BadArgument`], also within a handler; [`Error::Resource`]. The error handler hears
    /// of later failures.
    #[inline]
    pub fn request(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(&Request { endpoint, index, handler, args, medium: None })
    }

    /// Sends a medium request, with a payload of at most
    /// [`MEDIUM_BYTES_MAX`](crate::MEDIUM_BYTES_MAX) bytes, which is copied before this returns.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    #[inline]
    pub fn request_medium(&self, endpoint: EndpointId, index: u32, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(&Request { endpoint, index, handler, args, medium: Some((payload.as_ptr(), payload.len())) })
    }

    /// As [`request_medium`](Self::request_medium), out of memory of the program that peers may be
    /// writing.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    ///
    /// # Safety
    /// U2: the `data.1` bytes at `data.0` are readable throughout the call.
    pub unsafe fn request_medium_of_program(&self, endpoint: EndpointId, index: u32, handler: u8, data: (*const u8, usize), args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(&Request { endpoint, index, handler, args, medium: Some(data) })
    }

    /// As [`request`](Self::request), but never waits.
    ///
    /// # Errors
    /// [`Error::NotSent`]: it would have to, or this is within a handler; and those of `request`.
    #[inline]
    pub fn try_request(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.try_send(&Request { endpoint, index, handler, args, medium: None })
    }

    /// As [`request_medium`](Self::request_medium), but never waits.
    ///
    /// # Errors
    /// As [`try_request`](Self::try_request).
    #[inline]
    pub fn try_request_medium(&self, endpoint: EndpointId, index: u32, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        self.try_send(&Request { endpoint, index, handler, args, medium: Some((payload.as_ptr(), payload.len())) })
    }

    /// Sends a bulk request: at most [`BULK_BYTES_MAX`](crate::BULK_BYTES_MAX) bytes go to `offset`
    /// in the receiver's segment, then the handler runs. The data may be reused when this returns.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn request_bulk(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, data: &[u8], args: &[i32]) -> Result<(), Error> {
        let source = Source { from: data.as_ptr(), length: data.len(), region: None };
        self.send_bulk::<Off>(&Bulk { endpoint, index, handler, args, offset, source }, true, true)
    }

    /// As [`request_bulk`](Self::request_bulk), out of a region, without waiting for the data to
    /// leave: it must not change before the request is handled.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn request_bulk_from(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, part: Part<'_>, args: &[i32]) -> Result<(), Error> {
        let source = Source::of_region(part.0, part.1, part.2)?;
        self.send_bulk::<Off>(&Bulk { endpoint, index, handler, args, offset, source }, true, false)
    }

    /// As [`request_bulk_from`](Self::request_bulk_from), but never waits.
    ///
    /// # Errors
    /// [`Error::NotSent`]: it would have to; and those of [`request`](Self::request).
    pub fn try_request_bulk_from(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, part: Part<'_>, args: &[i32]) -> Result<(), Error> {
        let source = Source::of_region(part.0, part.1, part.2)?;
        self.send_bulk::<Off>(&Bulk { endpoint, index, handler, args, offset, source }, false, false)
    }

    /// As [`request_bulk`](Self::request_bulk), out of memory of the program that peers may be
    /// writing.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    ///
    /// # Safety
    /// U2: the `data.1` bytes at `data.0` are readable throughout the call.
    pub unsafe fn request_bulk_of_program(
        &self,
        endpoint: EndpointId,
        index: u32,
        handler: u8,
        offset: u64,
        data: (*const u8, usize),
        args: &[i32],
    ) -> Result<(), Error> {
        let source = Source { from: data.0, length: data.1, region: None };
        self.send_bulk::<Off>(&Bulk { endpoint, index, handler, args, offset, source }, true, true)
    }

    /// As [`try_request_bulk_from`](Self::try_request_bulk_from), out of memory of the program.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// U2: the `data.1` bytes at `data.0` are readable until the request is handled or has come
    /// back, or the endpoint is no more.
    pub unsafe fn try_request_bulk_of_program(
        &self,
        endpoint: EndpointId,
        index: u32,
        handler: u8,
        offset: u64,
        data: (*const u8, usize),
        args: &[i32],
    ) -> Result<(), Error> {
        let source = Source { from: data.0, length: data.1, region: None };
        self.send_bulk::<Off>(&Bulk { endpoint, index, handler, args, offset, source }, false, false)
    }

    /// Asks for `length` bytes at `offset` in the other's segment: they come to `to` in the segment
    /// of `endpoint`, then its own `handler` runs, as for a reply. No handler runs there.
    ///
    /// # Errors
    /// As [`request`](Self::request); [`Error::BadArgument`] also: outside of the endpoint's
    /// segment.
    #[allow(clippy::too_many_arguments, reason = "the operands of a get; a struct would only name them again")]
    pub fn get(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, to: u64, length: usize, args: &[i32]) -> Result<(), Error> {
        let get = Get { endpoint, index, handler, args, offset, to, length };
        let record = || Record { operation: Operation::Get, length: length as u32, offset, ..Record::new(handler, args).unwrap_or_default() };
        let mut attempt = |core: &mut Core<Handler>, engine: &mut Engine<HostWire>| core.get(engine, &get);
        let sent = self.attempt(&mut attempt)?;
        if sent == Sent::Wait { self.send_later((endpoint, index), &mut attempt, record).map(drop) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn send<P: Probe<Stage>>(&self, request: &Request<'_>) -> Result<(), Error> {
        let mut attempt = |core: &mut Core<Handler>, engine: &mut Engine<HostWire>| core.request::<_, P>(engine, request);
        if self.attempt(&mut attempt)? == Sent::Yes {
            return Ok(());
        }
        self.send_later((request.endpoint, request.index), &mut attempt, || request.record()).map(drop)
    }

    #[inline]
    fn try_send(&self, request: &Request<'_>) -> Result<(), Error> {
        let core = self.core();
        if core.running != 0 && core.running == thread_id() {
            return Err(Error::NotSent);
        }
        match self.attempt_in(core, &mut |core, engine| core.request::<_, Off>(engine, request))? {
            Sent::Yes => Ok(()),
            _ => {
                // As in send_later(): a program that tries again and again waits too.
                self.device.nic.now();
                Err(Error::NotSent)
            }
        }
    }

    /// One attempt to send.
    #[inline]
    fn attempt(&self, send: &mut impl FnMut(&mut Core<Handler>, &mut Engine<HostWire>) -> Result<Sent, Error>) -> Result<Sent, Error> {
        let core = self.core();
        if core.running != 0 && core.running == thread_id() {
            return Err(Error::BadArgument);
        }
        self.attempt_in(core, send)
    }

    #[inline]
    fn attempt_in(
        &self,
        mut core: Held<'_, Core<Handler>>,
        send: &mut impl FnMut(&mut Core<Handler>, &mut Engine<HostWire>) -> Result<Sent, Error>,
    ) -> Result<Sent, Error> {
        let mut outcome = Ok(Sent::Wait);
        self.device.nic.try_with(|engine| {
            outcome = send(&mut core, engine);
            Ok(())
        })?;
        match outcome {
            Ok(Sent::Connect(connection)) => self.connect(&mut core, connection),
            outcome => outcome,
        }
    }

    /// Begins to connect. Its patience counts from now, however long the engine has not been told
    /// the time.
    #[cold]
    fn connect(&self, core: &mut Core<Handler>, connection: ConnectionId) -> Result<Sent, Error> {
        self.device.nic.now();
        self.device.nic.with(|engine| core.connect(engine, connection)).map(|()| Sent::Wait)
    }

    /// Polls until it can be sent, or the bundle's patience is over: then it comes back.
    #[cold]
    fn send_later(
        &self,
        (endpoint, index): (EndpointId, u32),
        send: &mut impl FnMut(&mut Core<Handler>, &mut Engine<HostWire>) -> Result<Sent, Error>,
        record: impl FnOnce() -> Record,
    ) -> Result<Sent, Error> {
        let mut core = self.core();
        if let Ok(endpoint) = core.endpoint_mut(endpoint) {
            endpoint.counters.stalls += 1;
        }
        let end = core.patience.map(|p| Instant::now() + p);
        drop(core);
        loop {
            if self.poll_batch(endpoint, index)? == 0 {
                // Nobody else tells the time while this thread polls, and an attempt to connect
                // ends with it.
                self.device.nic.now();
                if end.is_some_and(|end| Instant::now() >= end) {
                    self.core().return_at_once(endpoint, index, &record(), Status::Congestion);
                    return Ok(Sent::Yes);
                }
            }
            let sent = self.attempt(send)?;
            if sent != Sent::Wait {
                return Ok(sent);
            }
        }
    }

    /// Polls until some credits are back, or nothing comes for a while. Returns how many messages
    /// came. Sending one request for each reply would have both sides wait for each other's every
    /// line.
    fn poll_batch(&self, endpoint: EndpointId, index: u32) -> Result<u32, Error> {
        let (mut handled, mut in_vain) = (0, 0);
        while in_vain < POLLS_IN_VAIN_MAX {
            if self.poll()? == 0 {
                in_vain += 1;
            } else {
                (handled, in_vain) = (handled + 1, 0);
                if self.core().may_stream(endpoint, index) {
                    break;
                }
            }
        }
        Ok(handled)
    }

    /// Sends a bulk request: waiting until it can leave, if `may_wait`, and until its memory is not
    /// read any more, if `until_read`.
    pub(crate) fn send_bulk<P: Probe<Stage>>(&self, bulk: &Bulk<'_>, may_wait: bool, until_read: bool) -> Result<(), Error> {
        let mut written = Written::default();
        let mut attempt = |core: &mut Core<Handler>, engine: &mut Engine<HostWire>| core.request_bulk::<_, P>(engine, bulk, &mut written);
        let record = || bulk.record().unwrap_or_default();
        loop {
            let sent = match self.attempt(&mut attempt)? {
                Sent::Wait if !may_wait => return Err(Error::NotSent),
                Sent::Wait => self.send_later((bulk.endpoint, bulk.index), &mut attempt, record)?,
                sent => sent,
            };
            match sent {
                Sent::Yes => return Ok(()),
                Sent::More | Sent::Wait | Sent::Connect(_) => {}
                Sent::Posted(connection, number) => return if until_read { self.until_read(connection, number) } else { Ok(()) },
            }
        }
    }

    /// Polls until a write is over. However this ends, the memory is not read any more then.
    fn until_read(&self, connection: ConnectionId, number: u32) -> Result<(), Error> {
        let unread = Unread { bundle: self, connection, number };
        while !self.core().is_written(connection, number) {
            self.poll()?;
        }
        drop(unread);
        Ok(())
    }
}

/// Memory that a posted write reads: if its owner leaves before that is over (a handler has
/// panicked), the connection ends.
struct Unread<'a> {
    bundle: &'a Bundle,
    connection: ConnectionId,
    number: u32,
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        let mut core = self.bundle.core();
        if !core.is_written(self.connection, self.number) {
            self.bundle.device.nic.with(|engine| core.broken(engine, self.connection, Status::Unreachable));
            core.garbage.clear();
        }
    }
}

/// The calls with a probe; else as those without.
impl Bundle {
    /// As [`request`](Self::request).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn request_probed<P: Probe<Stage>>(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send::<P>(&Request { endpoint, index, handler, args, medium: None })
    }

    /// As [`request_medium`](Self::request_medium).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn request_medium_probed<P: Probe<Stage>>(&self, endpoint: EndpointId, index: u32, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        self.send::<P>(&Request { endpoint, index, handler, args, medium: Some((payload.as_ptr(), payload.len())) })
    }

    /// As [`request_bulk_from`](Self::request_bulk_from).
    ///
    /// # Errors
    /// As there.
    pub fn request_bulk_from_probed<P: Probe<Stage>>(
        &self,
        endpoint: EndpointId,
        index: u32,
        handler: u8,
        offset: u64,
        part: Part<'_>,
        args: &[i32],
    ) -> Result<(), Error> {
        let source = Source::of_region(part.0, part.1, part.2)?;
        self.send_bulk::<P>(&Bulk { endpoint, index, handler, args, offset, source }, true, false)
    }
}
