// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the program that an operation reads or writes: a few pieces, one after the other.
//!
//! Invariant G1: the pieces are readable (or writable, where an operation receives) until each
//! operation that was given them, or a copy or a part of them, is complete, as was promised when
//! they were made; others may write them meanwhile, so they are only ever copied.

use bellwire_memory::bytes;
use bellwire_memory::owned_bytes::OwnedBytes;

/// Most pieces of one operation.
pub const PIECES_MAX: usize = 4;

/// One piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub(crate) at: *mut u8,
    pub(crate) length: usize,
}

impl Piece {
    /// `length` bytes at `at`.
    ///
    /// # Safety
    /// G1, as for [`Gather::one`].
    #[inline(always)]
    pub const unsafe fn new(at: *mut u8, length: usize) -> Self {
        Self { at, length }
    }

    /// A part of memory that lives for ever: no promise is needed. `None`: not within it.
    pub fn of_owned(memory: &'static OwnedBytes, at: usize, length: usize) -> Option<Self> {
        let is_within = at <= memory.len() && length <= memory.len() - at;
        // G1 without a promise: it is never freed, and reached as atomics only.
        is_within.then(|| Self { at: memory.as_ptr().wrapping_add(at), length })
    }
}

impl From<Piece> for Gather {
    #[inline]
    fn from(piece: Piece) -> Self {
        // SAFETY: G1 of the piece.
        unsafe { Self::one(piece.at, piece.length) }
    }
}

/// Pieces of memory, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    pieces: [(*mut u8, usize); PIECES_MAX],
    count: usize,
    length: usize,
}

// SAFETY: names memory of the process, used as G1 says by the thread that holds the endpoint.
unsafe impl Send for Gather {}

impl Gather {
    /// No memory.
    pub const NONE: Self = Self { pieces: [(core::ptr::null_mut(), 0); PIECES_MAX], count: 0, length: 0 };

    /// One piece.
    ///
    /// # Safety
    /// G1: the `length` bytes at `at` stay mapped, and nobody has a reference to them that says
    /// that they do not change (or, where an operation only sends from them, that they are its
    /// own to write), until every operation that is given this value, or a copy or a part of it,
    /// has completed.
    #[inline]
    pub const unsafe fn one(at: *mut u8, length: usize) -> Self {
        let mut g = Self::NONE;
        g.pieces[0] = (at, length);
        (g.count, g.length) = (1, length);
        g
    }

    /// Some pieces; `None`: too many, or more bytes than there are addresses.
    ///
    /// # Safety
    /// G1 for each of them, as for [`one`](Self::one).
    pub unsafe fn of(pieces: impl IntoIterator<Item = (*mut u8, usize)>) -> Option<Self> {
        let mut g = Self::NONE;
        for (at, length) in pieces {
            *g.pieces.get_mut(g.count)? = (at, length);
            g.count += 1;
            g.length = g.length.checked_add(length).filter(|n| *n <= isize::MAX as usize)?;
        }
        Some(g)
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// First byte of the first piece.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.pieces[0].0
    }

    /// The pieces: address and length.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (*mut u8, usize)> {
        self.pieces[..self.count].iter().copied()
    }

    /// Where byte `at` lies, and how many bytes there are from it on in one piece. `None`: it has
    /// not so many.
    pub(crate) fn piece_at(&self, mut at: usize) -> Option<(*mut u8, usize)> {
        for (start, length) in self.pieces() {
            if at < length {
                return Some((start.wrapping_add(at), length - at));
            }
            at -= length;
        }
        None
    }

    /// All but the first `n` bytes; `None`: there are not so many.
    pub fn without_first(&self, n: usize) -> Option<Self> {
        let (mut rest, mut left) = (*self, n);
        rest.length = self.length.checked_sub(n)?;
        for (at, length) in &mut rest.pieces[..self.count] {
            let here = left.min(*length);
            (*at, *length, left) = (at.wrapping_add(here), *length - here, left - here);
        }
        Some(rest)
    }

    /// The first `n` bytes of the only piece, from `at` on.
    pub(crate) fn part(&self, at: usize, n: usize) -> Self {
        debug_assert!(self.count <= 1 && at + n <= self.length);
        // SAFETY: G1: a part of what has been promised.
        unsafe { Self::one(self.start().wrapping_add(at), n) }
    }

    /// Where `n` bytes from `at` on lie, if in one piece.
    #[inline]
    pub(crate) fn contiguous(&self, at: usize, n: usize) -> Option<*mut u8> {
        if self.count == 1 {
            return (at + n <= self.length).then(|| self.start().wrapping_add(at));
        }
        let mut before = 0;
        for (start, length) in &self.pieces[..self.count] {
            if at >= before && at + n <= before + length {
                return Some(start.wrapping_add(at - before));
            }
            before += length;
        }
        (n == 0).then_some(core::ptr::dangling_mut())
    }

    fn each(&self, at: usize, n: usize, mut copy: impl FnMut(*mut u8, usize, usize)) {
        let (mut before, mut done) = (0, 0);
        for (start, length) in &self.pieces[..self.count] {
            let skip = (at + done).saturating_sub(before).min(*length);
            let here = (length - skip).min(n - done);
            if here != 0 {
                copy(start.wrapping_add(skip), done, here);
                done += here;
            }
            before += length;
        }
    }

    /// Copies bytes `at..at + n`, which are within, to `to`.
    ///
    /// # Safety
    /// G1; `to` is writable for `n` bytes.
    pub(crate) unsafe fn read(&self, at: usize, to: *mut u8, n: usize) {
        debug_assert!(at + n <= self.length);
        self.each(at, n, |from, done, here| {
            // SAFETY: G1 and the caller's.
            unsafe { bytes::copy(to.add(done), from, here) }
        });
    }

    /// Copies `n` bytes at `from` to bytes `at..at + n`, which are within.
    ///
    /// # Safety
    /// G1; `from` is readable for `n` bytes.
    #[inline]
    pub(crate) unsafe fn write(&self, at: usize, from: *const u8, n: usize) {
        debug_assert!(at + n <= self.length);
        self.each(at, n, |to, done, here| {
            // SAFETY: G1 and the caller's.
            unsafe { bytes::copy(to, from.add(done), here) }
        });
    }
}

/// A [`Gather`] to be kept: small, if it is one piece.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// One piece.
    One(Piece),
    /// None, or several.
    Other(Box<Gather>),
}

// SAFETY: names memory of the process, used as G1 says by the thread that holds the endpoint.
unsafe impl Send for Place {}

impl Place {
    #[inline]
    pub(crate) fn of(g: &Gather) -> Self {
        if g.count == 1 { Self::One(Piece { at: g.start(), length: g.length }) } else { Self::Other(Box::new(*g)) }
    }

    #[inline]
    pub(crate) fn gather(&self) -> Gather {
        match self {
            Self::One(piece) => (*piece).into(),
            Self::Other(g) => **g,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_after_the_other() {
        let (mut a, mut b, mut c) = ([0u8; 3], [0u8; 0], [0u8; 5]);
        // SAFETY: G1: the arrays outlive it.
        let g = unsafe { Gather::of([(a.as_mut_ptr(), 3), (b.as_mut_ptr(), 0), (c.as_mut_ptr(), 5)]) }.unwrap();
        let from: Vec<u8> = (1..=8).collect();
        for (at, n) in [(0, 8), (2, 3), (3, 5), (7, 1), (8, 0)] {
            let mut back = [0u8; 8];
            // SAFETY: arrays as long as said.
            unsafe {
                g.write(at, from.as_ptr().add(at), n);
                g.read(at, back.as_mut_ptr(), n);
            }
            assert_eq!(back[..n], from[at..at + n]);
        }
        assert_eq!(g.contiguous(1, 2), Some(a.as_mut_ptr().wrapping_add(1)));
        assert_eq!(g.contiguous(2, 2), None);
        assert_eq!(g.contiguous(4, 4), Some(c.as_mut_ptr().wrapping_add(1)));
        let rest = g.without_first(4).unwrap();
        assert_eq!((rest.len(), rest.contiguous(0, 4)), (4, Some(c.as_mut_ptr().wrapping_add(1))));
        assert!(g.without_first(8).unwrap().is_empty() && g.without_first(9).is_none());
        // SAFETY: G1: none is made.
        unsafe {
            assert!(Gather::of(core::iter::repeat_n((a.as_mut_ptr(), 1), 5)).is_none());
            assert!(Gather::of([(a.as_mut_ptr(), usize::MAX), (a.as_mut_ptr(), 2)]).is_none());
        }
    }
}
