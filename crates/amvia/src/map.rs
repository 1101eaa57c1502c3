// SPDX-License-Identifier: MIT OR Apache-2.0
//! A MAP object: all that two endpoints have for each other, in both directions.
//!
//! Each request is answered by one message: a reply, that it is handled, or that it is refused. So
//! the receive buffer for an answer is that of its request, and answers need no credits. Besides
//! there is at most one message about a segment out each way, and one that it has been heard.

use crate::carrying::{CONTROL, Write};
use crate::cut::{Arriving, Fetch, Stream};
use crate::delivery::Delivery;
use crate::head::{Head, Kind};
use crate::lane::Lane;
use crate::name::Name;
use crate::record::{End, Record};
use std::collections::{BTreeMap, VecDeque};

/// Replies that a requester of v1 fetches at a time: with so many it sends no further request, as
/// its peer holds them meanwhile.
pub(crate) const FETCHES_MAX: usize = 4;

/// How far a MAP object is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// This side has asked.
    Asking,
    /// The peer has asked, and not all VIs are there yet.
    Joining,
    Open,
    Dead(End),
}

/// The peer's segment, as it has told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerSegment {
    pub address: u64,
    pub length: u64,
    pub handle: u32,
}

/// What an answer with bulk data writes first.
pub(crate) struct Bulk {
    /// Address and handle of what is read.
    pub from: (u64, u32),
    pub write: Write,
    pub offset: u64,
    /// Of which of the peer's segments: how many this side had heard of.
    pub heard: u16,
}

/// An answer that waits for a send buffer.
pub(crate) struct Waiting {
    pub lane: usize,
    pub head: Head,
    pub payload: Vec<u8>,
    pub bulk: Option<(Bulk, u32)>,
}

/// A MAP object.
pub(crate) struct Map {
    pub endpoint: u32,
    pub peer: Name,
    pub state: State,
    /// Entries of the table that lead here.
    pub entries: u32,
    pub lanes: Vec<Lane>,
    pub peer_segment: Option<PeerSegment>,
    /// How often this side has told of its segment, and the peer of its own.
    pub told: u16,
    pub heard: u16,
    /// The count of `told` from which on the segment is the present one.
    pub segment_since: u16,
    /// Messages that may trust in a segment that has not been heard of: VIs have no order among
    /// each other.
    pub late: VecDeque<Delivery>,
    /// The peer has asked for a connection although there is one.
    pub has_insisted: bool,
    /// A message about this side's segment is out; there is a newer segment.
    pub is_segment_out: bool,
    pub is_segment_new: bool,
    /// v1: bulk requests whose pieces leave, how many there were, and are over; replies that are
    /// fetched, and that are held for the peer.
    pub streams: VecDeque<Stream>,
    pub streams_begun: u64,
    pub streams_done: u64,
    pub fetches: VecDeque<Fetch>,
    pub held: BTreeMap<u64, Vec<u8>>,
    pub held_count: u64,
    pub is_pumping: bool,
    /// v1: the bulk request that comes, and the answer to a get.
    pub arriving: Arriving,
    pub getting: Arriving,
    /// Answers that wait for send buffers; whether the core knows of it.
    pub waiting: VecDeque<Waiting>,
    pub is_noted: bool,
}

impl Map {
    pub(crate) fn new(endpoint: u32, peer: Name, state: State) -> Self {
        Self {
            endpoint,
            peer,
            state,
            entries: 0,
            lanes: Vec::new(),
            peer_segment: None,
            told: 0,
            heard: 0,
            segment_since: 0,
            late: VecDeque::new(),
            has_insisted: false,
            streams: VecDeque::new(),
            streams_begun: 0,
            streams_done: 0,
            fetches: VecDeque::new(),
            held: BTreeMap::new(),
            held_count: 0,
            is_pumping: false,
            arriving: Arriving::NOTHING,
            getting: Arriving::NOTHING,
            is_segment_out: false,
            is_segment_new: false,
            waiting: VecDeque::new(),
            is_noted: false,
        }
    }

    /// How many answers may wait: one for each request of a peer that keeps to its credits, and
    /// messages about segments.
    pub(crate) fn waiting_max(&self) -> usize {
        self.lanes.iter().map(|lane| lane.records.len()).sum::<usize>() + CONTROL
    }

    /// How many replies may be held: one for each request of a peer that keeps to its credits,
    /// those that it fetches, and that of bulk data whose pieces were on their way.
    pub(crate) fn held_max(&self) -> usize {
        self.lanes.iter().map(|lane| lane.records.len()).sum::<usize>() + FETCHES_MAX + 1
    }

    /// Whether bulk data that the peer has written when it had heard of so many segments is in the
    /// present one.
    pub(crate) fn is_of_segment(&self, heard: u64) -> bool {
        (heard as u16).wrapping_sub(self.segment_since) as i16 >= 0
    }

    /// Requests of this side that are out and have not come back.
    pub(crate) fn out(&self) -> impl Iterator<Item = &Record> {
        let slots = self.lanes.iter().flat_map(|lane| &lane.records).flatten();
        let cut = self.streams.iter().map(|stream| &stream.record).chain(self.fetches.iter().map(|fetch| &fetch.record));
        slots.chain(cut).filter(|record| !record.is_abandoned)
    }

    /// How many they are.
    pub(crate) fn outstanding(&self) -> u64 {
        self.out().count() as u64
    }
}

/// A message about a segment.
pub(crate) fn segment_head(segment: Option<(u64, u64, u32)>) -> Head {
    let (address, length, handle) = segment.unwrap_or_default();
    Head { words: [address, length, u64::from(handle)], ..Head::new(Kind::Segment, 0, 0, &[]) }
}
