// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where datagrams arrive: slots of the largest size, used again as soon as nobody refers to them.
//! No copy, and no allocation once made.
//!
//! A datagram that came out of order is kept by reference and may hold a whole slot. When all but
//! one are held, a copy is lent, packet by packet: so there is always a slot for the datagram that
//! everything waits for, and what is kept beyond takes as much memory as it is long, which the
//! transport bounds.

use crate::packet::StableBytes;
use bellwire_proto::Buffer;
use core::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a slot: the longest datagram, and the most that the kernel joins from several.
const SLOT_BYTES: usize = if cfg!(miri) { 64 } else { 65536 };
/// Slots of a NIC. A slot's pages are taken as they are first written, so unused ones cost address
/// space.
const SLOTS: usize = if cfg!(miri) { 16 } else { 256 };
/// Slots looked at for a free one; the others are in use for as long or longer.
const LOOKED_AT: usize = 8;

/// The bytes of a slot. Those lent out belong to the buffers that they were lent to: each has bytes
/// that no other has.
struct Slot(Box<[UnsafeCell<u8>]>);

// SAFETY: B1: bytes are reached through the buffer that they were lent to, by its own exclusive or
// shared reference, or through the exclusive reference of a slot that nobody else refers to. So no
// two threads reach one byte unless both read.
unsafe impl Sync for Slot {}

impl core::fmt::Debug for Slot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Slot({} bytes)", self.0.len())
    }
}

impl Slot {
    fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().map(|b| UnsafeCell::new(*b)).collect())
    }

    fn zeros(length: usize) -> Self {
        let zeros: Box<[u8]> = vec![0; length].into();
        // SAFETY: a cell has the layout of what is in it, and the box is given away.
        Self(unsafe { Box::from_raw(Box::into_raw(zeros) as *mut [UnsafeCell<u8>]) })
    }

    /// All bytes of a slot that nobody else refers to.
    fn as_mut(&mut self) -> &mut [u8] {
        let cells: *mut [UnsafeCell<u8>] = &raw mut *self.0;
        // SAFETY: a cell has the layout of what is in it; the reference is exclusive.
        unsafe { &mut *(cells as *mut [u8]) }
    }
}

/// A datagram, or a part of what the kernel joined. The bytes are on the heap: they stay where they
/// are when it is moved.
///
/// B1: no other buffer of its slot has any of its bytes.
#[derive(Debug)]
pub struct UdpBuffer {
    slot: Arc<Slot>,
    start: u32,
    end: u32,
}

// SAFETY: K4: a slot is on the heap, and written only while nobody else refers to it
// (`Arc::get_mut`), or through the one buffer that has the bytes.
unsafe impl StableBytes for UdpBuffer {}

impl AsRef<[u8]> for UdpBuffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let cells = &self.slot.0[self.start as usize..self.end as usize];
        // SAFETY: B1: nobody else has these bytes, and this buffer is borrowed meanwhile.
        unsafe { core::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }
}

impl AsMut<[u8]> for UdpBuffer {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        let cells = &self.slot.0[self.start as usize..self.end as usize];
        // SAFETY: B1: nobody else has these bytes, and this buffer is borrowed exclusively
        // meanwhile.
        unsafe { core::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), cells.len()) }
    }
}

impl Buffer for UdpBuffer {
    #[inline]
    fn truncate(&mut self, length: usize) {
        self.end = self.end.min(self.start.saturating_add(length as u32));
    }
}

/// The slots of a NIC.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// The slot that is written next: nobody else refers to it.
    current: Option<Arc<Slot>>,
    /// The others, the latest at the back.
    used: VecDeque<Arc<Slot>>,
    made: usize,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { current: None, used: VecDeque::new(), made: 0 }
    }

    /// A slot to write to. `None`: all are in use.
    pub(crate) fn writable(&mut self) -> Option<&mut [u8]> {
        if self.current.is_none() {
            self.current = self.find();
        }
        Arc::get_mut(self.current.as_mut()?).map(Slot::as_mut)
    }

    /// The latest first (its bytes are still in the cache), then those that have been in use for
    /// longest.
    fn find(&mut self) -> Option<Arc<Slot>> {
        let count = self.used.len();
        let latest = (count.saturating_sub(LOOKED_AT)..count).rev();
        let oldest = 0..count.saturating_sub(LOOKED_AT);
        // Strong references only: no weak ones are ever made.
        let free = latest.chain(oldest).find(|i| Arc::strong_count(&self.used[*i]) == 1);
        match free {
            Some(i) => self.used.remove(i),
            None if self.made < SLOTS => {
                self.made += 1;
                Some(Arc::new(Slot::zeros(SLOT_BYTES)))
            }
            None => None,
        }
    }

    /// Lends out the `written` bytes of the slot in parts: `length` says how long the first of some
    /// bytes is, at least 1.
    pub(crate) fn lend(&mut self, written: usize, length: impl Fn(&[u8]) -> usize, mut lend: impl FnMut(UdpBuffer)) {
        let Some(slot) = self.current.take() else { return };
        // Only when all have been made can this one be the last.
        self.current = if self.made < SLOTS { None } else { self.find() };
        let is_last = self.made == SLOTS && self.current.is_none();
        let mut start = 0;
        while start < written {
            // The bytes that are not lent yet.
            let rest = UdpBuffer { slot: Arc::clone(&slot), start: start as u32, end: written as u32 };
            let end = (start + length(rest.as_ref()).max(1)).min(written);
            lend(if is_last {
                UdpBuffer { slot: Arc::new(Slot::new(&rest.as_ref()[..end - start])), start: 0, end: (end - start) as u32 }
            } else {
                UdpBuffer { end: end as u32, ..rest }
            });
            start = end;
        }
        if is_last {
            self.current = Some(slot);
        } else {
            self.used.push_back(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(buffers: &mut Buffers, byte: u8) -> UdpBuffer {
        buffers.writable().unwrap()[..3].fill(byte);
        let mut got = None;
        buffers.lend(3, <[u8]>::len, |b| got = Some(b));
        got.unwrap()
    }

    #[test]
    fn slots_are_used_again_and_never_while_somebody_reads() {
        let mut buffers = Buffers::new();
        for i in 0..1000u32 {
            assert_eq!(fill(&mut buffers, i as u8).as_ref(), [i as u8; 3]);
        }
        assert_eq!(buffers.made, 1, "given back each time");
        let kept: Vec<UdpBuffer> = (0..3 * SLOTS).map(|i| fill(&mut buffers, i as u8)).collect();
        assert!(buffers.writable().is_some() && buffers.made == SLOTS, "the last slot is never lent");
        assert!(kept.iter().skip(SLOTS).all(|b| b.slot.0.len() == 3), "what is kept beyond takes no more than it needs");
        assert!(kept.iter().enumerate().all(|(i, b)| b.as_ref() == [i as u8; 3]));
        drop(kept);
        assert_eq!(fill(&mut buffers, 9).slot.0.len(), SLOT_BYTES);
    }

    #[test]
    fn a_slot_is_free_when_its_last_part_is() {
        let mut buffers = Buffers::new();
        buffers.writable().unwrap()[..6].copy_from_slice(b"abcdef");
        let mut parts = Vec::new();
        buffers.lend(6, |_| 2, |b| parts.push(b));
        let last = parts.pop().unwrap();
        parts.clear();
        let other = fill(&mut buffers, 1);
        assert_eq!((last.as_ref(), buffers.made), (b"ef".as_slice(), 2));
        // A part is changed and cut without a trace in its neighbours.
        let mut last = last;
        last.as_mut()[0] = b'E';
        last.truncate(1);
        assert_eq!((last.as_ref(), other.as_ref()), (b"E".as_slice(), [1; 3].as_slice()));
        drop((last, other));
        fill(&mut buffers, 2);
        assert_eq!(buffers.made, 2);
    }
}
