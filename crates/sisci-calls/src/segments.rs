// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments of this process, and of others.

use crate::api::{Handle, Owned, call};
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
    /// Unmapped before it is removed.
    _map: Owned,
    own: Owned,
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
        let own = Owned::new(sisci, handle, api.remove_segment, FORCE_REMOVE);
        // SAFETY: C1.
        call(|e| unsafe { (api.prepare_segment)(handle, ADAPTER, 0, e) })?;
        let (mut map, mut base) = (Handle::NONE, core::ptr::null_mut());
        // SAFETY: C1.
        call(|e| unsafe { base = (api.map_local_segment)(handle, &raw mut map, 0, bytes, core::ptr::null_mut(), 0, e) })?;
        // SAFETY: C1.
        let id = unsafe { (api.get_local_segment_id)(handle) };
        Ok(Self { _map: Owned::new(sisci, map, api.unmap_segment, 0), own, base: base.cast(), bytes, id })
    }

    /// Lets others connect.
    ///
    /// # Errors
    /// What the library says.
    pub fn open(&self) -> Result<(), Error> {
        // SAFETY: C1.
        call(|e| unsafe { (self.own.sisci.api.set_segment_available)(self.own.handle, ADAPTER, 0, e) })
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
        self.own.handle
    }
}

/// A segment that this process is connected to, mapped or not. Left when dropped.
#[derive(Debug)]
pub struct Remote {
    /// Unmapped before it is left.
    map: Option<Owned>,
    own: Owned,
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
        Ok(Self { map: None, own: Owned::new(sisci, handle, api.disconnect_segment, 0), base: core::ptr::null_mut(), bytes, _listed: listed })
    }

    /// Maps all of it.
    ///
    /// # Errors
    /// What the library says.
    pub fn map(&mut self, to_write: bool) -> Result<(), Error> {
        let flags = if to_write { 0 } else { READ_ONLY };
        let api = &self.own.sisci.api;
        let (mut map, mut base) = (Handle::NONE, core::ptr::null_mut());
        // SAFETY: C1.
        call(|e| unsafe { base = (api.map_remote_segment)(self.own.handle, &raw mut map, 0, self.bytes, core::ptr::null_mut(), flags, e) })?;
        self.map = Some(Owned::new(&self.own.sisci, map, api.unmap_segment, 0));
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
        let map = self.map.as_ref().map_or(Handle::NONE, |map| map.handle);
        // SAFETY: C1: the slice may be written.
        call(|e| unsafe { (self.own.sisci.api.mem_cpy)(Handle::NONE, to, map, offset, length, BLOCK_READ, e) })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.own.handle
    }
}
