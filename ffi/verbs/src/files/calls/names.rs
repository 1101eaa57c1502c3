// SPDX-License-Identifier: MIT OR Apache-2.0
//! `access`, `readlink`, `realpath`, extended attributes: calls that ask about a path.

use super::{Found, Target, number, pointer, taken, target, target_at};
use crate::files::real;
use crate::files::tree::Node;
use bellwire_cm_device::Errno;
use core::ffi::{c_char, c_int, c_void};
use libc::{size_t, ssize_t};

const PATH_MAX: usize = 4096;

/// Whether a node may be used so: everybody may read all, nobody may write but devices.
fn permit(found: &Found, mode: c_int) -> Result<c_int, Errno> {
    let may = match found.node() {
        Node::Folder | Node::Link(_) => libc::R_OK | libc::X_OK,
        Node::File(_) => libc::R_OK,
        Node::Device(..) => libc::R_OK | libc::W_OK,
    };
    match mode {
        _ if mode & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 => Err(Errno(libc::EINVAL)),
        _ if mode & !may != 0 => Err(Errno(libc::EACCES)),
        _ => Ok(0),
    }
}

taken! {
    [access](path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::access(path, mode),
                Ok(Target::Outside(path)) => real::access(path.as_ptr(), mode),
                Ok(Target::Ours(found)) => number(permit(&found, mode)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [eaccess](path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::eaccess(path, mode),
                Ok(Target::Outside(path)) => real::eaccess(path.as_ptr(), mode),
                Ok(Target::Ours(found)) => number(permit(&found, mode)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [euidaccess](path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::euidaccess(path, mode),
                Ok(Target::Outside(path)) => real::euidaccess(path.as_ptr(), mode),
                Ok(Target::Ours(found)) => number(permit(&found, mode)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [faccessat](folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target_at(folder, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0) {
                Ok(Target::Theirs) => real::faccessat(folder, path, mode, flags),
                Ok(Target::Outside(path)) => real::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, flags),
                Ok(Target::Ours(found)) => number(permit(&found, mode)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

/// Where a link leads.
///
/// # Safety
/// F1: `room` bytes.
unsafe fn read_link(found: &Found, to: *mut c_char, room: size_t) -> Result<ssize_t, Errno> {
    let Node::Link(target) = found.node() else { return Err(Errno(libc::EINVAL)) };
    if room == 0 {
        return Err(Errno(libc::EINVAL));
    }
    let n = target.len().min(room);
    // SAFETY: F1.
    unsafe { target.as_ptr().copy_to_nonoverlapping(to.cast(), n) };
    Ok(n as ssize_t)
}

taken! {
    [readlink](path: *const c_char, to: *mut c_char, room: size_t) -> ssize_t {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, false) {
                Ok(Target::Theirs) => real::readlink(path, to, room),
                Ok(Target::Outside(path)) => real::readlink(path.as_ptr(), to, room),
                Ok(Target::Ours(found)) => number(read_link(&found, to, room)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [__readlink_chk](path: *const c_char, to: *mut c_char, room: size_t, size: size_t) -> ssize_t {
        // SAFETY: F1, F2: the C library ends the program if there is less room than it says.
        unsafe {
            match target(path, false) {
                Ok(Target::Ours(found)) if room <= size => number(read_link(&found, to, room)),
                Ok(Target::Outside(path)) => real::__readlink_chk(path.as_ptr(), to, room, size),
                Ok(_) => real::__readlink_chk(path, to, room, size),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [readlinkat](folder: c_int, path: *const c_char, to: *mut c_char, room: size_t) -> ssize_t {
        // SAFETY: F1, F2.
        unsafe {
            match target_at(folder, path, false) {
                Ok(Target::Theirs) => real::readlinkat(folder, path, to, room),
                Ok(Target::Outside(path)) => real::readlink(path.as_ptr(), to, room),
                Ok(Target::Ours(found)) => number(read_link(&found, to, room)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [__readlinkat_chk](folder: c_int, path: *const c_char, to: *mut c_char, room: size_t, size: size_t) -> ssize_t {
        // SAFETY: F1, F2: as for `__readlink_chk`.
        unsafe {
            match target_at(folder, path, false) {
                Ok(Target::Ours(found)) if room <= size => number(read_link(&found, to, room)),
                Ok(Target::Outside(path)) => real::__readlink_chk(path.as_ptr(), to, room, size),
                Ok(_) => real::__readlinkat_chk(folder, path, to, room, size),
                Err(error) => number(Err(error)),
            }
        }
    }
}

/// The path without links, in the caller's room or in new memory.
///
/// # Safety
/// F1: NULL, or room for the longest path.
unsafe fn resolved(found: &Found, to: *mut c_char) -> Result<*mut c_char, Errno> {
    let path = found.path.as_bytes();
    // SAFETY: F1; paths of ours are shorter than the longest.
    unsafe {
        let to = if to.is_null() { libc::malloc(path.len() + 1).cast::<c_char>() } else { to };
        if to.is_null() || path.len() >= PATH_MAX {
            return Err(Errno(libc::ENOMEM));
        }
        path.as_ptr().copy_to_nonoverlapping(to.cast(), path.len());
        to.add(path.len()).write(0);
        Ok(to)
    }
}

taken! {
    [realpath](path: *const c_char, to: *mut c_char) -> *mut c_char {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::realpath(path, to),
                Ok(Target::Outside(path)) => real::realpath(path.as_ptr(), to),
                Ok(Target::Ours(found)) => pointer(resolved(&found, to)),
                Err(error) => pointer(Err(error)),
            }
        }
    }
}

taken! {
    [__realpath_chk](path: *const c_char, to: *mut c_char, size: size_t) -> *mut c_char {
        // SAFETY: F1, F2: the C library ends the program if there is too little room.
        unsafe {
            match target(path, true) {
                Ok(Target::Ours(found)) if size >= PATH_MAX => pointer(resolved(&found, to)),
                Ok(Target::Outside(path)) => real::__realpath_chk(path.as_ptr(), to, size),
                Ok(_) => real::__realpath_chk(path, to, size),
                Err(error) => pointer(Err(error)),
            }
        }
    }
}

taken! {
    [canonicalize_file_name](path: *const c_char) -> *mut c_char {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::canonicalize_file_name(path),
                Ok(Target::Outside(path)) => real::canonicalize_file_name(path.as_ptr()),
                Ok(Target::Ours(found)) => pointer(resolved(&found, core::ptr::null_mut())),
                Err(error) => pointer(Err(error)),
            }
        }
    }
}

/// Extended attributes are asked for by `ls -l`: there are none.
const UNSUPPORTED: Errno = Errno(libc::EOPNOTSUPP);

taken! {
    [getxattr](path: *const c_char, name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::getxattr(path, name, to, size),
                Ok(Target::Outside(path)) => real::getxattr(path.as_ptr(), name, to, size),
                Ok(Target::Ours(_)) => number(Err(UNSUPPORTED)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [lgetxattr](path: *const c_char, name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, false) {
                Ok(Target::Theirs) => real::lgetxattr(path, name, to, size),
                Ok(Target::Outside(path)) => real::lgetxattr(path.as_ptr(), name, to, size),
                Ok(Target::Ours(_)) => number(Err(UNSUPPORTED)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [listxattr](path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::listxattr(path, to, size),
                Ok(Target::Outside(path)) => real::listxattr(path.as_ptr(), to, size),
                Ok(Target::Ours(_)) => number(Err(UNSUPPORTED)),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [llistxattr](path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, false) {
                Ok(Target::Theirs) => real::llistxattr(path, to, size),
                Ok(Target::Outside(path)) => real::llistxattr(path.as_ptr(), to, size),
                Ok(Target::Ours(_)) => number(Err(UNSUPPORTED)),
                Err(error) => number(Err(error)),
            }
        }
    }
}
