// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VI, and registered memory: what every way to carry messages needs.
//!
//! Invariants
//! - I1: the memory begins with the VI's descriptors, at offsets that [`Vi::descriptor`] gives. A
//!   descriptor is the library's from its post until its completion, and else belongs to the holder
//!   of the core.
//! - I2: memory lives as long as a [`Memory`] of it; the invariants of its user say who may touch
//!   which part.

use crate::probe::{Probe, Stage};
use crate::queues::Queues;
use crate::shared::Shared;
use crate::vipl::{Cause, Descriptor, Handle, Segment};
use bellwire_am::Error;
use std::sync::Arc;

const DESCRIPTOR_BYTES: usize = size_of::<Descriptor>();

/// Memory of the library's, registered.
pub(crate) struct Memory {
    shared: Arc<Shared>,
    base: *mut u8,
    pub handle: u32,
}

// SAFETY: I2: it belongs to the process.
unsafe impl Send for Memory {}
// SAFETY: I2: it belongs to the process.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeroed memory; if `is_open`, peers may write it.
    pub(crate) fn new(shared: &Arc<Shared>, bytes: usize, ptag: Handle, is_open: bool) -> Result<Self, Error> {
        let base = shared.nic.allocate(bytes).map_err(|_| Error::Resource)?;
        // SAFETY: I2: memory of the library's, which is freed after its registration has ended.
        match unsafe { shared.nic.register(base.expose_provenance() as u64, bytes, ptag, is_open) } {
            Ok(handle) => Ok(Self { shared: Arc::clone(shared), base, handle }),
            Err(_) => {
                let _ = shared.nic.free(base);
                Err(Error::Resource)
            }
        }
    }

    /// The byte at an offset.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        self.base.wrapping_add(offset)
    }

    pub(crate) fn segment(&self, at: *mut u8, length: usize) -> Segment {
        Segment { address: at.addr() as u64, handle: self.handle, length: length as u32 }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = self.shared.nic.deregister(self.base.addr() as u64, self.handle);
        let _ = self.shared.nic.free(self.base);
    }
}

/// A VI with its descriptors and other memory.
pub(crate) struct Vi {
    pub shared: Arc<Shared>,
    queues: Arc<Queues>,
    pub handle: Handle,
    pub memory: Arc<Memory>,
    /// Descriptors for sends, and behind them for receives.
    sends: usize,
    receives: usize,
    /// Sends posted, and completed, which they do in order.
    pub posted: u64,
    pub done: u64,
}

impl Vi {
    /// A VI that is not connected, with so many descriptors and bytes of memory behind them.
    pub(crate) fn new(shared: &Arc<Shared>, queues: &Arc<Queues>, ptag: Handle, (sends, receives): (usize, usize), bytes: usize) -> Result<Self, Error> {
        let memory = Memory::new(shared, (sends + receives) * DESCRIPTOR_BYTES + bytes, ptag, false)?;
        queues.reserve(&shared.nic, sends, receives)?;
        let handle = match shared.nic.create_vi(ptag, usize::from(shared.credits), queues.send, queues.receive) {
            Ok(handle) => handle,
            Err(_) => {
                queues.release(sends, receives);
                return Err(Error::Resource);
            }
        };
        Ok(Self { shared: Arc::clone(shared), queues: Arc::clone(queues), handle, memory: Arc::new(memory), sends, receives, posted: 0, done: 0 })
    }

    fn descriptor(&self, at: usize) -> *mut Descriptor {
        debug_assert!(at < self.sends + self.receives);
        // I1.
        self.memory.at(at * DESCRIPTOR_BYTES).cast()
    }

    /// The memory behind the descriptors.
    pub(crate) fn room(&self, offset: usize) -> *mut u8 {
        self.memory.at((self.sends + self.receives) * DESCRIPTOR_BYTES + offset)
    }

    pub(crate) fn segment(&self, at: *mut u8, length: usize) -> Segment {
        self.memory.segment(at, length)
    }

    /// Posts a send or a write by descriptor `at`.
    ///
    /// # Safety
    /// The descriptor is not posted; what it names is the library's until it completes.
    #[inline]
    pub(crate) unsafe fn post_send<P: Probe<Stage>>(&mut self, at: usize, made: Descriptor) {
        debug_assert!(at < self.sends);
        let descriptor = self.descriptor(at);
        // SAFETY: I1, and the caller's promise.
        unsafe { descriptor.write(made) };
        P::mark(Stage::Built);
        // SAFETY: I1, and the caller's promise.
        let is_posted = unsafe { self.shared.nic.post_send(self.handle, descriptor, self.memory.handle) };
        P::mark(Stage::Sent);
        if is_posted {
            self.posted += 1;
        }
    }

    /// Posts receive `at`.
    ///
    /// # Safety
    /// As of [`post_send`](Self::post_send).
    pub(crate) unsafe fn post_receive<P: Probe<Stage>>(&self, at: usize, made: Descriptor) {
        debug_assert!(at < self.receives);
        let descriptor = self.descriptor(self.sends + at);
        // SAFETY: I1, and the caller's promise.
        unsafe { descriptor.write(made) };
        P::mark(Stage::ReceiveArmed);
        // SAFETY: I1, and the caller's promise.
        unsafe { self.shared.nic.post_receive(self.handle, descriptor, self.memory.handle) };
        P::mark(Stage::ReceivePosted);
    }

    /// The number of the next completed send.
    #[inline]
    pub(crate) fn take_send<P: Probe<Stage>>(&mut self) -> Option<usize> {
        P::mark(Stage::SendFound);
        let done = self.shared.nic.send_done(self.handle);
        P::mark(Stage::SendDone);
        let (descriptor, _) = done?;
        self.done += 1;
        Some(descriptor.addr().wrapping_sub(self.memory.at(0).addr()) / DESCRIPTOR_BYTES)
    }

    /// The next completed receive: its number, and what the library has written into it.
    /// `Some(None)`: the connection has ended.
    #[inline]
    pub(crate) fn take_receive<P: Probe<Stage>>(&self) -> Option<Option<(usize, Descriptor)>> {
        P::mark(Stage::ReceiveFound);
        let done = self.shared.nic.receive_done(self.handle);
        P::mark(Stage::ReceiveDone);
        let (descriptor, is_well) = done?;
        let at = descriptor.addr().wrapping_sub(self.descriptor(self.sends).addr()) / DESCRIPTOR_BYTES;
        if !is_well || at >= self.receives {
            return Some(None);
        }
        // SAFETY: I1: it has completed, and it is one of the VI's.
        Some(Some((at, unsafe { self.descriptor(self.sends + at).read() })))
    }

    /// Whether all that was posted has left.
    pub(crate) fn is_idle(&self) -> bool {
        self.done == self.posted
    }

    /// Why the connection ended.
    pub(crate) fn cause(&self) -> Cause {
        self.shared.nic.cause(self.handle)
    }

    /// Ends the VI: no descriptor, and nothing that they name, is the library's any more.
    pub(crate) fn end(&mut self) {
        self.shared.nic.end_vi(self.handle);
        self.queues.release(self.sends, self.receives);
    }
}
