// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wires: what carries frames between two engines, and, where memory can be shared, lets one of them reach the other's memory directly.
//!
//! A wire joins NICs by *links*, one per pair. A link delivers frames reliably and in order, or breaks; all VIs between the two NICs share it. The direct calls
//! (`with_granted`, `with_advertised`) are shortcuts: a wire without shared memory answers [`Direct::No`] and the engine sends frames.
//! Nothing of the control half may block; what takes time is answered by a [`WireEvent`]. What is told about memory is in `terms.rs`, what a wire tells in `events.rs`.

use crate::frame::{Head, INLINE_BYTES_MAX};
use crate::handle::Handle;
use crate::time::Instant;
use bellwire_memory::bytes;
use bellwire_memory::line_queue::{HEAD_WORDS, LINE_WORDS, Line};
use bellwire_time as time;

pub mod address;
mod events;
pub mod frame;
pub mod handle;
mod heap;
pub mod host;
mod names;
pub mod packet;
pub mod shm;
pub mod sim;
mod terms;
pub mod udp;

pub use address::NetAddress;
pub use bellwire_proto::{Purpose, Seed, SessionInfo};
pub use events::{LinkFailure, LinkInfo, Rendezvous, WireEvent, WireReason};
pub use terms::{Advertisement, Allocation, Attach, CatalogueEntry, Direct, MapAccess, MemoryKind, NO_SEGMENT, Placement, RemoteAccess};

/// Marks link handles.
#[derive(Debug)]
pub struct LinkTag;
/// Names a link of a wire, with a generation.
pub type LinkId = Handle<LinkTag>;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// It will arrive, or the link breaks.
    Yes,
    /// No room now.
    NoRoom,
    /// The link is gone, or its peer lied about an index.
    Broken,
    /// Its payload could not be filled in: nothing was sent.
    Unfilled,
}

/// A frame that has arrived: where it lies in the wire, valid until [`Wire::consume`]. A peer may still be writing there, so each word is read once
/// and payload is copied out, never referenced.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    head: u64,
    words: *const u64,
    payload: *const u8,
    payload_len: usize,
}

impl Frame {
    /// A frame whose word 0 was read as `head`.
    ///
    /// # Safety
    /// F1: the line's eight words at `words` (8-byte aligned) and `payload_len` bytes at `payload` stay readable until `consume`.
    #[inline]
    pub unsafe fn new(head: u64, words: *const u64, payload: *const u8, payload_len: usize) -> Self {
        Self { head, words, payload, payload_len }
    }

    /// Word 0, as first read; bit 0 has no meaning.
    #[inline]
    pub fn head(&self) -> Head {
        Head(self.head)
    }

    /// Word `index` of the line, read now: once per word.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        assert!(index < LINE_WORDS);
        // SAFETY: F1. Volatile: another process may be writing it.
        unsafe { self.words.add(index).read_volatile() }
    }

    /// Where the words from `index` on lie: to copy inline data from.
    #[inline]
    pub fn words_from(&self, index: usize) -> *const u8 {
        assert!(index < LINE_WORDS);
        self.words.wrapping_add(index).cast()
    }

    /// The payload beside the line.
    #[inline]
    pub fn payload(&self) -> *const u8 {
        self.payload
    }

    /// Bytes readable at `payload`, checked by the wire. The frame's own claim must be compared with it.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.payload_len
    }
}

/// What `receive` found.
#[derive(Clone, Copy, Debug)]
pub enum Received {
    /// Nothing.
    Empty,
    /// A frame.
    Frame(Frame),
    /// The link is gone, or its peer sent something impossible.
    Broken,
}

/// What `peek_line` found.
#[derive(Clone, Copy, Debug)]
pub enum Peeked {
    /// A line.
    Line(Frame),
    /// Nothing.
    Nothing,
    /// Nothing was done; [`Wire::receive`] knows more.
    Otherwise,
}

/// Payload that every frame of every wire may carry: that of the smallest packets, and enough for all that engines say to each other.
pub const PAYLOAD_BYTES_MIN: usize = 256;

/// A wire.
pub trait Wire {
    /// A short name: "shm", "sim".
    fn name(&self) -> &'static str;
    /// This NIC's host address.
    fn host_address(&self) -> &[u8];
    /// Payload bytes that one frame may carry beside its line. On some wires more as a link gets to know its path; never less than [`PAYLOAD_BYTES_MIN`].
    fn payload_bytes_max(&self, link: LinkId) -> usize;

    /// Payload bytes that the next frame to connection `to` should carry if it is one of many: less than [`payload_bytes_max`](Self::payload_bytes_max) where that fills up a packet.
    #[inline]
    fn payload_bytes_next(&self, link: LinkId, _to: u32) -> usize {
        self.payload_bytes_max(link)
    }

    /// Sends a line of which `words` words are in use.
    fn send(&mut self, link: LinkId, line: &mut Line, words: usize) -> Sent;
    /// Sends a line of word 0 and `length` (at most [`INLINE_BYTES_MAX`]) bytes after it.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline]
    unsafe fn send_whole(&mut self, link: LinkId, word0: u64, from: *const u8, length: usize) -> Sent {
        let mut line = Line::default();
        line.0[0] = word0;
        assert!(length <= INLINE_BYTES_MAX);
        // SAFETY: the caller's; the line has room for INLINE_BYTES_MAX bytes after word 0.
        unsafe { bytes::copy_small(line.0.as_mut_ptr().add(1).cast(), from, length) };
        let sent = self.send(link, &mut line, 1 + length.div_ceil(8));
        // From the fast path, after which nobody else flushes.
        self.flush();
        sent
    }
    /// As [`send_whole`](Self::send_whole), with the first `words` of `head` before the bytes.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes; `8 * words + length` is at most [`INLINE_BYTES_MAX`], `words` at most [`HEAD_WORDS`].
    #[inline]
    unsafe fn send_headed(&mut self, link: LinkId, word0: u64, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) -> Sent {
        let mut line = [0u64; INLINE_BYTES_MAX / 8];
        line[..words].copy_from_slice(&head[..words]);
        assert!(8 * words + length <= INLINE_BYTES_MAX);
        // SAFETY: the caller's; the words have room for as many bytes.
        unsafe {
            bytes::copy_small(line.as_mut_ptr().add(words).cast(), from, length);
            self.send_whole(link, word0, line.as_ptr().cast(), 8 * words + length)
        }
    }
    /// Looks at most `looks` times for a frame, with pauses between; if the next one is a line without (with `PAYLOAD`, with) payload and `take` wants it, it is consumed. `None`:
    /// nothing done; [`receive`](Self::receive) finds what is there.
    #[inline]
    fn take<const PAYLOAD: bool, R>(&mut self, _link: LinkId, _looks: u32, _take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        None
    }
    /// Looks at most `looks` times for a frame, with pauses between: for one that is a line without payload, which stays until [`consume_peeked`](Self::consume_peeked). Finding nothing, the wire tells the
    /// sender about room.
    #[inline]
    fn peek_line(&mut self, _link: LinkId, _looks: u32) -> Peeked {
        Peeked::Otherwise
    }
    /// Gives up the frame that [`peek_line`](Self::peek_line) gave.
    #[inline]
    fn consume_peeked(&mut self, link: LinkId) {
        self.consume(link);
    }
    /// Sends a line with `length` bytes (at most `payload_bytes_max`) of payload, which `fill` writes at the address it is given, unless it says `false`.
    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent;
    /// The next frame of a link; it stays until [`consume`](Self::consume). Finding nothing, the wire tells the sender about room.
    fn receive(&mut self, link: LinkId) -> Received;
    /// Gives up the frame last received.
    fn consume(&mut self, link: LinkId);
    /// As [`consume`](Self::consume), for a frame with payload: it stays readable until [`release`](Self::release), to which the mark is given; frames behind it can be received
    /// meanwhile. It stays so even if the link is closed. `None`: not on this wire, and the frame is not consumed.
    #[inline(always)]
    fn consume_keeping(&mut self, _link: LinkId) -> Option<u32> {
        None
    }
    /// A frame that was kept is no longer read.
    #[inline(always)]
    fn release(&mut self, _link: LinkId, _mark: u32) {}
    /// A turn of the engine, or a poll of one VI, begins.
    #[inline(always)]
    fn begin_turn(&mut self) {}
    /// Lets what was sent leave now: called when a call has sent all it will. Wires that batch do it here.
    #[inline(always)]
    fn flush(&mut self) {}
    /// When a turn must begin at the latest.
    #[inline(always)]
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }
    /// A mark behind all frames sent so far on a link.
    fn sent_mark(&self, _link: LinkId) -> u32 {
        0
    }
    /// Whether the peer's engine has dealt with all frames before a mark of [`sent_mark`](Self::sent_mark). Becomes true without further calls of ours.
    /// Where nothing overtakes frames, no mark is needed.
    fn is_taken(&mut self, _link: LinkId, _mark: u32) -> bool {
        true
    }
    /// Whether [`poll_event`](Self::poll_event) has something. Asked on every turn of the engine.
    fn has_events(&self) -> bool;

    /// Runs `access` on the part of the peer's region asked for, if it is mapped here and the peer's catalogue permits all of the request.
    /// This and what follows up to [`quiesce`](Self::quiesce): a wire without shared memory keeps the answers given here.
    fn with_granted<F: FnOnce(*mut u8)>(&mut self, _link: LinkId, _wish: &RemoteAccess, _access: F) -> Direct {
        Direct::No
    }
    /// Runs `access` on a part of the descriptor that the peer advertised, if it is long enough for the whole message.
    fn with_advertised<F: FnOnce(*mut u8)>(&mut self, _link: LinkId, _placement: &Placement, _access: F) -> Direct {
        Direct::No
    }
    /// How this NIC may use cross-memory attach on a link: [`Attach::Never`] unless both sides have shown that they can read each other.
    fn attach(&self, _link: LinkId) -> Attach {
        Attach::Never
    }
    /// Cross-memory attach has failed on a link: no more of it.
    fn attach_failed(&mut self, _link: LinkId) {}
    /// Copies `length` bytes at `address` in the peer's process to `to`. `false`: it could not be done; a part may have been copied.
    ///
    /// # Safety
    /// `to` may be written for `length` bytes.
    unsafe fn pull(&mut self, _link: LinkId, _address: u64, _to: *mut u8, _length: usize) -> bool {
        false
    }
    /// Runs `access` with a way to copy bytes of the peer's region (offset in the request, destination, length) if its catalogue permits all of the request for
    /// reading and the region is in memory that cannot be mapped. `Direct::No`: not possible, not permitted, or `access` said `false`.
    fn pull_granted(&mut self, _link: LinkId, _wish: &RemoteAccess, _access: impl FnOnce(&mut dyn FnMut(u64, *mut u8, usize) -> bool) -> bool) -> Direct {
        Direct::No
    }
    /// A clock for comparing ways, nanoseconds; 0 if there is none (then nothing is compared).
    fn stopwatch(&self) -> u64 {
        0
    }
    /// Makes a posted receive descriptor known to the peer.
    fn advertise(&mut self, _link: LinkId, _connection: u32, _message: u32, _advertisement: &Advertisement) {}
    /// Takes it back. The peer may be inside: see [`quiesce`](Self::quiesce).
    fn withdraw(&mut self, _link: LinkId, _connection: u32, _message: u32) {}
    /// Returns when no access by this peer that began before is still under way (or the peer is gone, or a bound has passed).
    fn quiesce(&mut self, _link: LinkId) {}

    /// Memory that peers can be allowed to map.
    fn allocate(&mut self, bytes: usize) -> Option<Allocation>;
    /// Frees it. The engine has made sure that no region lies in it.
    fn free(&mut self, segment: u32);
    /// Tells peers about a region of an allocation (`slot` is the handle's index), or takes it back.
    fn publish(&mut self, _slot: usize, _entry: Option<&CatalogueEntry>) {}
    /// Answers a [`WireEvent::MapRequest`]; `None`: no.
    fn grant(&mut self, _link: LinkId, _segment: u32, _access: Option<MapAccess>) {}
    /// What a range of local memory is good for. May bring its pages in.
    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind;

    /// Accept links for this address. `false`: another process has it; try again later.
    fn listen(&mut self, local: &NetAddress) -> bool;
    /// No longer.
    fn unlisten(&mut self, local: &NetAddress);
    /// Find the NIC at `remote` and make a link to it, or use the one there is. Answered by an event.
    fn resolve(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress);
    /// Whether somebody has been found who has not answered yet. A wire that does not know says no.
    fn has_found(&self, _request: u64) -> bool {
        false
    }
    /// The answer is no longer wanted.
    fn cancel(&mut self, request: u64);
    /// What happened.
    fn poll_event(&mut self) -> Option<WireEvent>;
    /// Why a link says [`Sent::Broken`] or [`Received::Broken`]. The event that tells it may still
    /// wait; without one, the peer broke the rules.
    fn failure(&mut self, _link: LinkId) -> LinkFailure {
        LinkFailure::PeerMisbehaved
    }
    /// Frees a link.
    fn close(&mut self, link: LinkId);
    /// About a link.
    fn link_info(&self, link: LinkId) -> LinkInfo;
    /// How many peers map an allocation of ours.
    fn peers_mapping(&self, _segment: u32) -> u32 {
        0
    }
}
