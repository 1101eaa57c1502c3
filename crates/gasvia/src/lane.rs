// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VI with its descriptors and buffers, `2k` sends and `2k + 1` receives, and what is out on it.
//! L1 to L4 are in `lib.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use bellwire_memory::bytes;
use bellwire_vipl_calls::probe::{Off, Probe, Stage};
use bellwire_vipl_calls::{CONTROL_SEND, Descriptor, Handle, Nic, Segment};

use crate::failure::Failure;
use crate::head::{HEAD_BYTES, Head};
use crate::version::Shape;

const DESCRIPTOR_BYTES: usize = size_of::<Descriptor>();

/// A request whose answer has not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Where the bytes go that it asks for.
    pub to: *mut u8,
    /// How many; 0: it asks for none.
    pub bytes: usize,
    pub is_flush: bool,
}

/// What a posted send has gathered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// Nothing.
    Nothing,
    /// Memory that the program has lent.
    Lent,
    /// Memory of this process: address and handle of its registration.
    Cached(u64, u32),
}

/// What a completed send gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    Buffer,
    /// A part of what the program has lent.
    Lent,
}

pub(crate) struct Lane {
    nic: Arc<Nic>,
    pub vi: Handle,
    base: *mut u8,
    handle: u32,
    shape: Shape,
    /// Requests that may leave.
    pub credits: usize,
    /// Sends that are not posted.
    free: Vec<u16>,
    held: Vec<Held>,
    /// Requests out that are answered each, in order.
    pub pending: VecDeque<Pending>,
    /// Stores out that are not acknowledged.
    pub stores: usize,
    pub is_flushing: bool,
    /// Stores that have come since the last acknowledgement.
    pub unacknowledged: usize,
}

// SAFETY: L2, L4: the memory is the process's; whichever thread holds the lane may touch it.
unsafe impl Send for Lane {}

impl Lane {
    /// With all its receives posted, to be connected.
    pub(crate) fn new(nic: &Arc<Nic>, ptag: Handle, shape: Shape, (sends, receives): (Handle, Handle)) -> Result<Self, Failure> {
        let count = 4 * shape.credits + 1;
        let bytes = count * (DESCRIPTOR_BYTES + shape.bytes);
        let base = nic.allocate(bytes).map_err(|e| Failure::Library("VipxAllocMem", e))?;
        // SAFETY: memory of the library's, which is freed after its registration has ended.
        let handle = unsafe { nic.register(base.expose_provenance() as u64, bytes, ptag, false) };
        let handle = handle.map_err(|e| Failure::Library("VipRegisterMem", e)).inspect_err(|_| {
            let _ = nic.free(base);
        })?;
        let vi = nic.create_vi(ptag, 0, sends, receives).map_err(|e| Failure::Library("VipCreateVi", e)).inspect_err(|_| {
            let _ = nic.deregister(base.addr() as u64, handle);
            let _ = nic.free(base);
        })?;
        let lane = Self {
            nic: Arc::clone(nic),
            vi,
            base,
            handle,
            shape,
            credits: shape.credits,
            free: (0..2 * shape.credits as u16).rev().collect(),
            held: vec![Held::Nothing; 2 * shape.credits],
            pending: VecDeque::new(),
            stores: 0,
            is_flushing: false,
            unacknowledged: 0,
        };
        (lane.sends()..count).for_each(|at| lane.post_receive::<Off>(at));
        Ok(lane)
    }

    fn sends(&self) -> usize {
        2 * self.shape.credits
    }

    fn count(&self) -> usize {
        4 * self.shape.credits + 1
    }

    fn descriptor(&self, at: usize) -> *mut Descriptor {
        debug_assert!(at < self.count());
        // L1.
        self.base.wrapping_add(at * DESCRIPTOR_BYTES).cast()
    }

    fn buffer(&self, at: usize) -> *mut u8 {
        debug_assert!(at < self.count());
        // L1.
        self.base.wrapping_add(self.count() * DESCRIPTOR_BYTES + at * self.shape.bytes)
    }

    /// Stores after which an acknowledgement leaves: a quarter of the credits.
    pub(crate) fn acknowledge_after(&self) -> usize {
        (self.shape.credits / 4).max(1)
    }

    /// Whether a message can be put together.
    #[inline]
    pub(crate) fn has_buffer(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether a request can leave.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.credits > 0 && self.has_buffer()
    }

    /// Where the data of the next message goes: as many bytes as a buffer has behind a head. Only
    /// with [`has_buffer`](Self::has_buffer).
    #[inline]
    pub(crate) fn room(&self) -> Option<*mut u8> {
        Some(self.buffer(usize::from(*self.free.last()?)).wrapping_add(HEAD_BYTES))
    }

    /// Posts a message: its head, `copied` bytes that lie in [`room`](Self::room), and what is
    /// gathered. `false`: there is no buffer, or the connection has ended.
    ///
    /// # Safety
    /// L3 for what is gathered. `copied` bytes have room.
    #[inline]
    pub(crate) unsafe fn post<P: Probe<Stage>>(&mut self, head: Head, copied: usize, gathered: Option<Segment>, held: Held) -> bool {
        let Some(slot) = self.free.pop() else { return false };
        let at = usize::from(slot);
        let (to, words) = (self.buffer(at), head.to_words());
        debug_assert!(HEAD_BYTES + copied <= self.shape.bytes);
        // SAFETY: L1, L2: a free buffer has room for a head.
        unsafe { bytes::copy(to, words.as_ptr().cast(), HEAD_BYTES) };
        let own = Segment { address: to.addr() as u64, handle: self.handle, length: (HEAD_BYTES + copied) as u32 };
        let made = Descriptor {
            segment_count: 1 + u16::from(gathered.is_some()),
            control: CONTROL_SEND,
            length: own.length + gathered.map_or(0, |data| data.length),
            segments: [own, gathered.unwrap_or_default()],
            ..Descriptor::default()
        };
        // SAFETY: L1, L2.
        unsafe { self.descriptor(at).write(made) };
        P::mark(Stage::Built);
        // SAFETY: L2, L3: from now on they are the library's.
        let is_posted = unsafe { self.nic.post_send(self.vi, self.descriptor(at), self.handle) };
        P::mark(Stage::Sent);
        if is_posted {
            self.held[at] = held;
        } else {
            self.free.push(slot);
            self.release(held);
        }
        is_posted
    }

    fn release(&self, held: Held) {
        if let Held::Cached(address, handle) = held {
            self.nic.release_cached(address, handle);
        }
    }

    /// Takes a completed send off the VI's queue.
    #[inline]
    pub(crate) fn retire<P: Probe<Stage>>(&mut self) -> Option<Retired> {
        let (descriptor, _) = self.nic.send_done(self.vi)?;
        P::mark(Stage::SendDone);
        let at = descriptor.addr().wrapping_sub(self.base.addr()) / DESCRIPTOR_BYTES;
        if at >= self.sends() {
            return None;
        }
        let held = std::mem::replace(&mut self.held[at], Held::Nothing);
        self.free.push(at as u16);
        self.release(held);
        P::mark(Stage::SendRecycled);
        Some(if matches!(held, Held::Lent) { Retired::Lent } else { Retired::Buffer })
    }

    /// A completed receive: its number, the head's words, where its data lies, and the message's
    /// bytes. `Some(None)`: the connection has ended.
    #[inline]
    pub(crate) fn take<P: Probe<Stage>>(&self) -> Option<Option<Taken>> {
        let (descriptor, is_well) = self.nic.receive_done(self.vi)?;
        P::mark(Stage::ReceiveDone);
        let at = descriptor.addr().wrapping_sub(self.base.addr()) / DESCRIPTOR_BYTES;
        if !is_well || !(self.sends()..self.count()).contains(&at) {
            return Some(None);
        }
        // SAFETY: L2: it has completed.
        let length = unsafe { (*self.descriptor(at)).length } as usize;
        let (from, mut words) = (self.buffer(at), [0u64; HEAD_BYTES / 8]);
        // SAFETY: L1, L2: a buffer has room for a head; words of any value are numbers.
        unsafe { bytes::copy(words.as_mut_ptr().cast(), from, HEAD_BYTES) };
        P::mark(Stage::Read);
        Some(Some(Taken { receive: at, words, data: from.wrapping_add(HEAD_BYTES), length: length.min(self.shape.bytes) }))
    }

    /// Posts a receive, whose message is done.
    #[inline]
    pub(crate) fn post_receive<P: Probe<Stage>>(&self, at: usize) {
        let buffer = Segment { address: self.buffer(at).addr() as u64, handle: self.handle, length: self.shape.bytes as u32 };
        let made =
            Descriptor { segment_count: 1, control: CONTROL_SEND, length: buffer.length, segments: [buffer, Segment::default()], ..Descriptor::default() };
        // SAFETY: L1, L2: it is not posted.
        unsafe { self.descriptor(at).write(made) };
        P::mark(Stage::ReceiveArmed);
        // SAFETY: L2: from now on they are the library's. On a VI that has ended nothing comes.
        unsafe { self.nic.post_receive(self.vi, self.descriptor(at), self.handle) };
        P::mark(Stage::ReceivePosted);
    }

    /// Ends the VI: the library uses nothing of it any more, nor anything that it gathers. Returns
    /// how many of its sends have gathered lent memory.
    pub(crate) fn end(&mut self) -> usize {
        if self.vi == Handle::NONE {
            return 0;
        }
        self.nic.end_vi(self.vi);
        self.vi = Handle::NONE;
        self.pending.clear();
        self.free.clear();
        (self.credits, self.stores) = (0, 0);
        let held: Vec<Held> = self.held.drain(..).collect();
        held.into_iter().inspect(|held| self.release(*held)).filter(|held| matches!(held, Held::Lent)).count()
    }
}

/// See [`Lane::take`].
pub(crate) struct Taken {
    pub receive: usize,
    pub words: [u64; HEAD_BYTES / 8],
    pub data: *const u8,
    pub length: usize,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.end();
        let _ = self.nic.deregister(self.base.addr() as u64, self.handle);
        let _ = self.nic.free(self.base);
    }
}
