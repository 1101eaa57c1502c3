// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a message lies while its handler runs, and how its payload is read.
//!
//! Invariants
//! - P1: a message that is kept in the wire's memory is given back, by [`Place::give_back`], to the
//!   engine that it came from; that engine outlives it, for a bundle holds its device.
//! - P2: memory that a program gave as a segment is readable and writable until it gives another
//!   one or ends the endpoint, which a handler that runs cannot see.

use bellwire_memory::bytes;
use bellwire_via::inbox::LineWords;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, InboxHandle, Kept};

/// A payload: address and bytes, readable throughout the call that it is given to (U2); peers may
/// be writing it.
pub(crate) type Data = (*const u8, usize);
/// No payload.
pub(crate) const NO_DATA: Data = (core::ptr::null(), 0);

/// Where a message lies.
#[derive(Debug)]
pub(crate) enum Place {
    Line(LineWords, usize),
    Kept(Kept),
    Owned(Vec<u8>),
    /// Bulk: data in the endpoint's segment, and where the message itself lies.
    Segment {
        at: *const u8,
        length: usize,
        message: Option<Box<Place>>,
    },
}

// SAFETY: the pointer is into memory of the process, which the endpoint or the bundle
// (`Core::held`) keeps, or the program that gave it as a segment (G1, P2).
unsafe impl Send for Place {}

impl Place {
    /// Bytes of the message.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Line(_, length) => *length,
            Self::Kept(kept) => kept.len(),
            Self::Owned(data) => data.len(),
            Self::Segment { length, .. } => *length,
        }
    }

    /// Copies the bytes from `at` on that there are to `to`; returns how many.
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) -> usize {
        let n = to.len().min(self.len().saturating_sub(at));
        if n == 0 {
            return 0;
        }
        let to = &mut to[..n];
        match self {
            Self::Line(words, _) => to.iter_mut().enumerate().for_each(|(i, b)| *b = words[(at + i) / 8].to_ne_bytes()[(at + i) % 8]),
            // SAFETY: P1: the engine lives; `at + n` is within the message.
            Self::Kept(kept) => unsafe { kept.read(at, to) },
            Self::Owned(data) => to.copy_from_slice(&data[at..at + n]),
            // SAFETY: P2, G1: the memory is there; `at + n` is within the data.
            Self::Segment { at: base, .. } => unsafe { bytes::copy(to.as_mut_ptr(), base.add(at), n) },
        }
        n
    }

    /// The first words.
    pub(crate) fn words(&self, words: &mut [u64]) {
        for (i, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            if self.read(8 * i, &mut bytes) == 0 {
                return;
            }
            *word = u64::from_ne_bytes(bytes);
        }
    }

    /// Whether it has to be given back.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        !matches!(self, Self::Line(..) | Self::Segment { message: None, .. })
    }

    /// First byte of the message.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        match self {
            Self::Line(words, _) => words.as_ptr().cast(),
            Self::Kept(kept) => kept.as_ptr(),
            Self::Owned(data) => data.as_ptr(),
            Self::Segment { at, .. } => *at,
        }
    }

    /// The message is no longer read.
    #[inline]
    pub(crate) fn give_back<W: Wire>(self, engine: &mut Engine<W>, inbox: InboxHandle) {
        match self {
            Self::Line(..) => {}
            Self::Kept(kept) => engine.release(kept),
            Self::Owned(data) => engine.recycle(inbox, data),
            Self::Segment { message, .. } => {
                if let Some(message) = message {
                    message.give_back(engine, inbox);
                }
            }
        }
    }
}

/// The payload of a medium or bulk message. Its sender could still be writing it: so it is read by
/// copying, and what was checked must not be read twice.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    pub(crate) place: Option<&'a Place>,
    pub(crate) start: usize,
}

impl Payload<'_> {
    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.place.map_or(0, |place| place.len() - self.start)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `at` on to `to`, as many as there are; returns how many.
    pub fn read(&self, at: usize, to: &mut [u8]) -> usize {
        self.place.map_or(0, |place| place.read(self.start.saturating_add(at), to))
    }

    /// First byte: readable for [`len`](Self::len) bytes while the handler runs. Never to be made a
    /// slice of, for it may change meanwhile.
    pub fn as_ptr(&self) -> *const u8 {
        self.place.map_or(core::ptr::dangling(), |place| place.as_ptr().wrapping_add(self.start))
    }

    /// A copy of all of it.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut data = vec![0; self.len()];
        self.read(0, &mut data);
        data
    }
}
