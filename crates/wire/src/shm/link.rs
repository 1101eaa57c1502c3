// SPDX-License-Identifier: MIT OR Apache-2.0
//! One link: the data path between two NICs of a host. Frames are here, the peer's memory is in
//! `link/direct.rs`.
//!
//! Invariants
//! - L1: our words, lines and advertisements are ours alone to write, the peer's and its catalogue
//!   are mapped read-only (by this process and, through the seals, by any other). Payload bytes may
//!   be writable by both sides: written by the sending side only, which never reads them (H1 of
//!   half.rs).
//! - L2: the pointers into them live as long as the link, which owns the mappings.
//! - L3: whatever is read from `inward` is a copy, checked before use.

mod direct;

use super::half::{OwnHalf, PeerHalf};
use super::layout::{ADVERTS_AT, ARMED_AT, AWAY_AT, CATALOGUE_ENTRIES, EPOCH_AT, FRAME_PAYLOAD_MAX, HEAD_AT, LINES, LINES_AT, PAYLOAD_BYTES, PROOF_AT};
use crate::frame::Head;
use crate::payload::PayloadFifo;
use crate::told::{ADVERT_WORDS, ADVERTS, CATALOGUE_WORDS, Grant};
use crate::{Frame, Peeked, Received, Sent};
use bellwire_memory::atomic::{AtomicU32, AtomicU64, Ordering};
use bellwire_memory::event::PeerBell;
use bellwire_memory::fd_passing::Socket;
use bellwire_memory::line_queue::{Consumer, HEAD_WORDS, LINE_WORDS, Line, MappedHead, MappedSlots, Producer};
use bellwire_memory::membarrier::{self, Reach};
use bellwire_memory::pause::pause;
use bellwire_memory::region::RemoteRegion;
use bellwire_memory::tagged_table::{MappedWords, TableReader, TableWriter};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;

/// Identifies a NIC while it is open: random.
pub(super) type NicId = [u8; 16];

/// A peer's allocation, as far as it is known here.
#[derive(Debug)]
pub(super) enum Foreign {
    /// Asked for.
    Requested { write: bool },
    /// Here.
    Mapped(RemoteRegion),
    /// The owner said no; asked again only after something changed at this side.
    Refused { write: bool },
}

/// The word for a processor that others may have; 0: they may not.
fn away_word(from: Option<usize>) -> u32 {
    from.map_or(0, |p| (p as u32).wrapping_add(1))
}

/// In an away word: the owner closes the link in good order. No processor has this number.
const CLOSED: u32 = u32::MAX;

/// Frames in a row, none sent in between, that make a stream. A reader of a stream that has caught
/// up with its writer looks less often: each look takes the line away from the writer, who then
/// waits for it before the next message.
const STREAM_FRAMES_MIN: u32 = 16;
/// Polls that it then leaves out.
const STREAM_POLLS_SKIPPED: u32 = 4;

/// Bits of an armed word: ring when you have sent something; ring also when you have read what I
/// sent.
pub(super) const ARMED: u32 = 1;
pub(super) const FOR_ROOM: u32 = 2;

/// What a link is made of, from the handshake.
#[derive(Debug)]
pub(super) struct Parts {
    pub out: OwnHalf,
    pub inward: PeerHalf,
    pub bell: PeerBell,
    pub pidfd: Option<OwnedFd>,
    pub socket: Socket,
    pub peer: NicId,
    pub peer_pid: u32,
    pub peer_uid: u32,
    pub loopback: bool,
    /// We asked for the link (which end of a loopback).
    pub connector: bool,
    pub mapped: bool,
    /// The peer's nonce, read out of its memory; 0: that is not possible.
    pub proof: u64,
    /// Our own nonce; 0: cross-memory attach is not wanted.
    pub nonce: u64,
    /// The peer's `membarrier` reaches us and ours reaches it.
    pub barriers: bool,
}

/// A link.
#[derive(Debug)]
pub(crate) struct Link {
    producer: Producer<MappedSlots, MappedHead>,
    consumer: Consumer<MappedSlots, MappedHead>,
    payload_out: PayloadFifo,
    payload_in: *const u8,
    payload_consumed: u32,
    /// Slots that are consumed and read still, in the order of the queue: neither they nor their
    /// payload go back to the sender yet.
    kept: Vec<u32>,
    /// Frames received since we last sent one: a stream, if many.
    one_way: u32,
    /// Polls to come that do not look.
    skip: u32,
    peer_armed: *const AtomicU32,
    own_armed: *const AtomicU32,
    peer_away: *const AtomicU32,
    own_away: *const AtomicU32,
    own_epoch: *const AtomicU32,
    peer_epoch: *const AtomicU32,
    adverts_out: TableWriter<MappedWords, ADVERT_WORDS>,
    adverts_in: TableReader<MappedWords, ADVERT_WORDS>,
    catalogue_in: TableReader<MappedWords, CATALOGUE_WORDS>,
    pub(super) foreign: BTreeMap<u32, Foreign>,
    /// The mapping used last: (segment, base, bytes, writable).
    recent: (u32, *mut u8, usize, bool),
    /// The peer's region used last by direct access.
    grant: Grant,
    /// Allocations of the peer to be asked for: (segment, write).
    pub(super) wanted: Vec<(u32, bool)>,
    /// Cross-memory attach has failed here.
    pub(super) attach_failed: bool,
    peer_proof: *const AtomicU64,
    /// The peer has been given some allocation of ours: it may be inside.
    pub(super) given_memory: bool,
    /// Waits for it to leave our memory that ended at their bound.
    pub(super) overstays: u32,
    pub(super) parts: Parts,
}

// SAFETY: L2: the raw pointers point into mappings that the link owns.
unsafe impl Send for Link {}

impl Link {
    pub(super) fn new(parts: Parts) -> Self {
        let own = parts.out.lines.base();
        // SAFETY: L2: aligned (layout.rs), our own region. Relaxed: a number that the peer compares
        // with one of its own; nothing is published by it.
        unsafe { (*own.add(PROOF_AT).cast::<AtomicU64>()).store(parts.proof, Ordering::Relaxed) };
        let peer = parts.inward.lines.base().cast_mut();
        let catalogue = parts.inward.catalogue.base().cast_mut();
        // SAFETY: M1, M2, M3 of their modules: the mappings have LINK_BYTES, PAYLOAD_BYTES and
        // CATALOGUE_BYTES, the offsets are aligned (layout.rs), and L2; only the writing ends are
        // given memory of ours.
        unsafe {
            let head_of_peer = MappedHead::new(peer.add(HEAD_AT));
            let head_of_ours = MappedHead::new(own.add(HEAD_AT));
            Self {
                producer: Producer::new(MappedSlots::new(own.add(LINES_AT)), head_of_peer, LINES),
                consumer: Consumer::new(MappedSlots::new(peer.add(LINES_AT)), head_of_ours, LINES),
                payload_out: PayloadFifo::new(parts.out.payload.base(), PAYLOAD_BYTES),
                payload_in: parts.inward.payload.base(),
                payload_consumed: 0,
                kept: Vec::new(),
                one_way: 0,
                skip: 0,
                peer_armed: peer.add(ARMED_AT).cast(),
                own_armed: own.add(ARMED_AT).cast(),
                peer_away: peer.add(AWAY_AT).cast(),
                own_away: own.add(AWAY_AT).cast(),
                own_epoch: own.add(EPOCH_AT).cast(),
                peer_epoch: peer.add(EPOCH_AT).cast(),
                adverts_out: TableWriter::new(MappedWords::new(own.add(ADVERTS_AT), ADVERTS * ADVERT_WORDS), ADVERTS),
                adverts_in: TableReader::new(MappedWords::new(peer.add(ADVERTS_AT), ADVERTS * ADVERT_WORDS), ADVERTS),
                catalogue_in: TableReader::new(MappedWords::new(catalogue, CATALOGUE_ENTRIES * CATALOGUE_WORDS), CATALOGUE_ENTRIES),
                foreign: BTreeMap::new(),
                recent: (0, core::ptr::null_mut(), 0, false),
                grant: Grant::NONE,
                wanted: Vec::new(),
                attach_failed: false,
                peer_proof: peer.add(PROOF_AT).cast(),
                given_memory: false,
                overstays: 0,
                parts,
            }
        }
    }

    // ---- frames

    /// Whether there is room for a line; if not, what to answer.
    #[inline(always)]
    fn room(&mut self) -> Result<(), Sent> {
        match self.producer.has_room() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Sent::NoRoom),
            Err(_) => Err(Sent::Broken),
        }
    }

    /// The steps after a line that has been published.
    #[inline(always)]
    fn sent(&mut self) -> Sent {
        self.one_way = 0;
        self.ring_if_armed(u32::MAX);
        Sent::Yes
    }

    #[inline(always)]
    pub(crate) fn send(&mut self, line: &mut Line, words: usize) -> Sent {
        if let Err(stopped) = self.room() {
            return stopped;
        }
        self.producer.push(line, words);
        self.sent()
    }

    /// Sends word 0 and `length` bytes.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes, at most 56.
    #[inline(always)]
    pub(crate) unsafe fn send_whole(&mut self, word0: u64, from: *const u8, length: usize) -> Sent {
        if let Err(stopped) = self.room() {
            return stopped;
        }
        // SAFETY: the caller's.
        unsafe { self.producer.push_bytes(word0, from, length) };
        self.sent()
    }

    /// See [`Wire::send_headed`](crate::Wire::send_headed).
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn send_headed(&mut self, word0: u64, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) -> Sent {
        if let Err(stopped) = self.room() {
            return stopped;
        }
        // SAFETY: the caller's.
        unsafe { self.producer.push_headed(word0, head, words, from, length) };
        self.sent()
    }

    /// See [`Wire::take`](crate::Wire::take). While looks are left out, nothing is taken.
    #[inline(always)]
    pub(crate) fn take<const PAYLOAD: bool, R>(&mut self, mut looks: u32, take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        if self.skip != 0 {
            return None;
        }
        let head = loop {
            if let Some(head) = self.consumer.peek_word0() {
                break head;
            }
            looks -= 1;
            if looks == 0 {
                return None;
            }
            pause();
        };
        let words = self.consumer.slots().address(self.consumer.slot_index()).cast::<u64>();
        // SAFETY: the words of the slot at the head, which is there.
        let (payload, length) = if PAYLOAD && Head(head).is_bulk() { unsafe { self.payload_of(words) }? } else { (core::ptr::null(), 0) };
        // SAFETY: F1: the slot stays mapped while `take` runs; so does the payload, whose place has
        // been checked.
        let taken = take(&unsafe { Frame::new(head, words, payload, length as usize) })?;
        if PAYLOAD {
            self.payload_consumed += length;
        }
        self.one_way = self.one_way.saturating_add(1);
        self.consume();
        Some(taken)
    }

    /// See [`Wire::peek_line`](crate::Wire::peek_line). While looks are left out, nothing is done.
    ///
    /// # Safety
    /// F2, as there.
    #[inline(always)]
    pub(crate) unsafe fn peek_line(&mut self, looks: u32) -> Peeked {
        if self.skip != 0 {
            return Peeked::Otherwise;
        }
        for look in 0..looks {
            if look != 0 {
                pause();
            }
            let Some(head) = self.consumer.peek_word0() else { continue };
            if Head(head).is_bulk() {
                return Peeked::Otherwise;
            }
            let words = self.consumer.slots().address(self.consumer.slot_index()).cast::<u64>();
            // SAFETY: F1: the slot stays mapped as long as F2 lets the caller use the frame.
            return Peeked::Line(unsafe { Frame::new(head, words, core::ptr::null(), 0) });
        }
        self.found_nothing(true);
        Peeked::Nothing
    }

    /// There is no frame: the reader is at leisure to say how far it has come, and looks less often
    /// if it has caught up with a stream.
    #[inline(always)]
    fn found_nothing(&mut self, may_skip: bool) {
        if self.one_way >= STREAM_FRAMES_MIN && may_skip {
            self.skip = STREAM_POLLS_SKIPPED;
        }
        if self.consumer.unpublished() != 0 && self.kept.is_empty() {
            self.publish_head();
        }
    }

    /// See [`Wire::consume_peeked`](crate::Wire::consume_peeked).
    #[inline(always)]
    pub(crate) fn consume_peeked(&mut self) {
        self.one_way = self.one_way.saturating_add(1);
        self.consume();
    }

    #[inline]
    pub(crate) fn send_with_payload(&mut self, line: &mut Line, length: usize, fill: impl FnOnce(*mut u8) -> bool) -> Sent {
        debug_assert!(length <= FRAME_PAYLOAD_MAX as usize);
        if let Err(stopped) = self.room() {
            return stopped;
        }
        let mut place = self.payload_out.allocate(length as u32, self.producer.head_seen());
        if place.is_none() {
            if self.producer.refresh().is_err() {
                return Sent::Broken;
            }
            place = self.payload_out.allocate(length as u32, self.producer.head_seen());
        }
        let Some((position, to)) = place else { return Sent::NoRoom };
        if !fill(to) {
            return Sent::Unfilled;
        }
        line.0[7] = u64::from(position);
        self.payload_out.commit(self.producer.tail());
        self.producer.push(line, LINE_WORDS);
        self.sent()
    }

    /// See [`Wire::receive`](crate::Wire::receive). Beside other links, at which a poller looks
    /// meanwhile, no poll is left out: a poller that lets others run after each poll would not see
    /// a message for as many turns of the scheduler.
    ///
    /// # Safety
    /// F2, as there.
    #[inline(always)]
    pub(crate) unsafe fn receive(&mut self, is_only: bool) -> Received {
        if self.leaves_out() && is_only {
            return Received::Empty;
        }
        let Some(head) = self.consumer.peek_word0() else {
            self.found_nothing(is_only);
            return Received::Empty;
        };
        self.one_way = self.one_way.saturating_add(1);
        let words = self.consumer.slots().address(self.consumer.slot_index()).cast::<u64>();
        if !Head(head).is_bulk() {
            // SAFETY: F1: the slot stays mapped as long as F2 lets the caller use the frame.
            return Received::Frame(unsafe { Frame::new(head, words, core::ptr::null(), 0) });
        }
        // A read request has no payload though it uses the words of one: it is not BULK.
        // SAFETY: the words of the slot at the head, which is there.
        let Some((payload, length)) = (unsafe { self.payload_of(words) }) else { return Received::Broken };
        self.payload_consumed += length;
        // SAFETY: F1: the slot stays mapped as long as F2 lets the caller use the frame; so does
        // the payload, whose place has been checked.
        Received::Frame(unsafe { Frame::new(head, words, payload, length as usize) })
    }

    /// See [`Wire::leaves_out`](crate::Wire::leaves_out).
    #[inline(always)]
    pub(crate) fn leaves_out(&mut self) -> bool {
        if self.skip == 0 {
            return false;
        }
        self.skip -= 1;
        // SAFETY: L2. Relaxed: our own word. A thread that has armed looks for the last time before
        // it sleeps: that look must be a true one.
        unsafe { (*self.own_armed).load(Ordering::Relaxed) == 0 }
    }

    /// See [`Wire::may_bring`](crate::Wire::may_bring): a line is there, or a look has to say how
    /// far the reader has come.
    #[inline(always)]
    pub(crate) fn may_bring(&self) -> bool {
        self.consumer.peek_word0().is_some() || self.consumer.unpublished() != 0
    }

    /// Where the payload of the frame with these words is, and its length; `None` if that cannot
    /// be.
    ///
    /// # Safety
    /// F1: `words` are those of a slot that is there.
    #[inline(always)]
    unsafe fn payload_of(&self, words: *const u64) -> Option<(*const u8, u32)> {
        // SAFETY: F1; volatile, since the peer may write it.
        let (length, position) = unsafe { ((words.add(2).read_volatile() >> 32) as u32, words.add(7).read_volatile()) };
        if length > FRAME_PAYLOAD_MAX || position > u64::from(PAYLOAD_BYTES - length) {
            return None;
        }
        // SAFETY: L3: within the payload bytes, just checked.
        Some((unsafe { self.payload_in.add(position as usize) }, length))
    }

    #[inline(always)]
    pub(crate) fn consume(&mut self) {
        self.consumer.consume();
        if self.consumer.unpublished() >= LINES / 4 || self.payload_consumed >= PAYLOAD_BYTES / 8 {
            self.publish_head();
        }
    }

    /// As [`consume`](Self::consume), for a frame with payload that is read until
    /// [`release`](Self::release): the mark to give there. Frames behind it can be received
    /// meanwhile.
    pub(crate) fn consume_keeping(&mut self) -> u32 {
        let slot = self.consumer.head();
        self.kept.push(slot);
        self.consume();
        slot
    }

    /// A kept frame is no longer read. `false`: there are others.
    pub(crate) fn release(&mut self, mark: u32) -> bool {
        self.kept.retain(|slot| *slot != mark);
        if self.kept.is_empty() && (self.consumer.unpublished() >= LINES / 4 || self.payload_consumed >= PAYLOAD_BYTES / 8) {
            self.publish_head();
        }
        self.kept.is_empty()
    }

    /// Whether frames are kept: the mapping must stay.
    pub(super) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Tells the peer how far we have read; it may sleep for want of room, and says so.
    #[inline]
    fn publish_head(&mut self) {
        if let Some(oldest) = self.kept.first() {
            return self.consumer.publish_before(*oldest);
        }
        self.payload_consumed = 0;
        self.consumer.publish();
        self.ring_if_armed(FOR_ROOM);
    }

    /// Rings the peer's bell if it sleeps. After everything that it may be waiting for.
    #[inline(always)]
    fn ring_if_armed(&mut self, reasons: u32) {
        membarrier::light(self.parts.barriers);
        // SAFETY: L2. Relaxed: ordered after the publication by the barrier above; pairs with arm()
        // (Dekker: the sleeper's heavy barrier).
        if unsafe { (*self.peer_armed).load(Ordering::Relaxed) } & reasons != 0 {
            self.ring();
        }
    }

    /// Rings the peer's bell.
    #[cold]
    #[inline(never)]
    pub(super) fn ring(&self) {
        // A peer whose bell cannot be rung hurts itself alone: it finds the frame when it looks.
        let _ = self.parts.bell.ring();
    }

    /// The next look leaves no poll out.
    pub(super) fn look_truly(&mut self) {
        (self.one_way, self.skip) = (0, 0);
    }

    /// Says for what the peer is to ring our bell. The caller issues the heavy barrier.
    pub(super) fn arm(&self, reasons: u32) {
        // SAFETY: L2. Relaxed: made visible before the second look by the caller's barrier; pairs
        // with ring_if_armed().
        unsafe { (*self.own_armed).store(reasons, Ordering::Relaxed) };
    }

    /// Says that we let others have this processor; `None`: that we do not.
    pub(super) fn set_away(&self, from: Option<usize>) {
        // SAFETY: L2. Relaxed: a hint, nothing is published by it; read by is_peer_at_work() and
        // has_peer_left().
        unsafe { (*self.own_away).store(away_word(from), Ordering::Relaxed) };
    }

    /// Whether the peer says that it lets others have this processor.
    pub(super) fn has_peer_left(&self, processor: usize) -> bool {
        // SAFETY: L2. Relaxed: a hint; a peer that lies has us move to another processor a few
        // times at most.
        unsafe { (*self.peer_away).load(Ordering::Relaxed) == away_word(Some(processor)) }
    }

    /// Whether the peer does not say that it lets others have its processor: it is at work, or
    /// asleep and may have been rung, so that what we wait for may come any moment.
    pub(super) fn is_peer_at_work(&self) -> bool {
        // SAFETY: L2. Relaxed: a hint; what the peer writes there costs us some polls at most.
        unsafe { (*self.peer_away).load(Ordering::Relaxed) == 0 }
    }

    /// Whether the peer, whose socket has closed, says that it closed the link in good order. A
    /// process that is killed does not.
    pub(super) fn has_peer_closed(&self) -> bool {
        // SAFETY: L2. Relaxed: the peer's store precedes the closing of its socket, which the
        // kernel has told us; a peer that lies changes a text.
        unsafe { (*self.peer_away).load(Ordering::Relaxed) == CLOSED }
    }

    /// Which barrier reaches the peer.
    pub(super) fn reach(&self) -> Reach {
        if self.parts.barriers { Reach::Registered } else { Reach::Fenced }
    }

    /// A mark behind all frames sent so far.
    pub(super) fn sent_mark(&self) -> u32 {
        self.producer.tail()
    }

    /// Whether the peer has consumed all frames before the mark. It publishes its head when it
    /// finds nothing more, at the latest.
    pub(super) fn is_taken(&mut self, mark: u32) -> bool {
        let tail = self.producer.tail();
        let since = tail.wrapping_sub(mark);
        if tail.wrapping_sub(self.producer.head_seen()) <= since {
            return true;
        }
        // A lie about the head is found again, and acted upon, by the next send.
        self.producer.refresh().is_ok() && tail.wrapping_sub(self.producer.head_seen()) <= since
    }
}

impl Drop for Link {
    /// Tells the peer that this is no accident; the socket closes after it.
    fn drop(&mut self) {
        // SAFETY: L2: the regions are fields, dropped after this. Relaxed: see has_peer_closed().
        unsafe { (*self.own_away).store(CLOSED, Ordering::Relaxed) };
    }
}
