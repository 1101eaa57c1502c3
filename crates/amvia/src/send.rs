// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests as programs send them: at once if they can leave, else polling meanwhile.

use crate::carrying::Data;
use crate::connect;
use crate::core::{Request, Sent, What};
use crate::objects::Bundle;
use crate::probe::{Off, Probe, Stage};
use bellwire_am::{EndpointId, Error, Status};
use bellwire_memory::token::thread_id;
use std::time::Instant;

impl Bundle {
    /// Sends a short request; polls while it cannot leave.
    ///
    /// # Errors
    /// [`Error::BadArgument`], also within a handler; [`Error::Resource`]. The error handler hears
    /// of later failures.
    #[inline(never)]
    pub fn request(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(&Request { endpoint: endpoint.raw(), index, handler, args, what: What::Short }).map(drop)
    }

    /// As [`request`](Self::request), for those who measure.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn request_probed<P: Probe<Stage>>(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send::<P>(&Request { endpoint: endpoint.raw(), index, handler, args, what: What::Short }).map(drop)
    }

    /// Sends a medium request, whose payload is copied before this returns.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    #[inline(never)]
    pub fn request_medium(&self, endpoint: EndpointId, index: u32, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        let what = What::Medium((payload.as_ptr(), payload.len()));
        self.send::<Off>(&Request { endpoint: endpoint.raw(), index, handler, args, what }).map(drop)
    }

    /// As [`request_medium`](Self::request_medium), out of memory of the program that peers may be
    /// writing.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    ///
    /// # Safety
    /// The `data.1` bytes at `data.0` are readable throughout the call.
    #[inline(never)]
    pub unsafe fn request_medium_of_program(&self, endpoint: EndpointId, index: u32, handler: u8, data: Data, args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(&Request { endpoint: endpoint.raw(), index, handler, args, what: What::Medium(data) }).map(drop)
    }

    /// Sends a bulk request. The data may be reused when this returns.
    ///
    /// # Errors
    /// As [`request`](Self::request); [`Error::BadArgument`] also: the data is not there.
    ///
    /// # Safety
    /// The `data.1` bytes at `data.0` are readable throughout the call.
    pub unsafe fn request_bulk_of_program(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, data: Data, args: &[i32]) -> Result<(), Error> {
        match self.send::<Off>(&Request { endpoint: endpoint.raw(), index, handler, args, what: What::Xfer(data, offset) })? {
            Sent::Posted { map, lane, number } => self.until_read(map, lane, number),
            _ => Ok(()),
        }
    }

    /// As [`request_bulk_of_program`](Self::request_bulk_of_program), but never waits.
    ///
    /// # Errors
    /// [`Error::NotSent`]: it would have to; and those of [`request`](Self::request).
    ///
    /// # Safety
    /// The bytes are readable until the request is handled or has come back, or the endpoint is no
    /// more.
    pub unsafe fn try_request_bulk_of_program(
        &self,
        endpoint: EndpointId,
        index: u32,
        handler: u8,
        offset: u64,
        data: Data,
        args: &[i32],
    ) -> Result<(), Error> {
        match self.attempt::<Off>(&Request { endpoint: endpoint.raw(), index, handler, args, what: What::Xfer(data, offset) })? {
            Sent::Wait | Sent::Connect(_) => Err(Error::NotSent),
            Sent::Yes | Sent::Posted { .. } => Ok(()),
        }
    }

    /// Asks for `length` bytes at `offset` in the other's segment: they come to `to` in the segment
    /// of `endpoint`, then its own `handler` runs, as for a reply.
    ///
    /// # Errors
    /// As [`request`](Self::request); [`Error::BadArgument`] also: outside of the endpoint's
    /// segment.
    #[allow(clippy::too_many_arguments, reason = "the operands of a get; a struct would only name them again")]
    pub fn get(&self, endpoint: EndpointId, index: u32, handler: u8, offset: u64, to: u64, length: usize, args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(&Request { endpoint: endpoint.raw(), index, handler, args, what: What::Get(offset, to, length) }).map(drop)
    }

    /// One attempt.
    #[inline]
    fn attempt<P: Probe<Stage>>(&self, request: &Request<'_>) -> Result<Sent, Error> {
        let mut core = self.core();
        if core.running != 0 && core.running == thread_id() {
            return Err(Error::BadArgument);
        }
        let sent = core.request::<P>(request)?;
        drop(core);
        let Sent::Connect(id) = sent else { return Ok(sent) };
        // If no connection can be made, the request comes back.
        connect::begin(&self.inner, id);
        Ok(Sent::Wait)
    }

    /// Sends, polling while it has to wait, until the bundle's patience is over.
    #[inline]
    fn send<P: Probe<Stage>>(&self, request: &Request<'_>) -> Result<Sent, Error> {
        match self.attempt::<P>(request)? {
            Sent::Wait => self.send_later::<P>(request),
            sent => Ok(sent),
        }
    }

    #[cold]
    fn send_later<P: Probe<Stage>>(&self, request: &Request<'_>) -> Result<Sent, Error> {
        let mut core = self.core();
        if let Ok(endpoint) = core.endpoint_mut(request.endpoint) {
            endpoint.counters.stalls += 1;
        }
        let end = core.patience.map(|p| Instant::now() + p);
        drop(core);
        loop {
            if self.poll()? == 0 {
                if end.is_some_and(|end| Instant::now() >= end) {
                    self.return_at_once(request)?;
                    return Ok(Sent::Yes);
                }
                std::thread::yield_now();
            }
            let sent = self.attempt::<P>(request)?;
            if sent != Sent::Wait {
                return Ok(sent);
            }
        }
    }

    /// A request that has not left comes back: its receiver takes nothing.
    fn return_at_once(&self, request: &Request<'_>) -> Result<(), Error> {
        let mut core = self.core();
        let Some(name) = core.endpoint(request.endpoint)?.translations.get(request.index).map(|t| t.name) else { return Ok(()) };
        let returned = request.record(name)?.returned(&Status::Congestion.into());
        core.returns.push_back((request.endpoint, returned));
        Ok(())
    }

    /// Polls until a write is over. Handlers of requests run only where the data needs the peer's
    /// answers, and so the peer this side's. However this ends, the memory
    /// is not read any more then.
    fn until_read(&self, map: u32, lane: usize, number: u64) -> Result<(), Error> {
        let _unread = Unread { bundle: self, map, lane, number };
        loop {
            let mut core = self.core();
            core.retire::<Off>(usize::MAX);
            if core.is_written(map, lane, number) {
                return Ok(());
            }
            drop(core);
            if self.poll_for::<Off>(!self.inner.shared.mapping.writes())? == 0 {
                std::thread::yield_now();
            }
        }
    }
}

/// Memory that a posted write reads: if its owner leaves before that is over, the connection ends.
struct Unread<'a> {
    bundle: &'a Bundle,
    map: u32,
    lane: usize,
    number: u64,
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        let mut core = self.bundle.core();
        if !core.is_written(self.map, self.lane, self.number) {
            core.bury(self.map, &Status::Unreachable.into());
        }
    }
}
