// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments of this process, and of others.

use crate::api::{Handle, call};
use crate::heard::{self, Hear, Listed};
use crate::{ADAPTER, Error, Sisci, USE_CALLBACK};
use std::sync::Arc;

const PRIVATE: u32 = 0x4;
const FORCE_REMOVE: u32 = 0x20;
const AUTO_ID: u32 = 0x2000_0000;
const READ_ONLY: u32 = 0x2;
const BLOCK_READ: u32 = 0x1;

/// Memory of this process, mapped here whole. Removed when dropped, with its
/// connections.
#[derive(Debug)]
pub struct Segment {
    sisci: Arc<Sisci>,
    handle: Handle,
    map: Handle,
    base: *mut u8,
    bytes: usize,
    id: u32,
}

// SAFETY: `base` is memory of the process, which no thread owns; code that dereferences it answers
// for that.
unsafe impl Send for Segment {}
// SAFETY: `base` is memory of the process; code that dereferences it answers for that.
unsafe impl Sync for Segment {}

impl Segment {
    /// A segment that others may connect to, by this id or by one that the library chooses. It is
    /// all zero, and nobody can connect before [`open`](Self::open).
    ///
    /// # Errors
    /// What the library says.
    pub fn create(sisci: &Arc<Sisci>, id: Option<u32>, bytes: usize) -> Result<Self, Error> {
        Self::make(sisci, id.unwrap_or(0), bytes, if id.is_none() { AUTO_ID } else { 0 })
    }

    /// A segment that nobody connects to: a source of transfers.
    ///
    /// # Errors
    /// What the library says.
    pub fn private(sisci: &Arc<Sisci>, bytes: usize) -> Result<Self, Error> {
        Self::make(sisci, 0, bytes, PRIVATE)
    }

    fn make(sisci: &Arc<Sisci>, id: u32, bytes: usize, flags: u32) -> Result<Self, Error> {
        let api = &sisci.api;
        let mut handle = Handle::NONE;
        // SAFETY: C1.
        call(|e| unsafe { (api.create_segment)(sisci.device, &raw mut handle, id, bytes, None, core::ptr::null_mut(), flags, e) })?;
        let mut segment = Self { sisci: Arc::clone(sisci), handle, map: Handle::NONE, base: core::ptr::null_mut(), bytes, id };
        // SAFETY: C1.
        call(|e| unsafe { (api.prepare_segment)(handle, ADAPTER, 0, e) })?;
        // SAFETY: C1.
        call(|e| unsafe { segment.base = (api.map_local_segment)(handle, &raw mut segment.map, 0, bytes, core::ptr::null_mut(), 0, e).cast() })?;
        // SAFETY: C1.
        segment.id = unsafe { (api.get_local_segment_id)(handle) };
        Ok(segment)
    }

    /// Lets others connect.
    ///
    /// # Errors
    /// What the library says.
    pub fn open(&self) -> Result<(), Error> {
        // SAFETY: C1.
        call(|e| unsafe { (self.sisci.api.set_segment_available)(self.handle, ADAPTER, 0, e) })
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Where it is mapped, readable and writable until the segment is dropped.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.map != Handle::NONE {
            // SAFETY: C1.
            let _ = call(|e| unsafe { (self.sisci.api.unmap_segment)(self.map, 0, e) });
        }
        // SAFETY: C1.
        let _ = call(|e| unsafe { (self.sisci.api.remove_segment)(self.handle, FORCE_REMOVE, e) });
    }
}

/// A segment that this process is connected to, mapped or not. Left when dropped.
#[derive(Debug)]
pub struct Remote {
    sisci: Arc<Sisci>,
    handle: Handle,
    map: Handle,
    base: *mut u8,
    bytes: usize,
    _listed: Option<Listed>,
}

// SAFETY: `base` is memory of the process, which no thread owns.
unsafe impl Send for Remote {}
// SAFETY: `base` is memory of the process; code that dereferences it answers for that.
unsafe impl Sync for Remote {}

impl Remote {
    /// Connects to a segment of a node; waits as long for it. `hear` is told of its end.
    ///
    /// # Errors
    /// What the library says.
    pub fn connect(sisci: &Arc<Sisci>, node: u32, id: u32, milliseconds: u32, hear: Option<Hear>) -> Result<Self, Error> {
        let api = &sisci.api;
        let listed = hear.map(Listed::new);
        let (flags, function) = if listed.is_some() { (USE_CALLBACK, Some(heard::remote as _)) } else { (0, None) };
        let argument = listed.as_ref().map_or(core::ptr::null_mut(), Listed::argument);
        let mut handle = Handle::NONE;
        // SAFETY: C1.
        call(|e| unsafe { (api.connect_segment)(sisci.device, &raw mut handle, node, id, ADAPTER, function, argument, milliseconds, flags, e) })?;
        // SAFETY: C1.
        let bytes = unsafe { (api.get_remote_segment_size)(handle) };
        Ok(Self { sisci: Arc::clone(sisci), handle, map: Handle::NONE, base: core::ptr::null_mut(), bytes, _listed: listed })
    }

    /// Maps all of it.
    ///
    /// # Errors
    /// What the library says.
    pub fn map(&mut self, to_write: bool) -> Result<(), Error> {
        let flags = if to_write { 0 } else { READ_ONLY };
        let (api, bytes) = (&self.sisci.api, self.bytes);
        let map = &raw mut self.map;
        let mut base = core::ptr::null_mut();
        // SAFETY: C1.
        call(|e| unsafe { base = (api.map_remote_segment)(self.handle, map, 0, bytes, core::ptr::null_mut(), flags, e) })?;
        self.base = base.cast();
        Ok(())
    }

    /// Where it is mapped, until this is dropped; null if it is not.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads from it, from wherever it lies.
    ///
    /// # Errors
    /// What the library says.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        let (to, length) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: C1: the slice may be written.
        call(|e| unsafe { (self.sisci.api.mem_cpy)(Handle::NONE, to, self.map, offset, length, BLOCK_READ, e) })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if self.map != Handle::NONE {
            // SAFETY: C1.
            let _ = call(|e| unsafe { (self.sisci.api.unmap_segment)(self.map, 0, e) });
        }
        // SAFETY: C1.
        let _ = call(|e| unsafe { (self.sisci.api.disconnect_segment)(self.handle, 0, e) });
    }
}
