// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transfers by DMA, from a segment of this process to another process's.

use crate::api::{Handle, Vector, call};
use crate::heard::{self, Hear, Listed};
use crate::{ADAPTER, Error, Remote, Segment, Sisci, USE_CALLBACK};
use std::sync::Arc;

const WAIT: u32 = 0x4;
const FOR_EVER: u32 = u32::MAX;

/// A part of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Where from, in the local segment.
    pub from: u32,
    /// Where to, in the remote one.
    pub to: u32,
    /// Bytes.
    pub bytes: u32,
}

/// Parts of a transfer, most. (The library takes 128.)
const PARTS_MAX: usize = 8;

/// A queue of transfers, done in order.
#[derive(Debug)]
pub struct DmaQueue {
    sisci: Arc<Sisci>,
    handle: Handle,
    listed: Option<Listed>,
}

impl DmaQueue {
    /// A queue for so many transfers at a time. `hear` is told of the end of each one that nobody
    /// waits for.
    ///
    /// # Errors
    /// What the library says.
    pub fn create(sisci: &Arc<Sisci>, entries: u32, hear: Option<Hear>) -> Result<Self, Error> {
        let mut handle = Handle::NONE;
        // SAFETY: C1.
        call(|e| unsafe { (sisci.api.create_dma_queue)(sisci.device, &raw mut handle, ADAPTER, entries, 0, e) })?;
        Ok(Self { sisci: Arc::clone(sisci), handle, listed: hear.map(Listed::new) })
    }

    /// Copies, and returns when it is done.
    ///
    /// # Errors
    /// What the library says.
    pub fn copy(&self, from: &Segment, to: &Remote, part: Part) -> Result<(), Error> {
        let (at, bytes, there) = (part.from as usize, part.bytes as usize, part.to as usize);
        let start = self.sisci.api.start_dma_transfer;
        // SAFETY: C1.
        call(|e| unsafe { start(self.handle, from.handle(), to.handle(), at, bytes, there, None, core::ptr::null_mut(), WAIT, e) })
    }

    /// Starts a transfer of up to 8 parts, done in order.
    ///
    /// # Errors
    /// What the library says: [`MAX_ENTRIES`](crate::code::MAX_ENTRIES) if there is no room now.
    pub fn start(&self, from: &Segment, to: &Remote, parts: &[Part]) -> Result<(), Error> {
        let mut vector = [Vector::default(); PARTS_MAX];
        assert!(parts.len() <= PARTS_MAX);
        for (v, p) in vector.iter_mut().zip(parts) {
            *v = Vector { size: p.bytes, local_offset: p.from, remote_offset: p.to, flags: 0 };
        }
        let (flags, function) = if self.listed.is_some() { (USE_CALLBACK, Some(heard::transfer as _)) } else { (0, None) };
        let argument = self.listed.as_ref().map_or(core::ptr::null_mut(), Listed::argument);
        let start = self.sisci.api.start_dma_transfer_vec;
        // SAFETY: C1.
        call(|e| unsafe { start(self.handle, from.handle(), to.handle(), parts.len(), vector.as_mut_ptr(), function, argument, flags, e) })
    }

    /// Waits until nothing is under way.
    pub fn wait(&self) {
        // SAFETY: C1. One that was never started: nothing is under way.
        let _ = call(|e| unsafe { _ = (self.sisci.api.wait_for_dma_queue)(self.handle, FOR_EVER, 0, e) });
    }
}

impl Drop for DmaQueue {
    fn drop(&mut self) {
        // SAFETY: C1.
        let _ = call(|e| unsafe { (self.sisci.api.abort_dma_queue)(self.handle, 0, e) });
        self.wait();
        // SAFETY: C1.
        let _ = call(|e| unsafe { (self.sisci.api.remove_dma_queue)(self.handle, 0, e) });
    }
}
