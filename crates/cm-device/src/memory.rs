// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's memory, as the kernel reaches it: addresses in commands may be anything, and a
//! wrong one is an error, not a crash.

use crate::Errno;
use core::ffi::c_void;

fn pieces(own: *mut c_void, theirs: u64, length: usize) -> (libc::iovec, libc::iovec) {
    let theirs = core::ptr::with_exposed_provenance_mut(theirs as usize);
    (libc::iovec { iov_base: own, iov_len: length }, libc::iovec { iov_base: theirs, iov_len: length })
}

fn judge(moved: isize, length: usize) -> Result<(), Errno> {
    if moved == length as isize { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

/// Copies from an address of the program.
pub(super) fn copy_in(to: &mut [u8], from: u64) -> Result<(), Errno> {
    if to.is_empty() {
        return Ok(());
    }
    let (own, theirs) = pieces(to.as_mut_ptr().cast(), from, to.len());
    // SAFETY: M1: the kernel checks `theirs`, which is this process's; `own` is a slice of ours for
    // the call.
    judge(unsafe { libc::process_vm_readv(libc::getpid(), &raw const own, 1, &raw const theirs, 1, 0) }, to.len())
}

/// Copies to an address of the program.
pub(super) fn copy_out(from: &[u8], to: u64) -> Result<(), Errno> {
    if from.is_empty() {
        return Ok(());
    }
    let (own, theirs) = pieces(from.as_ptr().cast_mut().cast(), to, from.len());
    // SAFETY: M1: the kernel checks `theirs`, which is this process's, and only reads `own`.
    judge(unsafe { libc::process_vm_writev(libc::getpid(), &raw const own, 1, &raw const theirs, 1, 0) }, from.len())
}
