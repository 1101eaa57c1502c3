// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the library under test (E1).

use crate::vipl_abi::{Api, Handle, Segment};

/// Registered memory.
#[derive(Debug)]
pub struct Block {
    pub(super) api: Api,
    pub(super) nic: Handle,
    pub(super) base: *mut u8,
    pub(super) len: usize,
    /// `VIP_MEM_HANDLE`; 0 while unregistered.
    pub handle: u32,
    /// Whether the engine allocated it.
    pub engine: bool,
}

impl Block {
    /// Address of `len` bytes at `offset`.
    ///
    /// # Panics
    /// If they do not lie inside: a programming error of a benchmark.
    pub fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "{len} bytes at {offset} of {}", self.len);
        self.base.wrapping_add(offset)
    }

    /// A data or address segment.
    pub fn segment(&self, offset: usize, len: usize) -> Segment {
        Segment { address: self.at(offset, len) as u64, handle: self.handle, length: len as u32 }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: E1: last use of the range; the handle is this block's.
        unsafe {
            if self.handle != 0 {
                let _ = (self.api.deregister_mem)(self.nic, self.base.cast(), self.handle);
            }
            match self.api.free_mem {
                Some(free_mem) if self.engine => {
                    let _ = free_mem(self.nic, self.base.cast());
                }
                _ => {
                    let _ = rustix::mm::munmap(self.base.cast(), self.len);
                }
            }
        }
    }
}
