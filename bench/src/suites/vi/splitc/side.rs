// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process of a pair: its segment, its VIs, what it has out, and how it serves the other.

use bellwire_amvia::probe::Stage;

use super::Vis;
use super::lane::{FRAGMENT, HEAD_BYTES, Head, Lane};
use crate::endpoint::cq::Cq;
use crate::endpoint::{Block, Nic};
use crate::error::Error;
use crate::patient::Patient;
use crate::spans::{ACTED, HANDLING, POLLED, PROGRAM, REPLIED, Unwatched, Watch};
use crate::vipl_abi::Descriptor;

/// Bytes of a process's segment.
pub(super) const SEGMENT_BYTES: usize = 1 << 20;

const GET: u64 = 1;
const PUT: u64 = 2;
const STORE: u64 = 3;
const BULK: u64 = 4;
const GOT: u64 = 9;
/// As many requests are done as the third word says.
const DONE: u64 = 10;

/// See the module. Invariant P2: `memory` is this process's segment; the other reaches it by this
/// side's copies alone.
#[derive(Debug)]
pub(super) struct Side {
    pub lanes: Vec<Lane>,
    sends: Cq,
    receives: Cq,
    memory: Block,
    gathers: bool,
    /// Requests whose reply is not there.
    pub out: usize,
    /// The value that the last get brought.
    pub got: u64,
    /// Bytes of stores that have come.
    pub stored: u64,
    /// Gets served.
    pub served: u64,
}

impl Side {
    /// Not connected yet.
    pub(super) fn new(nic: &Nic, reliability: u16, vis: Vis) -> Result<Self, Error> {
        let entries = vis.credits().iter().map(|k| 4 * k + 2).sum();
        let (sends, receives) = (nic.create_cq(entries)?, nic.create_cq(entries)?);
        let lanes = vis.credits().iter().map(|k| Lane::new(nic, reliability, *k, &sends, &receives)).collect::<Result<Vec<_>, _>>()?;
        let memory = nic.allocate(SEGMENT_BYTES, true)?;
        Ok(Self { lanes, sends, receives, memory, gathers: vis.gathers(), out: 0, got: 0, stored: 0, served: 0 })
    }

    /// The VI of bulk operations.
    fn bulk(&self) -> usize {
        self.lanes.len() - 1
    }

    /// Where so many bytes at an offset of the segment are.
    fn at(&self, offset: u64, bytes: usize) -> Result<*mut u8, Error> {
        let at = usize::try_from(offset).ok().filter(|at| *at <= SEGMENT_BYTES && bytes <= SEGMENT_BYTES - at);
        at.map(|at| self.memory.at(at, bytes)).ok_or_else(|| Error::failed("an address outside of the segment"))
    }

    fn load(&self, offset: u64, bytes: usize) -> Result<u64, Error> {
        let (from, mut word) = (self.at(offset, bytes.min(8))?, [0; 8]);
        // SAFETY: P2: so many bytes are there.
        unsafe { from.copy_to_nonoverlapping(word.as_mut_ptr(), bytes.min(8)) };
        Ok(u64::from_ne_bytes(word))
    }

    fn store_word(&self, offset: u64, bytes: usize, word: u64) -> Result<(), Error> {
        let to = self.at(offset, bytes.min(8))?;
        // SAFETY: P2: so many bytes are there.
        unsafe { to.copy_from_nonoverlapping(word.to_ne_bytes().as_ptr(), bytes.min(8)) };
        Ok(())
    }

    /// A request on a VI leaves; while there is no credit or buffer this polls.
    #[inline]
    fn request<W: Watch>(&mut self, lane: usize, head: Head, copied: &[u8], gathered: Option<(u64, usize)>) -> Result<(), Error> {
        if self.lanes[lane].credits == 0 || !self.lanes[lane].has_buffer() {
            let mut patience = Patient::default();
            while self.lanes[lane].credits == 0 || !self.lanes[lane].has_buffer() {
                self.poll::<W>()?;
                patience.tick()?;
            }
        }
        let data = gathered.map(|(offset, bytes)| self.at(offset, bytes).map(|_| self.memory.segment(offset as usize, bytes))).transpose()?;
        let lane = &mut self.lanes[lane];
        lane.credits -= 1;
        self.out += 1;
        W::mark(Stage::Allowed);
        // SAFETY: P2: the segment is registered, and stays.
        let descriptor = unsafe { lane.build(head, copied, data) }?;
        W::mark(Stage::Built);
        lane.vi.post_send(descriptor)?;
        W::mark(Stage::Sent);
        Ok(())
    }

    /// Asks for a word of so many bytes.
    #[inline]
    pub(super) fn get<W: Watch>(&mut self, offset: u64, bytes: usize) -> Result<(), Error> {
        self.request::<W>(0, [GET | (bytes as u64) << 8, offset, 0], &[], None)
    }

    /// Writes a word.
    #[inline]
    pub(super) fn put(&mut self, offset: u64, bytes: usize, word: u64) -> Result<(), Error> {
        self.request::<Unwatched>(0, [PUT | (bytes as u64) << 8, offset, word], &[], None)
    }

    /// Writes a word, of which only the other hears.
    #[inline]
    pub(super) fn store(&mut self, offset: u64, bytes: usize, word: u64) -> Result<(), Error> {
        self.request::<Unwatched>(0, [STORE | (bytes as u64) << 8, offset, word], &[], None)
    }

    /// Writes bytes at an offset of this segment to the same offset of the other's, in fragments.
    pub(super) fn put_bulk(&mut self, offset: u64, bytes: usize) -> Result<(), Error> {
        let lane = self.bulk();
        for first in (0..bytes).step_by(FRAGMENT) {
            let (at, n) = (offset + first as u64, FRAGMENT.min(bytes - first));
            let head = [BULK | (n as u64) << 8, at, 0];
            if self.gathers {
                self.request::<Unwatched>(lane, head, &[], Some((at, n)))?;
            } else {
                let from = self.at(at, n)?;
                // SAFETY: P2: nothing writes the part of the segment that this process sends.
                let data = unsafe { core::slice::from_raw_parts(from, n) };
                self.request::<Unwatched>(lane, head, data, None)?;
            }
        }
        Ok(())
    }

    /// Polls until so many requests are out, at most.
    pub(super) fn until<W: Watch>(&mut self, most: usize) -> Result<(), Error> {
        self.poll_until::<W>(|side| side.out <= most)
    }

    /// Polls until something is so.
    pub(super) fn poll_until<W: Watch>(&mut self, is_so: impl Fn(&Self) -> bool) -> Result<(), Error> {
        let mut patience = Patient::default();
        while !is_so(self) {
            W::step(PROGRAM);
            let found = self.poll::<W>()?;
            W::step(POLLED);
            if !found {
                patience.tick()?;
            }
        }
        Ok(())
    }

    /// Takes a completed send, then a completed receive, and does what it asks for. `false`: none.
    #[inline]
    pub(super) fn poll<W: Watch>(&mut self) -> Result<bool, Error> {
        self.retire::<W>()?;
        W::mark(Stage::Turned);
        let entry = self.receives.done()?;
        W::mark(Stage::ReceivesLooked);
        let Some(entry) = entry else { return Ok(false) };
        let at = self.lanes.iter().position(|lane| lane.vi.is(entry)).ok_or_else(|| Error::failed("an entry of another VI"))?;
        W::mark(Stage::ReceiveFound);
        let received = self.lanes[at].vi.recv_done()?.ok_or_else(|| Error::failed("an entry without a message"))?;
        W::mark(Stage::ReceiveDone);
        let (head, data, length) = Lane::read(received);
        W::mark(Stage::Read);
        self.handle::<W>(at, head, data, length)?;
        W::mark(Stage::Finished);
        Lane::rearm(received);
        W::mark(Stage::ReceiveArmed);
        self.lanes[at].vi.post_recv(received)?;
        W::mark(Stage::ReceivePosted);
        Ok(true)
    }

    #[inline]
    fn retire<W: Watch>(&mut self) -> Result<(), Error> {
        W::mark(Stage::Entered);
        let entry = self.sends.done()?;
        W::mark(Stage::SendsLooked);
        let Some(entry) = entry else { return Ok(()) };
        let lane = self.lanes.iter_mut().find(|lane| lane.vi.is(entry)).ok_or_else(|| Error::failed("an entry of another VI"))?;
        W::mark(Stage::SendFound);
        let done = lane.vi.send_done()?;
        W::mark(Stage::SendDone);
        if let Some(descriptor) = done {
            lane.recycle_send(descriptor);
        }
        W::mark(Stage::SendRecycled);
        Ok(())
    }

    #[inline]
    fn handle<W: Watch>(&mut self, at: usize, head: Head, data: *const u8, length: usize) -> Result<(), Error> {
        let (what, bytes, offset) = (head[0] & 0xff, (head[0] >> 8) as usize, head[1]);
        W::mark(Stage::Sorted);
        W::step(HANDLING);
        match what {
            GET => {
                let word = self.load(offset, bytes)?;
                self.served += 1;
                W::step(ACTED);
                self.reply::<W>(at, [GOT, offset, word])
            }
            PUT => {
                self.store_word(offset, bytes, head[2])?;
                W::step(ACTED);
                self.reply::<W>(at, [DONE, offset, 1])
            }
            BULK if bytes <= length => {
                let to = self.at(offset, bytes)?;
                // SAFETY: P2, and E2: the message has so many bytes.
                unsafe { to.copy_from_nonoverlapping(data, bytes) };
                W::step(ACTED);
                self.reply::<W>(at, [DONE, offset, 1])
            }
            STORE => {
                self.store_word(offset, bytes, head[2])?;
                self.stored += bytes as u64;
                let lane = &mut self.lanes[at];
                lane.unacknowledged += 1;
                if lane.unacknowledged < lane.acknowledge_after {
                    return Ok(());
                }
                let count = core::mem::take(&mut lane.unacknowledged) as u64;
                self.reply::<W>(at, [DONE, offset, count])
            }
            GOT => {
                self.got = head[2];
                W::step(ACTED);
                self.answered::<W>(at, 1)
            }
            DONE => self.answered::<W>(at, head[2] as usize),
            _ => Err(Error::failed("a message that cannot be")),
        }
    }

    /// So many requests of this side are done.
    #[inline]
    fn answered<W: Watch>(&mut self, at: usize, count: usize) -> Result<(), Error> {
        let left = self.out.checked_sub(count).ok_or_else(|| Error::failed("an answer too many"))?;
        self.out = left;
        self.lanes[at].credits += count;
        W::step(REPLIED);
        Ok(())
    }

    #[inline]
    fn reply<W: Watch>(&mut self, at: usize, head: Head) -> Result<(), Error> {
        let mut patience = Patient::default();
        while !self.lanes[at].has_buffer() {
            self.retire::<W>()?;
            patience.tick()?;
        }
        let lane = &mut self.lanes[at];
        W::mark(Stage::Allowed);
        // SAFETY: nothing is gathered.
        let descriptor: *mut Descriptor = unsafe { lane.build(head, &[], None) }?;
        W::mark(Stage::Built);
        lane.vi.post_send(descriptor)?;
        W::mark(Stage::Sent);
        W::step(REPLIED);
        Ok(())
    }
}

const _: () = assert!(HEAD_BYTES + FRAGMENT == 4096);
