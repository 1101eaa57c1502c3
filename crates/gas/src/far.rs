// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places that are not mapped here: stacks, memory of `mmap`, a heap that has outgrown its window.
//! The kernel copies, or says that nothing is there.
//!
//! In this process, too: an address that does not exist is then an error like any other, not a
//! crash.

use rustix::io::Errno;

use crate::error::Error;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the other process.
    In,
    /// To the other process.
    Out,
}

/// Lets the other processes of the job reach this one's memory where the system asks for it (Yama).
/// A job's processes trust each other.
pub fn permit() {
    // SAFETY: a setting of this process. Kernels without Yama refuse it, and need it not.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Copies between `here` and an address of a process of this host.
///
/// # Errors
/// [`Error::NoMemoryThere`], [`Error::Refused`], or what the system says. A part may have been
/// copied.
///
/// # Safety
/// The `bytes` bytes at `here` may be read or, for [`Direction::In`], written.
pub unsafe fn copy(direction: Direction, pid: u32, address: u64, here: *mut u8, bytes: usize) -> Result<(), Error> {
    let mut done = 0;
    while done < bytes {
        let local = libc::iovec { iov_base: here.wrapping_add(done).cast(), iov_len: bytes - done };
        let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut((address as usize).wrapping_add(done)), iov_len: bytes - done };
        let (pid, local, remote) = (pid.cast_signed(), &raw const local, &raw const remote);
        // SAFETY: the kernel checks both ranges; the local one is the caller's promise. The other
        // process lives: it is a member of this job, which ends when one dies.
        let n = unsafe {
            match direction {
                Direction::In => libc::process_vm_readv(pid, local, 1, remote, 1, 0),
                Direction::Out => libc::process_vm_writev(pid, local, 1, remote, 1, 0),
            }
        };
        match n {
            1.. => done += n.unsigned_abs(),
            0 => return Err(Error::NoMemoryThere),
            _ => match Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL) {
                Errno::INTR | Errno::AGAIN => {}
                Errno::FAULT => return Err(Error::NoMemoryThere),
                Errno::PERM | Errno::ACCESS | Errno::NOSYS => return Err(Error::Refused),
                other => return Err(Error::Os("process_vm_readv", other)),
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_an_error_here_as_well() {
        let pid = std::process::id();
        let (from, mut to) = ([7u8; 5000], [0u8; 5000]);
        // SAFETY: both are arrays of this length.
        unsafe {
            copy(Direction::In, pid, from.as_ptr().expose_provenance() as u64, to.as_mut_ptr(), to.len()).unwrap();
            assert_eq!(from, to);
            assert!(matches!(copy(Direction::In, pid, 8, to.as_mut_ptr(), 8), Err(Error::NoMemoryThere)));
            assert!(matches!(copy(Direction::Out, pid, 8, to.as_mut_ptr(), 8), Err(Error::NoMemoryThere)));
        }
    }
}
