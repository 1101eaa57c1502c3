// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a wire does for an engine.

use crate::address::NetAddress;
use crate::arrived::{Frame, Peeked, Received};
use crate::direct_memory::DirectMemory;
use crate::events::{LinkFailure, LinkInfo, Rendezvous, WireEvent};
use crate::frame::INLINE_BYTES_MAX;
use crate::link_id::LinkId;
use crate::terms::{Allocation, MemoryKind};
use crate::time::Instant;
use bellwire_memory::bytes;
use bellwire_memory::line_queue::{HEAD_WORDS, Line};

/// The outcome of a frame.
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

/// Payload that every frame of every wire may carry: that of the smallest packets, and enough for
/// all that engines say to each other.
pub const PAYLOAD_BYTES_MIN: usize = 256;

/// A wire joins NICs by *links*, one for each pair. A link delivers frames reliably and in order,
/// or breaks; all VIs between the two NICs share it. No call blocks: a request that takes time is
/// answered by a [`WireEvent`].
///
/// # Safety
/// The engine relies on an implementation for these:
/// - W1: [`allocate`](Self::allocate) gives memory that is readable and writable for the length
///   that it states, until [`free`](Self::free) is called for it or the wire is dropped. Nobody has
///   a reference to it.
/// - W2: the address that a closure is given, here and by [`DirectMemory`], is good for the length
///   that the call names while the closure runs: to write for `send_with_payload` (up to
///   [`payload_bytes_max`](Self::payload_bytes_max)) and for an access that writes, else to read.
/// - W3: a [`Frame`] that a closure is shown is readable (F1) while the closure runs. One that
///   [`receive`](Self::receive) or [`peek_line`](Self::peek_line) gives stays readable until the
///   wire is told to consume it, to close its link, to look for another frame, to begin a turn, to
///   tell an event, or is dropped.
/// - W4: the payload of a frame that [`consume_keeping`](Self::consume_keeping) kept stays readable
///   until [`release`](Self::release) is called with its mark or the wire is dropped, also after
///   its link is closed.
pub unsafe trait Wire: DirectMemory {
    /// A short name: "shm", "sim".
    fn name(&self) -> &'static str;
    /// This NIC's host address.
    fn host_address(&self) -> &[u8];
    /// Payload bytes that one frame may carry beside its line. On some wires more as a link gets to
    /// know its path; never less than [`PAYLOAD_BYTES_MIN`].
    fn payload_bytes_max(&self, link: LinkId) -> usize;

    /// Payload bytes that the next frame to connection `to` should carry if it is one of many: less
    /// than [`payload_bytes_max`](Self::payload_bytes_max) where that fills up a packet.
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
    /// `from` is readable for `length` bytes; `8 * words + length` is at most [`INLINE_BYTES_MAX`],
    /// `words` at most [`HEAD_WORDS`].
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
    /// Looks at most `looks` times for a frame, with pauses between; if the next one is a line
    /// without (with `PAYLOAD`, with) payload and `take` wants it, it is consumed. `None`: nothing
    /// done; [`receive`](Self::receive) finds what is there.
    #[inline]
    fn take<const PAYLOAD: bool, R>(&mut self, _link: LinkId, _looks: u32, _take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        None
    }
    /// Looks at most `looks` times for a frame, with pauses between. One that is a line without
    /// payload stays until [`consume_peeked`](Self::consume_peeked). If there is none, the wire
    /// tells the sender about room.
    ///
    /// # Safety
    /// That of [`receive`](Self::receive).
    #[inline]
    unsafe fn peek_line(&mut self, _link: LinkId, _looks: u32) -> Peeked {
        Peeked::Otherwise
    }
    /// Gives up the frame that [`peek_line`](Self::peek_line) gave.
    #[inline]
    fn consume_peeked(&mut self, link: LinkId) {
        self.consume(link);
    }
    /// Sends a line with `length` bytes (at most `payload_bytes_max`) of payload, which `fill`
    /// writes at the address it is given, unless it says `false`.
    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent;
    /// The next frame of a link; it stays until [`consume`](Self::consume). If there is none, the
    /// wire tells the sender about room.
    ///
    /// # Safety
    /// F2: the caller uses the frame, and what it points at, no longer than W3 says.
    unsafe fn receive(&mut self, link: LinkId) -> Received;
    /// Gives up the frame last received.
    fn consume(&mut self, link: LinkId);
    /// As [`consume`](Self::consume), for a frame with payload: it stays readable until
    /// [`release`](Self::release), to which the mark is given; frames behind it can be received
    /// meanwhile. It stays so even if the link is closed. `None`: not on this wire, and the frame
    /// is not consumed.
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
    /// Lets what was sent leave now: called when a call has sent all it will. Wires that batch do
    /// it here.
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
    /// Whether the peer's engine has dealt with all frames before a mark of
    /// [`sent_mark`](Self::sent_mark). Becomes true without further calls of ours. Where nothing
    /// overtakes frames, no mark is needed.
    fn is_taken(&mut self, _link: LinkId, _mark: u32) -> bool {
        true
    }
    /// Handles what is ready on the wire's control descriptors, if it has any; never blocks. The
    /// outcome is told by the engine's next turn.
    fn handle_control(&mut self) {}
    /// Whether [`poll_event`](Self::poll_event) has something. Asked on every turn of the engine.
    fn has_events(&self) -> bool;

    /// Whether [`receive`](Self::receive) on this link would find a frame or do something else. For
    /// callers that look at many links, most of which bring nothing: `false` touches as little
    /// memory as possible, and the looks at several links overlap.
    #[inline]
    fn may_bring(&self, _link: LinkId) -> bool {
        true
    }

    /// Whether a poll that looks at this link alone is to leave it out: its reader has caught up
    /// with a stream, and each look takes the line from the writer. Counts as that poll.
    #[inline]
    fn leaves_out(&mut self, _link: LinkId) -> bool {
        false
    }

    /// A clock for comparing ways, nanoseconds; 0 if there is none (then nothing is compared).
    fn stopwatch(&self) -> u64 {
        0
    }
    /// Memory that peers can be allowed to map.
    fn allocate(&mut self, bytes: usize) -> Option<Allocation>;
    /// Frees it. The engine has made sure that no region lies in it.
    fn free(&mut self, segment: u32);
    /// What a range of local memory is good for. May bring its pages in.
    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind;

    /// Accept links for this address. `false`: another process has it; try again later.
    fn listen(&mut self, local: &NetAddress) -> bool;
    /// No longer.
    fn unlisten(&mut self, local: &NetAddress);
    /// Find the NIC at `remote` and make a link to it, or use the one there is. Answered by an
    /// event.
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
}
