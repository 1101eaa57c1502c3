// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: a VI between two endpoints over which one of them, the client, sends requests
//! and the other, the server, answers.
//!
//! Credits: the client has at most `credits` requests out that the server has not said to be
//! handled. Everything the server sends says how many it has handled, in order; so one number in a
//! reply gives back credits, tells which request it answers, and lets the record of that request
//! go. Replies need no credits: there are never more than requests. The server's inbox takes
//! `LIMIT` messages; the client's as many and what few messages of control there are.
//!
//! A message that cannot leave at once waits in `out`, in order. It is bounded by the credits, so a
//! handler never waits.

use crate::header::{ARGS_MAX, CREDITS_DEFAULT, SEGMENTS_AHEAD};
use crate::name::{EndpointId, Name};
use crate::region::Region;
use crate::status::{Operation, Returned, Status};
use bellwire_peer::{Channel, Connected, Credits, Death};
use bellwire_via::Segment;
use bellwire_via::handle::Handle;
use std::collections::VecDeque;
use std::sync::Arc;

/// Names a connection.
pub(crate) type ConnectionId = Handle<Connection>;

/// Requests handled that a client is told of at once, if no reply has done so.
const TELL_AFTER: u32 = CREDITS_DEFAULT / 4;

/// Places for records of a connection that has sent something.
const RECORDS_AT_FIRST: usize = 4;

/// A request as its client knows it until it is handled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    pub operation: Operation,
    pub handler: u8,
    pub arg_count: u8,
    pub length: u32,
    pub source: usize,
    pub offset: u64,
    pub args: [i32; ARGS_MAX],
}

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sends requests, for this entry of the translation table.
    Client { index: u32 },
    /// Answers.
    Server,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Unconnected,
    Connecting,
    Open,
    /// For good; requests come back with this.
    Dead(Status),
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The status of the requests that come back.
    pub status: Status,
    /// Why, unless the status says all.
    pub death: Option<Death>,
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self { status, death: None }
    }
}

impl From<Death> for End {
    fn from(death: Death) -> Self {
        let is_refused = death == Death::Unreachable(bellwire_via::Error::Rejected);
        Self { status: if is_refused { Status::BadEndpoint } else { Status::Unreachable }, death: Some(death) }
    }
}

/// A message that waits to leave; before it, what is to be written into the peer's segment.
#[derive(Debug)]
pub(crate) struct Out {
    pub write: Option<Write>,
    pub bytes: Vec<u8>,
}

/// The owner of the memory that a write reads.
#[derive(Debug)]
pub(crate) enum Keep {
    /// The caller, who waits until it is done; or the endpoint, whose segment it is.
    Other,
    Region(Arc<Region>),
    Bytes(#[expect(dead_code, reason = "only kept")] Vec<u8>),
}

/// How the memory that a write reads is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// As the segment of the endpoint, for longer than the write.
    Segment,
    /// For this write alone: the engine's memory, which costs nothing, or a copy that is freed
    /// after it.
    Once,
    /// Through the registration cache: memory of the program, which often sends from it again.
    Cached,
}

/// An RDMA write that the engine carries out in its own time.
#[derive(Debug)]
pub(crate) struct Write {
    pub from: Segment,
    pub registration: Registration,
    pub keep: Keep,
    /// Address and memory handle of the target.
    pub remote: (u64, u32),
}

/// The peer's segment, as it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerSegment {
    pub address: u64,
    pub length: u64,
    pub handle: u32,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    pub(crate) channel: Channel,
    pub(crate) endpoint: EndpointId,
    pub(crate) role: Role,
    pub(crate) state: State,
    pub(crate) peer: Name,
    /// Of a dead connection, why it ended, unless the status says all.
    pub(crate) death: Option<Death>,
    pub(crate) tag: u64,
    /// Client: requests sent, and how many of them are handled. Server: requests handled, and
    /// what the client was told of it.
    pub(crate) credits: Credits,
    pub(crate) records: Box<[Record]>,
    pub(crate) out: VecDeque<Out>,
    /// Writes that the engine has, oldest first; how many were ever queued, and how many are over.
    pub(crate) writes: VecDeque<Write>,
    pub(crate) writes_queued: u32,
    pub(crate) writes_done: u32,
    /// The peer's segment: `None` until it has said.
    pub(crate) peer_segment: Option<PeerSegment>,
    /// How many segments the peer has told of, and was told of.
    pub(crate) segments_heard: u32,
    pub(crate) segments_told: u32,
    /// How often the peer may still be told of another segment before it has shown that it listens.
    pub(crate) segments_left: u8,
    /// Whether the bundle knows that there are `writes`, and that the client has not heard of all
    /// that is handled.
    pub(crate) is_writing: bool,
    pub(crate) is_untold: bool,
}

impl Connected for Connection {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

impl Connection {
    pub(crate) fn new(endpoint: EndpointId, role: Role, peer: Name, tag: u64) -> Self {
        Self {
            channel: Channel::default(),
            endpoint,
            role,
            state: State::Unconnected,
            peer,
            death: None,
            tag,
            credits: Credits::new(0, TELL_AFTER),
            records: Box::default(),
            out: VecDeque::new(),
            writes: VecDeque::new(),
            writes_queued: 0,
            writes_done: 0,
            peer_segment: None,
            segments_heard: 0,
            segments_told: 0,
            segments_left: SEGMENTS_AHEAD,
            is_writing: false,
            is_untold: false,
        }
    }

    /// Whether a request may leave now, before anything that waits.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.credits.has_credit() && self.is_clear()
    }

    /// Whether nothing waits to leave.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.out.is_empty() && self.channel.is_ready()
    }

    /// Notes a request that leaves now.
    #[inline]
    pub(crate) fn note(&mut self) -> &mut Record {
        if self.credits.outstanding() as usize >= self.records.len() {
            self.more_records();
        }
        let at = self.credits.sent() as usize & (self.records.len() - 1);
        self.credits.has_sent();
        &mut self.records[at]
    }

    /// Twice as many places, a power of two, at least what is out and one more: a client that
    /// seldom sends keeps few.
    #[cold]
    fn more_records(&mut self) {
        let old = core::mem::take(&mut self.records);
        let count = (2 * old.len()).max(RECORDS_AT_FIRST);
        let mut records = vec![Record::default(); count].into_boxed_slice();
        for i in 0..self.credits.outstanding() {
            let number = self.credits.acked().wrapping_add(i) as usize;
            if let Some(record) = old.get(number & old.len().wrapping_sub(1)) {
                records[number & (count - 1)] = *record;
            }
        }
        self.records = records;
    }

    /// The record of a request, unless its place is another's by now.
    pub(crate) fn record(&self, number: u32) -> Option<&Record> {
        let is_there = self.credits.sent().wrapping_sub(number) as usize <= self.records.len();
        self.records.get(number as usize & self.records.len().wrapping_sub(1)).filter(|_| is_there)
    }

    /// Request `number`, which comes back.
    pub(crate) fn returned(&self, number: u32, end: impl Into<End>) -> Returned {
        let record = self.record(number).copied().unwrap_or_default();
        self.returned_record(&record, end)
    }

    pub(crate) fn returned_record(&self, r: &Record, end: impl Into<End>) -> Returned {
        let index = if let Role::Client { index } = self.role { index } else { 0 };
        let End { status, death } = end.into();
        Returned {
            status,
            death,
            operation: r.operation,
            index,
            destination: self.peer,
            handler: r.handler,
            arg_count: r.arg_count,
            args: r.args,
            source: r.source,
            length: r.length as usize,
            offset: r.offset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_grow_and_stay() {
        let mut c = Connection::new(EndpointId::from_raw(0), Role::Client { index: 0 }, Name::NOBODY, 0);
        // The count wraps on the way, and a third of what is out is handled now and then.
        c.credits = c.credits.starting_at(u32::MAX - 20);
        for i in 0..200u32 {
            let number = c.credits.sent();
            c.note().length = number;
            if i % 60 == 59 {
                let third = c.credits.outstanding() / 3;
                assert_eq!(c.credits.acknowledge(c.credits.acked().wrapping_add(third)), Some(third));
            }
            for back in 0..c.credits.outstanding() {
                let number = c.credits.acked().wrapping_add(back);
                assert_eq!(c.returned(number, Status::Unreachable).length, number as usize);
            }
        }
        assert!(c.records.len() <= 256 && c.records.len().is_power_of_two());
    }
}
