// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VI and its descriptors: the calls of the data path (E2, E3).

use std::ptr::null_mut;

use super::{CallFailed, PATIENCE};
use crate::clock::Patience;
use crate::error::Error;
use crate::job::Waiting;
use crate::vipl_abi::{Api, Descriptor, Handle, Segment, code, control};

/// A virtual interface.
#[derive(Debug)]
pub struct Vi {
    pub(super) api: Api,
    pub(super) handle: Handle,
    pub(super) descriptors: u32,
    pub(super) waiting: Waiting,
}

type Outcome = Result<Option<*mut Descriptor>, CallFailed>;

impl Vi {
    /// How its completions are awaited.
    #[inline]
    pub fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Sends `size` bytes at `data` without a descriptor.
    ///
    /// # Errors
    /// What the library returns, or that it has no such call.
    #[inline]
    pub(crate) fn send_inline(&self, data: *const u8, size: usize) -> Result<(), Error> {
        /// No completion when it goes well.
        const UNSIGNALLED: u32 = 2;
        let call = self.api.send_inline.ok_or_else(|| Error::failed("the library has no VipxSendInline"))?;
        // SAFETY: E3; P1: the bytes are the stream's, which sends from one thread.
        match unsafe { call(self.handle, data.cast(), size as u32, UNSIGNALLED, 0) } {
            code::SUCCESS => Ok(()),
            value => Err(Error::from(CallFailed { call: "VipxSendInline", value, status: 0 })),
        }
    }

    /// `VipPostSend`.
    ///
    /// # Errors
    /// What the library returns.
    #[inline]
    pub(crate) fn post_send(&self, descriptor: *mut Descriptor) -> Result<(), CallFailed> {
        // SAFETY: E2 and E3.
        match unsafe { (self.api.post_send)(self.handle, descriptor, self.descriptors) } {
            code::SUCCESS => Ok(()),
            value => Err(CallFailed { call: "VipPostSend", value, status: 0 }),
        }
    }

    /// `VipPostRecv`.
    ///
    /// # Errors
    /// What the library returns.
    #[inline]
    pub(crate) fn post_recv(&self, descriptor: *mut Descriptor) -> Result<(), CallFailed> {
        // SAFETY: E2 and E3.
        match unsafe { (self.api.post_recv)(self.handle, descriptor, self.descriptors) } {
            code::SUCCESS => Ok(()),
            value => Err(CallFailed { call: "VipPostRecv", value, status: 0 }),
        }
    }

    /// `VipSendDone`: a completed descriptor, or nothing yet.
    ///
    /// # Errors
    /// What the library returns.
    #[inline]
    pub fn send_done(&self) -> Outcome {
        let mut descriptor = null_mut();
        // SAFETY: E3; a live out pointer.
        let value = unsafe { (self.api.send_done)(self.handle, &mut descriptor) };
        outcome("VipSendDone", value, descriptor)
    }

    /// `VipRecvDone`: a completed descriptor, or nothing yet.
    ///
    /// # Errors
    /// What the library returns.
    #[inline]
    pub fn recv_done(&self) -> Outcome {
        let mut descriptor = null_mut();
        // SAFETY: E3; a live out pointer.
        let value = unsafe { (self.api.recv_done)(self.handle, &mut descriptor) };
        outcome("VipRecvDone", value, descriptor)
    }

    /// The next received descriptor, polled or waited for.
    ///
    /// # Errors
    /// What the library returns, or that nothing comes.
    #[inline]
    pub fn next_recv(&self, patience: &mut Patience) -> Result<*mut Descriptor, Error> {
        if self.waiting == Waiting::Block {
            return self.wait("VipRecvWait", self.api.recv_wait);
        }
        loop {
            if let Some(descriptor) = self.recv_done()? {
                return Ok(descriptor);
            }
            patience.tick()?;
        }
    }

    /// The next finished send, polled or waited for.
    ///
    /// # Errors
    /// What the library returns, or that nothing comes.
    #[inline]
    pub fn next_send(&self, patience: &mut Patience) -> Result<*mut Descriptor, Error> {
        if self.waiting == Waiting::Block {
            return self.wait("VipSendWait", self.api.send_wait);
        }
        loop {
            if let Some(descriptor) = self.send_done()? {
                return Ok(descriptor);
            }
            patience.tick()?;
        }
    }

    fn wait(
        &self,
        call: &'static str,
        function: unsafe extern "C" fn(Handle, std::ffi::c_ulong, *mut *mut Descriptor) -> i32,
    ) -> Result<*mut Descriptor, Error> {
        let mut descriptor = null_mut();
        // SAFETY: E3; a live out pointer.
        let value = unsafe { function(self.handle, PATIENCE.as_millis() as _, &mut descriptor) };
        match outcome(call, value, descriptor)? {
            Some(descriptor) => Ok(descriptor),
            None => Err(Error::failed(format!("{call} returned without a descriptor"))),
        }
    }
}

impl Drop for Vi {
    fn drop(&mut self) {
        // SAFETY: E3: last use. Flushed descriptors are taken back so that the VI is empty when it
        // goes.
        unsafe {
            let _ = (self.api.disconnect)(self.handle);
            let mut descriptor = null_mut();
            for done in [self.api.send_done, self.api.recv_done] {
                for _ in 0..4096 {
                    if !matches!(done(self.handle, &mut descriptor), code::SUCCESS | code::DESCRIPTOR_ERROR) {
                        break;
                    }
                }
            }
            let _ = (self.api.destroy_vi)(self.handle);
        }
    }
}

#[inline]
fn outcome(call: &'static str, value: i32, descriptor: *mut Descriptor) -> Outcome {
    match value {
        code::SUCCESS => Ok(Some(descriptor)),
        code::NOT_DONE => Ok(None),
        _ => {
            // SAFETY: E2: a descriptor handed back belongs to us again.
            let status = if descriptor.is_null() { 0 } else { unsafe { (*descriptor).status } };
            Err(CallFailed { call, value, status })
        }
    }
}

/// Writes a descriptor for a post: operation, total length, segments.
///
/// # Safety
/// E2: the descriptor is ours, not the library's.
#[inline]
pub unsafe fn arm(descriptor: *mut Descriptor, operation: u16, length: u32, segments: &[Segment]) {
    let mut filled = Descriptor {
        next: 0,
        next_handle: 0,
        segment_count: segments.len() as u16,
        control: operation,
        reserved: 0,
        immediate: 0,
        length,
        status: 0,
        segments: [Segment::default(); 2],
    };
    filled.segments[..segments.len()].copy_from_slice(segments);
    // SAFETY: E2.
    unsafe { descriptor.write(filled) };
}

/// Makes a completed descriptor ready to be posted again with the same segments.
///
/// # Safety
/// E2: the descriptor is ours, not the library's.
#[inline]
pub unsafe fn rearm(descriptor: *mut Descriptor, operation: u16, length: u32) {
    // SAFETY: E2.
    unsafe {
        (*descriptor).control = operation;
        (*descriptor).length = length;
        (*descriptor).status = 0;
    }
}

/// Operation of ordinary messages.
pub const SEND: u16 = control::OP_SENDRECV;
