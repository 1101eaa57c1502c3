// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues of the library under test, and VIs whose queues complete there.

use std::ptr::null_mut;

use super::{Block, CallFailed, Nic, Vi};
use crate::error::Error;
use crate::job::Waiting;
use crate::vipl_abi::{Api, Handle, check, code};

/// A completion queue. It must outlive the VIs that complete there.
#[derive(Debug)]
pub struct Cq {
    api: Api,
    handle: Handle,
}

impl Nic {
    /// A completion queue with room for so many entries.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn create_cq(&self, entries: usize) -> Result<Cq, Error> {
        let mut handle = null_mut();
        // SAFETY: E3; a live out pointer.
        check("VipCreateCQ", unsafe { (self.api.create_cq)(self.handle, entries as _, &mut handle) })?;
        Ok(Cq { api: self.api, handle })
    }

    /// As [`create_vi`](Self::create_vi), polled, with completion queues for sends and for
    /// receives.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn create_vi_completing(&self, reliability: u16, descriptors: &Block, sends: &Cq, receives: &Cq) -> Result<Vi, Error> {
        let mut attributes = self.vi_attributes(reliability);
        let mut handle = null_mut();
        // SAFETY: E3: the queues are alive.
        check("VipCreateVi", unsafe { (self.api.create_vi)(self.handle, &mut attributes, sends.handle, receives.handle, &mut handle) })?;
        Ok(Vi { api: self.api, handle, descriptors: descriptors.handle, waiting: Waiting::Poll })
    }
}

impl Cq {
    /// `VipCQDone`: the VI of the oldest entry, to be compared by [`Vi::is`].
    ///
    /// # Errors
    /// What the library returns.
    #[inline]
    pub fn done(&self) -> Result<Option<Handle>, CallFailed> {
        let (mut vi, mut is_receive) = (null_mut(), 0);
        // SAFETY: E3; live out pointers.
        match unsafe { (self.api.cq_done)(self.handle, &mut vi, &mut is_receive) } {
            code::SUCCESS => Ok(Some(vi)),
            code::NOT_DONE => Ok(None),
            value => Err(CallFailed { call: "VipCQDone", value, status: 0 }),
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: E3: last use.
        let _ = unsafe { (self.api.destroy_cq)(self.handle) };
    }
}

impl Vi {
    /// Whether a completion queue means this one.
    #[inline]
    pub fn is(&self, handle: Handle) -> bool {
        self.handle == handle
    }
}
