// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of messages. A [`Span`] holds on to its block; a rung keeps the span of each message that
//! is under way. So no descriptor names memory that is gone.
//!
//! Invariant S1: `at` is valid for `bytes` bytes until the block is dropped. Nobody makes a
//! reference to these bytes: they are copied in and out, by the one thread of the block's owner,
//! and by a NIC only while their message is under way.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::rc::Rc;

use super::port::Opened;

/// Alignment of blocks of the heap.
const ALIGN: usize = 64;

/// The owner of the bytes.
enum Owner {
    Heap(Layout),
    /// Of a NIC's own, which is freed when the NIC is closed.
    Pool(#[allow(dead_code)] Rc<Opened>),
}

/// Bytes of one owner.
pub struct Block {
    at: NonNull<u8>,
    bytes: usize,
    /// Of a block of a pool: its registration.
    pub handle: u32,
    owner: Owner,
}

impl Block {
    /// Zeroed bytes of the heap.
    pub fn of_heap(bytes: usize) -> Rc<Self> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGN).expect("a block is no larger than memory");
        // SAFETY: the layout is not empty.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Rc::new(Self { at, bytes, handle: 0, owner: Owner::Heap(layout) })
    }

    /// Bytes of a NIC's.
    ///
    /// # Safety
    /// S1 for as long as the NIC is open; nobody else uses them; `handle` is their registration.
    pub unsafe fn of_pool(nic: &Rc<Opened>, at: NonNull<u8>, bytes: usize, handle: u32) -> Rc<Self> {
        Rc::new(Self { at, bytes, handle, owner: Owner::Pool(Rc::clone(nic)) })
    }

    /// All of it.
    pub fn whole(self: &Rc<Self>) -> Span {
        Span { block: Rc::clone(self), bytes: self.bytes }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Owner::Heap(layout) = self.owner {
            // SAFETY: S1: allocated by this layout, and used by nobody any more.
            unsafe { dealloc(self.at.as_ptr(), layout) };
        }
    }
}

/// The first bytes of a block: a message.
#[derive(Clone)]
pub struct Span {
    pub block: Rc<Block>,
    bytes: usize,
}

impl Span {
    /// The first `bytes` of the block.
    ///
    /// # Panics
    /// If it has fewer.
    pub fn first(&self, bytes: usize) -> Self {
        assert!(bytes <= self.block.bytes, "a message within its block");
        Self { block: Rc::clone(&self.block), bytes }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Where they are.
    pub fn address(&self) -> u64 {
        self.block.at.as_ptr().expose_provenance() as u64
    }

    /// Copies bytes from `at` on.
    ///
    /// # Panics
    /// If the span has fewer.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) {
        assert!(at <= self.bytes && to.len() <= self.bytes - at, "within the span");
        // SAFETY: S1, and the line above; nobody else can reach `to`.
        unsafe { std::ptr::copy_nonoverlapping(self.block.at.as_ptr().add(at), to.as_mut_ptr(), to.len()) };
    }

    /// Copies bytes to `at` and on.
    ///
    /// # Panics
    /// If the span has fewer.
    #[inline]
    pub fn write(&self, at: usize, from: &[u8]) {
        assert!(at <= self.bytes && from.len() <= self.bytes - at, "within the span");
        // SAFETY: S1, and the line above; nobody else can reach the block meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.block.at.as_ptr().add(at), from.len()) };
    }
}
