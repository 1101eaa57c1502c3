// SPDX-License-Identifier: MIT OR Apache-2.0
//! One link: frames between two NICs. Memory of the peer is in `link/direct.rs`.
//!
//! Each side writes the peer's segment: within a node by stores through a map of it, or payload by
//! DMA; to another node by DMA alone, out of a staging segment with the same layout. Each side
//! reads its own segment.
//!
//! ```text
//!   near:  stores  ----> out (map of the peer's segment)
//!   far:   stores  ----> out (staging)  -- DMA, parts in order -->  the peer's segment
//! ```
//!
//! Invariants
//! - L1: `out` is written by this side alone; `inward` by the peer, so whatever is read there is a
//!   copy, checked before use.
//! - L2: the pointers into them live as long as the link, which owns the segments and the map.
//! - L3: a payload's place in `inward` is checked before it is handed out.

mod direct;

use super::layout::{
    ADVERTS_AT, ARMED_AT, AWAY_AT, CATALOGUE_AT, CATALOGUE_ENTRIES, EPOCH_AT, FRAME_PAYLOAD_MAX, HEAD_AT, LINES, LINES_AT, PAYLOAD_AT, PAYLOAD_BYTES, RUNG_AT,
    SEGMENT_BYTES,
};
use super::message::{Message, NicId};
use super::outcome::Place;
use crate::frame::Head;
use crate::payload::PayloadFifo;
use crate::told::{ADVERT_WORDS, ADVERTS, CATALOGUE_WORDS, Grant};
use crate::{Frame, Peeked, Received, Sent};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::line_queue::{Consumer, LINE_BYTES, LINE_WORDS, Line, MappedHead, MappedSlots, Producer};
use bellwire_memory::membarrier::{self, Reach};
use bellwire_memory::pause::pause;
use bellwire_memory::tagged_table::{MappedWords, TableReader, TableWriter};
use bellwire_sisci_calls::{DmaQueue, Error, Hear, Part, Remote, RemoteDataInterrupt, RemoteInterrupt, Segment, Sisci, Told};
use direct::Advertised;
pub(super) use direct::Foreign;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Transfers to another node that are under way, most: more than lines and words together.
const TRANSFERS_MAX: u32 = 1 << 16;

/// Bits of an armed word: wake when you have sent something; wake also when you have read what I
/// sent.
pub(super) const ARMED: u32 = 1;
pub(super) const FOR_ROOM: u32 = 2;

/// How the peer is woken.
#[derive(Clone, Debug)]
enum Bell {
    Interrupt(Arc<RemoteInterrupt>),
    /// A word in its segment, which its event manager looks at.
    Word,
}

/// What a link is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub inbound: Arc<Segment>,
    pub remote: Remote,
    pub control: Arc<RemoteDataInterrupt>,
    pub bell: Option<Arc<RemoteInterrupt>>,
    /// Keeps its peer's end in view while it is being made.
    pub peer: NicId,
    /// The id of the peer's end: `remote`'s.
    pub to: u32,
    pub place: Place,
    pub loopback: bool,
    /// We asked for the link (which end of a loopback).
    pub connector: bool,
    pub mapped: bool,
    pub barriers: bool,
    /// Names the link in notes.
    pub token: u64,
}

/// The way by DMA.
#[derive(Debug)]
struct Dma {
    queue: DmaQueue,
    staging: Segment,
    /// From which payload on; to another node everything goes so.
    from: usize,
}

/// The parts of a link that take time to give up.
#[derive(Debug)]
pub(super) struct Held {
    dma: Option<Dma>,
    pub parts: Parts,
    pub foreign: BTreeMap<u32, Foreign>,
}

impl Drop for Held {
    /// Transfers to another node arrive first.
    fn drop(&mut self) {
        if let Some(dma) = self.dma.as_ref().filter(|_| !self.parts.place.near) {
            dma.queue.wait();
        }
    }
}

/// A link.
#[derive(Debug)]
pub(crate) struct Link {
    producer: Producer<MappedSlots, MappedHead>,
    consumer: Consumer<MappedSlots, MappedHead>,
    payload_out: PayloadFifo,
    payload_in: *const u8,
    payload_consumed: u32,
    out: *mut u8,
    rung: u32,
    bell: Bell,
    near: bool,
    barriers: bool,
    peer_armed: *const AtomicU32,
    own_armed: *const AtomicU32,
    peer_away: *const AtomicU32,
    own_away: *const AtomicU32,
    own_rung: *const AtomicU32,
    own_epoch: *const AtomicU32,
    peer_epoch: *const AtomicU32,
    adverts_out: TableWriter<MappedWords, ADVERT_WORDS>,
    adverts_in: TableReader<MappedWords, ADVERT_WORDS>,
    catalogue_out: TableWriter<MappedWords, CATALOGUE_WORDS>,
    catalogue_in: TableReader<MappedWords, CATALOGUE_WORDS>,
    /// Receive descriptors that wait to be published.
    unpublished: Vec<Advertised>,
    /// The mapping used last: (segment, base, bytes, writable).
    recent: (u32, *mut u8, usize, bool),
    /// The peer's region used last by direct access.
    grant: Grant,
    /// Allocations of the peer to be asked for: (segment, write).
    pub(super) wanted: Vec<(u32, bool)>,
    /// The peer has been given some allocation of ours: it may be inside.
    pub(super) given_memory: bool,
    /// Waits for it to leave our memory that ended at their bound.
    pub(super) overstays: u32,
    pub(super) held: Held,
}

// SAFETY: L2: the raw pointers point into mappings that the link owns.
unsafe impl Send for Link {}

const NOTHING: Part = Part { from: 0, to: 0, bytes: 0 };
/// Counts for an event manager that are on their way to another node, most.
const RUNGS: u32 = 1 << 14;
const _: () = assert!(RUNGS > 8 * LINES && RUNGS as usize * 4 <= CATALOGUE_ENTRIES * CATALOGUE_WORDS * 8);

/// A part that has the same place at both ends.
fn part(at: usize, bytes: usize) -> Part {
    Part { from: at as u32, to: at as u32, bytes: bytes as u32 }
}

fn away_word(from: Option<usize>) -> u32 {
    from.map_or(0, |p| (p as u32).wrapping_add(1))
}

/// The way by DMA of a link, if it needs one. To another node, what has arrived wakes the peer.
fn dma_of(sisci: &Arc<Sisci>, parts: &Parts, from: Option<usize>) -> Result<Option<Dma>, Error> {
    if parts.place.near {
        let Some(from) = from else { return Ok(None) };
        return Ok(Some(Dma { queue: DmaQueue::create(sisci, 1, None)?, staging: Segment::private(sisci, SEGMENT_BYTES)?, from }));
    }
    let hear = parts.bell.clone().map(|bell| {
        let inbound = Arc::clone(&parts.inbound);
        let hear: Hear = Arc::new(move |told| {
            // SAFETY: an aligned word of the segment (layout.rs), which lives. Acquire: as wakes().
            let armed = unsafe { (*inbound.base().add(ARMED_AT).cast::<AtomicU32>()).load(Ordering::Acquire) };
            if matches!(told, Told::Done(true)) && armed != 0 {
                let _ = bell.trigger();
            }
        });
        hear
    });
    Ok(Some(Dma { queue: DmaQueue::create(sisci, TRANSFERS_MAX, hear)?, staging: Segment::private(sisci, SEGMENT_BYTES)?, from: 0 }))
}

impl Link {
    pub(super) fn new(sisci: &Arc<Sisci>, parts: Parts, dma_from: Option<usize>) -> Result<Self, Error> {
        let dma = dma_of(sisci, &parts, dma_from)?;
        let near = parts.place.near;
        let out = dma.as_ref().filter(|_| !near).map_or(parts.remote.base(), |dma| dma.staging.base());
        let inward = parts.inbound.base();
        let (barriers, bell) = (parts.barriers, parts.bell.clone().map_or(Bell::Word, Bell::Interrupt));
        // SAFETY: M1, M2, M3 of their modules: all three have SEGMENT_BYTES, the offsets are
        // aligned (layout.rs), and L2; only the writing ends are given `out`.
        unsafe {
            Ok(Self {
                producer: Producer::new(MappedSlots::new(out.add(LINES_AT)), MappedHead::new(inward.add(HEAD_AT)), LINES),
                consumer: Consumer::new(MappedSlots::new(inward.add(LINES_AT)), MappedHead::new(out.add(HEAD_AT)), LINES),
                payload_out: PayloadFifo::new(out.add(PAYLOAD_AT), PAYLOAD_BYTES),
                payload_in: inward.add(PAYLOAD_AT),
                payload_consumed: 0,
                out,
                rung: 0,
                bell,
                near,
                barriers,
                peer_armed: inward.add(ARMED_AT).cast(),
                own_armed: out.add(ARMED_AT).cast(),
                peer_away: inward.add(AWAY_AT).cast(),
                own_away: out.add(AWAY_AT).cast(),
                own_rung: out.add(RUNG_AT).cast(),
                own_epoch: out.add(EPOCH_AT).cast(),
                peer_epoch: inward.add(EPOCH_AT).cast(),
                adverts_out: TableWriter::new(MappedWords::new(out.add(ADVERTS_AT), ADVERTS * ADVERT_WORDS), ADVERTS),
                adverts_in: TableReader::new(MappedWords::new(inward.add(ADVERTS_AT), ADVERTS * ADVERT_WORDS), ADVERTS),
                catalogue_out: TableWriter::new(MappedWords::new(out.add(CATALOGUE_AT), CATALOGUE_ENTRIES * CATALOGUE_WORDS), CATALOGUE_ENTRIES),
                catalogue_in: TableReader::new(MappedWords::new(inward.add(CATALOGUE_AT), CATALOGUE_ENTRIES * CATALOGUE_WORDS), CATALOGUE_ENTRIES),
                unpublished: Vec::new(),
                recent: (0, core::ptr::null_mut(), 0, false),
                grant: Grant::NONE,
                wanted: Vec::new(),
                given_memory: false,
                overstays: 0,
                held: Held { dma, parts, foreign: BTreeMap::new() },
            })
        }
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.held.parts
    }

    /// The word that the peer counts up to wake us.
    pub(super) fn rung_word(&self) -> *const AtomicU32 {
        self.held.parts.inbound.base().wrapping_add(RUNG_AT).cast()
    }

    /// Says something to the peer's NIC. Gives the bytes to try again with, if there was no room.
    pub(super) fn say(&self, message: &Message) -> Result<(), Vec<u8>> {
        let bytes = message.store();
        self.held.parts.control.trigger(&bytes).map_err(|_| bytes.to_vec())
    }

    // ---- to another node

    /// Has parts of `out` arrive at the peer, in this order.
    #[cold]
    #[inline(never)]
    fn leave_far(&mut self, parts: &[Part]) -> bool {
        let Some(dma) = &self.held.dma else { return false };
        let mut vector = [NOTHING; 4];
        let mut count = 0;
        for part in parts.iter().filter(|p| p.bytes != 0) {
            vector[count] = *part;
            count += 1;
        }
        dma.queue.start(&dma.staging, &self.held.parts.remote, &vector[..count]).is_ok()
    }

    /// The steps after a line in slot `index` has been written, with `length` bytes of payload at
    /// `position`.
    #[inline(always)]
    fn sent(&mut self, index: u32, position: u32, length: usize) -> Sent {
        if !self.near {
            let slot = LINES_AT + (index & (LINES - 1)) as usize * LINE_BYTES;
            let rung = self.rung_part();
            // Word 0 after the others: it says that they are there.
            let parts = [part(PAYLOAD_AT + position as usize, length), part(slot + 8, LINE_BYTES - 8), part(slot, 8), rung];
            return if self.leave_far(&parts) { Sent::Yes } else { Sent::Broken };
        }
        self.wake_if_armed(u32::MAX);
        Sent::Yes
    }

    /// Counts the word for the peer's event manager up, if it has one. To another node each count
    /// is copied from a place of its own: one that is still on its way must not become the next.
    fn rung_part(&mut self) -> Part {
        if !matches!(self.bell, Bell::Word) {
            return NOTHING;
        }
        self.rung = self.rung.wrapping_add(1);
        let from = CATALOGUE_AT + (self.rung % RUNGS) as usize * 4;
        let word = if self.near { self.own_rung } else { self.out.wrapping_add(from).cast() };
        // SAFETY: L2; the places lie in the catalogue (layout.rs), of which nothing is told to
        // other nodes. Release: earlier stores are there when the event manager sees it; pairs with
        // is_rung() of notes.rs.
        unsafe { (*word.cast::<AtomicU32>()).store(self.rung, Ordering::Release) };
        Part { from: from as u32, to: RUNG_AT as u32, bytes: 4 }
    }

    // ---- frames

    #[inline(always)]
    fn room(&mut self) -> Result<(), Sent> {
        match self.producer.has_room() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Sent::NoRoom),
            Err(_) => Err(Sent::Broken),
        }
    }

    #[inline(always)]
    pub(crate) fn send(&mut self, line: &mut Line, words: usize) -> Sent {
        if let Err(stopped) = self.room() {
            return stopped;
        }
        let index = self.producer.tail();
        self.producer.push(line, words);
        self.sent(index, 0, 0)
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
        let index = self.producer.tail();
        // SAFETY: the caller's.
        unsafe { self.producer.push_bytes(word0, from, length) };
        self.sent(index, 0, 0)
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
        let at = PAYLOAD_AT + position as usize;
        let dma = self.held.dma.as_ref().filter(|dma| self.near && length >= dma.from);
        // Wrapping: within the staging segment, which has the same layout.
        if !fill(dma.map_or(to, |dma| dma.staging.base().wrapping_add(at))) {
            return Sent::Unfilled;
        }
        if let Some(dma) = dma
            && length != 0
            && dma.queue.copy(&dma.staging, &self.held.parts.remote, part(at, length)).is_err()
        {
            return Sent::Broken;
        }
        line.0[7] = u64::from(position);
        let index = self.producer.tail();
        self.payload_out.commit(index);
        self.producer.push(line, LINE_WORDS);
        self.sent(index, position, length)
    }

    /// See [`Wire::take`](crate::Wire::take).
    #[inline(always)]
    pub(crate) fn take<const PAYLOAD: bool, R>(&mut self, mut looks: u32, take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
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
        let words = self.words();
        // SAFETY: the words of the slot at the head, which is there.
        let (payload, length) = if PAYLOAD && Head(head).is_bulk() { unsafe { self.payload_of(words) }? } else { (core::ptr::null(), 0) };
        // SAFETY: F1: the slot stays mapped while `take` runs; so does the payload, whose place has
        // been checked.
        let taken = take(&unsafe { Frame::new(head, words, payload, length as usize) })?;
        if PAYLOAD {
            self.payload_consumed += length;
        }
        self.consume();
        Some(taken)
    }

    fn words(&self) -> *const u64 {
        self.consumer.slots().address(self.consumer.slot_index()).cast()
    }

    /// See [`Wire::peek_line`](crate::Wire::peek_line).
    ///
    /// # Safety
    /// F2, as there.
    #[inline(always)]
    pub(crate) unsafe fn peek_line(&mut self, looks: u32) -> Peeked {
        for look in 0..looks {
            if look != 0 {
                pause();
            }
            let Some(head) = self.consumer.peek_word0() else { continue };
            if Head(head).is_bulk() {
                return Peeked::Otherwise;
            }
            // SAFETY: F1: the slot stays mapped as long as F2 lets the caller use the frame.
            return Peeked::Line(unsafe { Frame::new(head, self.words(), core::ptr::null(), 0) });
        }
        self.found_nothing();
        Peeked::Nothing
    }

    #[inline(always)]
    fn found_nothing(&mut self) {
        if self.consumer.unpublished() != 0 {
            self.publish_head();
        }
    }

    /// See [`Wire::receive`](crate::Wire::receive).
    ///
    /// # Safety
    /// F2, as there.
    #[inline(always)]
    pub(crate) unsafe fn receive(&mut self) -> Received {
        let Some(head) = self.consumer.peek_word0() else {
            self.found_nothing();
            return Received::Empty;
        };
        let words = self.words();
        if !Head(head).is_bulk() {
            // SAFETY: F1: the slot stays mapped as long as F2 lets the caller use the frame.
            return Received::Frame(unsafe { Frame::new(head, words, core::ptr::null(), 0) });
        }
        // SAFETY: the words of the slot at the head, which is there.
        let Some((payload, length)) = (unsafe { self.payload_of(words) }) else { return Received::Broken };
        self.payload_consumed += length;
        // SAFETY: F1: the slot stays mapped as long as F2 lets the caller use the frame; so does
        // the payload, whose place has been checked (L3).
        Received::Frame(unsafe { Frame::new(head, words, payload, length as usize) })
    }

    /// See [`Wire::may_bring`](crate::Wire::may_bring).
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

    /// Tells the peer how far we have read; it may sleep for want of room, and says so.
    #[inline]
    fn publish_head(&mut self) {
        self.payload_consumed = 0;
        self.consumer.publish();
        if self.near {
            return self.wake_if_armed(FOR_ROOM);
        }
        let rung = self.rung_part();
        self.leave_far(&[part(HEAD_AT, 4), rung]);
    }

    /// Wakes the peer if it sleeps. After everything that it may be waiting for.
    #[inline(always)]
    fn wake_if_armed(&mut self, reasons: u32) {
        membarrier::light(self.barriers);
        // SAFETY: L2. Relaxed: ordered after the publication by the barrier above; pairs with arm()
        // (Dekker: the sleeper's heavy barrier).
        if unsafe { (*self.peer_armed).load(Ordering::Relaxed) } & reasons != 0 {
            self.wake();
        }
    }

    /// Wakes the peer.
    #[cold]
    #[inline(never)]
    pub(super) fn wake(&mut self) {
        match &self.bell {
            // A peer that cannot be woken hurts itself alone: it finds the frame when it looks.
            Bell::Interrupt(bell) => _ = bell.trigger(),
            Bell::Word => {
                let rung = self.rung_part();
                if !self.near {
                    self.leave_far(&[rung]);
                }
            }
        }
    }

    /// Says for what the peer is to wake us. Within a node the caller issues the heavy barrier; to
    /// another one, it has arrived when this returns.
    pub(super) fn arm(&mut self, reasons: u32) {
        // SAFETY: L2. Relaxed: made visible before the second look by the caller's barrier, or by
        // the transfer; pairs with wake_if_armed().
        unsafe { (*self.own_armed).store(reasons, Ordering::Relaxed) };
        if !self.near
            && self.leave_far(&[part(ARMED_AT, 4)])
            && let Some(dma) = self.held.dma.as_ref().filter(|_| reasons != 0)
        {
            dma.queue.wait();
        }
    }

    /// Says that we let others have this processor; `None`: that we do not. To peers of this node.
    pub(super) fn set_away(&self, from: Option<usize>) {
        if self.near {
            // SAFETY: L2. Relaxed: a hint, nothing is published by it.
            unsafe { (*self.own_away).store(away_word(from), Ordering::Relaxed) };
        }
    }

    /// Whether the peer says that it lets others have this processor.
    pub(super) fn has_peer_left(&self, processor: usize) -> bool {
        // SAFETY: L2. Relaxed: a hint.
        unsafe { (*self.peer_away).load(Ordering::Relaxed) == away_word(Some(processor)) }
    }

    /// Whether the peer is of this node and does not say that it lets others have its processor.
    pub(super) fn is_peer_at_work(&self) -> bool {
        // SAFETY: L2. Relaxed: a hint.
        self.near && unsafe { (*self.peer_away).load(Ordering::Relaxed) == 0 }
    }

    /// Which barrier reaches the peer.
    pub(super) fn reach(&self) -> Reach {
        if self.barriers { Reach::Registered } else { Reach::Fenced }
    }

    pub(super) fn is_near(&self) -> bool {
        self.near
    }

    /// A mark behind all frames sent so far.
    pub(super) fn sent_mark(&self) -> u32 {
        self.producer.tail()
    }

    /// Whether the peer has consumed all frames before the mark.
    pub(super) fn is_taken(&mut self, mark: u32) -> bool {
        let tail = self.producer.tail();
        let since = tail.wrapping_sub(mark);
        if tail.wrapping_sub(self.producer.head_seen()) <= since {
            return true;
        }
        // A lie about the head is found again, and acted upon, by the next send.
        self.producer.refresh().is_ok() && tail.wrapping_sub(self.producer.head_seen()) <= since
    }

    /// Its parts, to be given up elsewhere.
    pub(super) fn into_held(self) -> Held {
        self.held
    }
}
