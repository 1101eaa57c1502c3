// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several packets of a size to a connected socket's peer by one call (`UDP_SEGMENT`). Beside what
//! `quinn-udp` does for any socket: no address and nothing else is said with the call, so the
//! kernel keeps the route that it found when the socket was connected.

use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// Room for one control message with the size of a segment, aligned as the kernel wants it.
#[repr(align(8))]
struct Control {
    _bytes: [u8; 32],
}

/// Sends `bytes` as packets of `segment` bytes, the last of which may be shorter.
///
/// # Errors
/// What the kernel says; nothing was sent then. EIO and EINVAL: segmentation does not work for this
/// socket.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], segment: usize) -> Result<(), io::Error> {
    let Ok(segment) = u16::try_from(segment) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control { _bytes: [0; 32] };
    // SAFETY: all zeros is a message without anything.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // SAFETY: arithmetic only.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
    debug_assert!(message.msg_controllen as usize <= size_of::<Control>());
    // SAFETY: `control` is aligned and has room for one header and two bytes, as CMSG_SPACE says.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
    }
    loop {
        // SAFETY: the message refers to `piece`, `control` and `bytes`, which live here and are
        // only read.
        if unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, 0) } >= 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}
