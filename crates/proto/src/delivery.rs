// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrivals: a packet with its frames, kept by reference; and frames that come back to their
//! sender.

use crate::config::{DATA_HEADER, FRAME_HEADER, HEAD_WORDS_MAX};
use crate::event::ReturnReason;
use crate::ids::SessionId;
use crate::packet::header::{self, Kind};
use core::ops::{Deref, Range};

/// A received datagram, or a part of a larger buffer, kept by reference. It is dropped when the
/// transport is done with it, or moves on in a [`Delivery`]. Its bytes must not change meanwhile,
/// unless the transport changes them: it opens authenticated packets where they lie.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> {
    /// Forgets what is behind the first `length` bytes; there are more.
    fn truncate(&mut self, length: usize);
}

impl Buffer for Vec<u8> {
    fn truncate(&mut self, length: usize) {
        Self::truncate(self, length);
    }
}

/// The head of a frame: 1 to 8 words.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    words: [u64; HEAD_WORDS_MAX],
    count: u8,
}

impl Head {
    /// From little-endian bytes, a whole number of words, at most eight.
    #[inline]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = [0; HEAD_WORDS_MAX];
        let (chunks, _) = bytes.as_chunks::<8>();
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        Self { words, count: chunks.len().min(HEAD_WORDS_MAX) as u8 }
    }

    /// All eight words; those past [`Head::len`](slice::len) are zero.
    pub const fn padded(&self) -> &[u64; HEAD_WORDS_MAX] {
        &self.words
    }
}

impl Deref for Head {
    type Target = [u64];
    #[inline]
    fn deref(&self) -> &[u64] {
        &self.words[..usize::from(self.count)]
    }
}

/// A frame within a [`Delivery`].
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// Its head.
    pub head: Head,
    /// Its payload.
    pub payload: &'a [u8],
    /// Where the payload lies in the delivery's buffer, in bytes.
    pub place: Range<usize>,
}

/// A data packet whose predecessors on its streams have been delivered. It owns the buffer.
#[derive(Debug)]
pub struct Delivery<B> {
    pub(crate) session: SessionId,
    pub(crate) psn: u32,
    pub(crate) timestamp: u32,
    /// Frames at its beginning that were consumed when it was refused before.
    pub(crate) skip: u16,
    pub(crate) buffer: B,
}

impl<B: Buffer> Delivery<B> {
    /// The session on which it came.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Frames in order, without those that were consumed when the packet was refused in an earlier
    /// transmission.
    #[inline]
    pub fn frames(&self) -> Frames<'_> {
        let mut frames = Frames { bytes: self.buffer.as_ref(), at: DATA_HEADER };
        for _ in 0..self.skip {
            frames.next();
        }
        frames
    }

    /// The frames from `at` on: where the [`place`](Frame::place) of one shown before ended.
    #[inline]
    pub fn frames_from(&self, at: usize) -> Frames<'_> {
        Frames { bytes: self.buffer.as_ref(), at }
    }

    /// The datagram.
    pub fn buffer(&self) -> &B {
        &self.buffer
    }

    /// The datagram, for the caller to keep.
    pub fn into_buffer(self) -> B {
        self.buffer
    }
}

/// Iterator over the frames of a packet.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    /// Over a data packet's bytes, header included.
    pub(crate) fn of(packet: &'a [u8]) -> Self {
        Self { bytes: packet, at: DATA_HEADER }
    }

    /// The frames of a packet in flight, for observers; none if it is not of kind DATA. A malformed
    /// frame ends them.
    pub fn of_packet(packet: &'a [u8]) -> Self {
        match header::kind_of(packet) {
            Ok(Kind::Data) => Self::of(packet),
            _ => Self { bytes: &[], at: 0 },
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    #[inline]
    fn next(&mut self) -> Option<Frame<'a>> {
        loop {
            let &[words, _, low, high] = self.bytes.get(self.at..)?.first_chunk::<FRAME_HEADER>()?;
            let head_at = self.at + FRAME_HEADER;
            let place_from = head_at + usize::from(words) * 8;
            let place = place_from..place_from + usize::from(u16::from_le_bytes([low, high]));
            let payload = self.bytes.get(place.clone())?;
            let head = Head::from_bytes(&self.bytes[head_at..place_from]);
            self.at = place.end;
            //= P-FRAME-3
            if head.padded()[0] != 0 {
                return Some(Frame { head, payload, place });
            }
        }
    }
}

/// A frame that came back to its sender.
#[derive(Clone, Debug)]
pub struct Returned {
    /// The session on which it was sent.
    pub session: SessionId,
    /// Why it came back.
    pub reason: ReturnReason,
    /// Its head.
    pub head: Head,
    /// Its payload.
    pub payload: Vec<u8>,
}
