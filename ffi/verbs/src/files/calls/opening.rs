// SPDX-License-Identifier: MIT OR Apache-2.0
//! `open`, `openat`, `fopen`.

use super::{Found, Target, number, pointer, taken, target, target_at};
use crate::files::real;
use crate::files::table::{self, Opened};
use crate::files::tree::Node;
use bellwire_cm_device::Errno;
use core::ffi::{CStr, c_char, c_int};
use libc::{FILE, mode_t};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use std::os::fd::OwnedFd;

fn io(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

/// A descriptor with bytes to read, and nothing else: an anonymous file.
fn readable(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let fd = memfd_create(c"bellwire-file", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(io)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let n = rustix::io::write(&fd, rest).map_err(io)?;
        rest = &rest[n..];
    }
    rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(0)).map_err(io)?;
    fchmod(&fd, Mode::from_raw_mode(0o444)).map_err(io)?;
    fcntl_add_seals(&fd, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL).map_err(io)?;
    Ok(fd)
}

/// Opens a node.
pub(super) fn open_node(found: &Found, flags: c_int) -> Result<c_int, Errno> {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_PATH == 0;
    if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
        return Err(Errno(libc::EEXIST));
    }
    let (fd, opened) = match found.node() {
        Node::Link(_) => return Err(Errno(libc::ELOOP)),
        Node::File(_) | Node::Device(..) if flags & libc::O_DIRECTORY != 0 => return Err(Errno(libc::ENOTDIR)),
        Node::Folder if writes || flags & libc::O_CREAT != 0 => return Err(Errno(libc::EISDIR)),
        Node::File(_) if writes => return Err(Errno(libc::EACCES)),
        Node::Folder => (readable(b"")?, Opened::Node(found.path.clone())),
        Node::File(text) => (readable(text().as_bytes())?, Opened::Node(found.path.clone())),
        Node::Device(_, device) => {
            let (fd, open) = device.open(flags)?;
            (fd, Opened::Device(found.path.clone(), open))
        }
    };
    fcntl_setfd(&fd, if flags & libc::O_CLOEXEC != 0 { FdFlags::CLOEXEC } else { FdFlags::empty() }).map_err(io)?;
    if flags & libc::O_NONBLOCK != 0 {
        let old = fcntl_getfl(&fd).map_err(io)?;
        fcntl_setfl(&fd, old | OFlags::NONBLOCK).map_err(io)?;
    }
    table::give(fd, opened)
}

/// Whether `open` follows a link at the end.
fn follows(flags: c_int) -> bool {
    flags & libc::O_NOFOLLOW == 0
}

taken! {
    [open, open64](path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, follows(flags)) {
                Ok(Target::Theirs) => real::open(path, flags, mode),
                Ok(Target::Outside(path)) => real::open(path.as_ptr(), flags, mode),
                Ok(Target::Ours(found)) => number(open_node(&found, flags)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [openat, openat64](folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target_at(folder, path, follows(flags)) {
                Ok(Target::Theirs) => real::openat(folder, path, flags, mode),
                Ok(Target::Outside(path)) => real::open(path.as_ptr(), flags, mode),
                Ok(Target::Ours(found)) => number(open_node(&found, flags)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [__open_2, __open64_2](path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, follows(flags)) {
                Ok(Target::Theirs) => real::__open_2(path, flags),
                Ok(Target::Outside(path)) => real::__open_2(path.as_ptr(), flags),
                Ok(Target::Ours(found)) => number(open_node(&found, flags)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [__openat_2, __openat64_2](folder: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target_at(folder, path, follows(flags)) {
                Ok(Target::Theirs) => real::__openat_2(folder, path, flags),
                Ok(Target::Outside(path)) => real::__open_2(path.as_ptr(), flags),
                Ok(Target::Ours(found)) => number(open_node(&found, flags)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

/// The flags of `open` for a mode of `fopen`.
fn flags_of(mode: &CStr) -> Result<c_int, Errno> {
    let mode = mode.to_bytes();
    let mut flags = match (mode.first(), mode.contains(&b'+')) {
        (Some(b'r'), false) => libc::O_RDONLY,
        (Some(b'r'), true) => libc::O_RDWR,
        (Some(b'w'), false) => libc::O_WRONLY | libc::O_CREAT,
        (Some(b'a'), false) => libc::O_WRONLY | libc::O_CREAT,
        (Some(b'w' | b'a'), true) => libc::O_RDWR | libc::O_CREAT,
        _ => return Err(Errno(libc::EINVAL)),
    };
    if mode.contains(&b'e') {
        flags |= libc::O_CLOEXEC;
    }
    if mode.contains(&b'x') {
        flags |= libc::O_EXCL;
    }
    Ok(flags)
}

taken! {
    [fopen, fopen64](path: *const c_char, mode: *const c_char) -> *mut FILE {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::fopen(path, mode),
                Ok(Target::Outside(path)) => real::fopen(path.as_ptr(), mode),
                Ok(Target::Ours(found)) => pointer(flags_of(CStr::from_ptr(mode)).and_then(|flags| open_node(&found, flags)).map(|fd| libc::fdopen(fd, mode))),
                Err(error) => pointer(Err(error)),
            }
        }
    }
}
