// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cross-memory attach: reading another process's memory by one system call, without its help.
//!
//! Only reading, by the side that wants the data: a write that met a process which has taken the
//! peer's id would hit a stranger. The reader asks afterwards, by [`crate::pidfd`], whether the
//! peer still lived; if not, the data are worthless.
//!
//! The kernel may refuse it (another user, `prctl(PR_SET_DUMPABLE, 0)`, Yama, seccomp, another pid
//! namespace, a missing capability) for reasons that no setting tells reliably. So it is tried:
//! [`read`] of something known.

use rustix::io::Errno;

/// Why nothing (or not all) could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The kernel does not permit it between these processes, or not at all.
    Refused,
    /// The process is gone.
    Gone,
    /// An address, here or there, is not mapped.
    Unmapped,
    /// Anything else.
    Os(Errno),
}

/// Reads `length` bytes at `address` of process `pid` to `to`. An error may leave a part of them
/// read. Memory that is not mapped, on either side, is an error, never a fault.
///
/// # Safety
/// Nothing of the program's that must not change lies in the `length` bytes at `to`, as far as they
/// are mapped.
pub unsafe fn read(pid: u32, address: u64, to: *mut u8, length: usize) -> Result<(), AttachError> {
    let mut done = 0;
    while done < length {
        let local = libc::iovec { iov_base: to.wrapping_add(done).cast(), iov_len: length - done };
        let at = core::ptr::with_exposed_provenance_mut::<libc::c_void>((address as usize).wrapping_add(done));
        let remote = libc::iovec { iov_base: at, iov_len: length - done };
        // SAFETY: the kernel checks both ranges; the local one may be written by the caller's
        // promise.
        let n = unsafe { libc::process_vm_readv(pid.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
        match n {
            1.. => done += n.unsigned_abs(),
            0 => return Err(AttachError::Unmapped),
            _ => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INTR | Errno::AGAIN) => {}
                Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => return Err(AttachError::Refused),
                Some(Errno::SRCH) => return Err(AttachError::Gone),
                Some(Errno::FAULT) => return Err(AttachError::Unmapped),
                Some(other) => return Err(AttachError::Os(other)),
                None => return Err(AttachError::Refused),
            },
        }
    }
    Ok(())
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn reads_itself_and_says_what_is_wrong() {
        let from = [7u8; 100_000];
        let mut to = vec![0u8; 100_000];
        let address = from.as_ptr().expose_provenance() as u64;
        // SAFETY: `to` is ours.
        assert_eq!(unsafe { read(std::process::id(), address, to.as_mut_ptr(), 100_000) }, Ok(()));
        assert!(to.iter().all(|b| *b == 7));
        // SAFETY: `to` is ours, with room for all that is asked for; other addresses are refused by
        // the kernel.
        unsafe {
            assert_eq!(read(std::process::id(), 4096, to.as_mut_ptr(), 8), Err(AttachError::Unmapped));
            assert_eq!(read(std::process::id(), address, core::ptr::without_provenance_mut(4096), 8), Err(AttachError::Unmapped));
            assert_eq!(read(0x3fff_ffff, address, to.as_mut_ptr(), 8), Err(AttachError::Gone));
        }
    }
}
