// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a handler gets: the message, and the right to reply once.

use crate::carrying::{Data, NO_DATA, Write};
use crate::core::Core;
use crate::head::{Head, Kind};
use crate::map::{Bulk, State};
use crate::name::Name;
use crate::objects::{Handler, Message};
use crate::probe::{Off, Probe, Stage};
use bellwire_am::tables::lies_within;
use bellwire_am::{ARGS_MAX, BULK_BYTES_MAX, EndpointId, Error, MEDIUM_BYTES_MAX};
use bellwire_memory::bytes;
use bellwire_memory::token::Held;

impl Message<'_> {
    /// The arguments.
    pub fn args(&self) -> &[i32] {
        self.delivery.head.args()
    }

    /// First byte of the payload, and its bytes; it is readable while the handler runs. Never to be
    /// made a slice of, for peers may be writing it.
    pub fn payload(&self) -> (*const u8, usize) {
        (self.delivery.payload, self.delivery.length)
    }

    /// Copies the payload.
    pub fn payload_to(&self, to: &mut [u8]) -> usize {
        let length = to.len().min(self.delivery.length);
        // SAFETY: D1: the payload is readable; the copy allows that peers write.
        unsafe { bytes::copy(to.as_mut_ptr(), self.delivery.payload, length) };
        length
    }

    /// Whether it is a short message, which has no payload.
    pub fn is_short(&self) -> bool {
        matches!(self.delivery.head.kind, Kind::Short | Kind::ReplyShort)
    }

    /// The endpoint that sent it.
    pub fn source(&self) -> Name {
        self.delivery.source
    }

    /// The endpoint that it came to.
    pub fn endpoint(&self) -> EndpointId {
        EndpointId::from_raw(self.delivery.endpoint)
    }

    /// The number of the handler that it names.
    pub fn handler(&self) -> u8 {
        self.delivery.head.handler
    }

    /// The tag that it carried; of a reply the one that its request carried.
    pub fn tag(&self) -> u64 {
        self.delivery.tag
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: not a request, answered already, or a parameter means
    /// nothing; [`Error::NotSent`]: the requester is gone.
    #[inline(never)]
    pub fn reply(&mut self, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(Kind::ReplyShort, handler, NO_DATA, args)
    }

    /// As [`reply`](Self::reply), for those who measure.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn reply_probed<P: Probe<Stage>>(&mut self, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send::<P>(Kind::ReplyShort, handler, NO_DATA, args)
    }

    /// Answers a request with a payload, which is copied, out of memory that peers may be writing.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    ///
    /// # Safety
    /// The `data.1` bytes at `data.0` are readable throughout the call.
    #[inline(never)]
    pub unsafe fn reply_medium_of_program(&mut self, handler: u8, data: Data, args: &[i32]) -> Result<(), Error> {
        self.send::<Off>(Kind::ReplyMedium, handler, data, args)
    }

    /// Answers a request with bytes that go to `offset` in the requester's segment. They are copied
    /// before this returns, so that it never waits.
    ///
    /// # Errors
    /// As [`reply`](Self::reply); [`Error::BadArgument`] also: outside of that segment;
    /// [`Error::Resource`]. The request can still be answered otherwise.
    ///
    /// # Safety
    /// The `data.1` bytes at `data.0` are readable throughout the call.
    #[inline(never)]
    pub unsafe fn reply_bulk_of_program(&mut self, handler: u8, offset: u64, data: Data, args: &[i32]) -> Result<(), Error> {
        if !self.may_reply(handler, args) || data.1 > BULK_BYTES_MAX {
            return Err(Error::BadArgument);
        }
        let at = (self.delivery.map, self.delivery.lane);
        let mut core = self.bundle.core();
        let map = core.maps.get(&at.0).filter(|m| m.state == State::Open).ok_or(Error::NotSent)?;
        if !map.peer_segment.is_some_and(|s| lies_within(offset, data.1 as u64, s.length)) {
            return Err(Error::BadArgument);
        }
        let heard = map.heard;
        let head = Head { words: [offset, data.1 as u64, u64::from(heard)], ..Head::new(Kind::ReplyXfer, handler, self.delivery.head.slot, args) };
        if !core.shared.mapping.writes() {
            return self.reply_in_messages::<Off>(core, head, data, 2);
        }
        let bulk = if data.1 == 0 {
            None
        } else {
            let ptag = core.endpoint(self.delivery.endpoint)?.ptag;
            let mut copy = vec![0; data.1].into_boxed_slice();
            // SAFETY: the caller's promise; the copy allows that others write.
            unsafe { bytes::copy(copy.as_mut_ptr(), data.0, data.1) };
            let from = copy.as_ptr().expose_provenance() as u64;
            // SAFETY: the copy stays until its write is over (L3).
            let handle = unsafe { core.shared.nic.register_cached(from, data.1, ptag) }.map_err(crate::core::error_of)?;
            Some((Bulk { from: (from, handle), write: Write { cached: Some((from, handle)), _copy: Some(copy) }, offset, heard }, data.1 as u32))
        };
        if !core.answer(at, head, NO_DATA, bulk) {
            return Err(Error::NotSent);
        }
        self.delivery.has_replied = true;
        count(&mut core, self.delivery.endpoint, 2, data.1);
        Ok(())
    }

    fn may_reply(&self, handler: u8, args: &[i32]) -> bool {
        !self.delivery.has_replied && self.delivery.head.kind.is_request() && handler != 0 && args.len() <= ARGS_MAX
    }

    fn send<P: Probe<Stage>>(&mut self, kind: Kind, handler: u8, data: Data, args: &[i32]) -> Result<(), Error> {
        if !self.may_reply(handler, args) || data.1 > MEDIUM_BYTES_MAX {
            return Err(Error::BadArgument);
        }
        let core = self.bundle.core();
        let head = Head::new(kind, handler, self.delivery.head.slot, args);
        self.reply_in_messages::<P>(core, head, data, usize::from(kind == Kind::ReplyMedium))
    }

    /// Replies on the VI of the request. A reply that is too long for it is held until the
    /// requester fetches it.
    fn reply_in_messages<P: Probe<Stage>>(&mut self, mut core: Held<'_, Core<Handler>>, head: Head, data: Data, size: usize) -> Result<(), Error> {
        let at = (self.delivery.map, self.delivery.lane);
        let room = core.maps.get(&at.0).and_then(|m| m.lanes.get(at.1)).map_or(usize::MAX, |lane| lane.bytes);
        let has_left = if head.start() + data.1 <= room { core.answer_probed::<P>(at, head, data, None) } else { core.hold(at, &head, data) };
        if !has_left {
            return Err(Error::NotSent);
        }
        self.delivery.has_replied = true;
        count(&mut core, self.delivery.endpoint, size, data.1);
        Ok(())
    }
}

fn count<H>(core: &mut crate::core::Core<H>, endpoint: u32, size: usize, bytes: usize) {
    if let Some(endpoint) = core.endpoints.get_mut(&endpoint) {
        endpoint.counters.replies_sent[size] += 1;
        endpoint.counters.bytes_sent += bytes as u64;
    }
}
