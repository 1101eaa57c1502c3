// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C library's own calls, behind ours: found once, by name.

use bellwire_memory::atomic::{AtomicPtr, Ordering};
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use libc::{DIR, FILE, dev_t, mode_t, off_t, size_t, ssize_t, stat as Stat, statx as Statx};

/// Versions under which the C library keeps calls that it offers to no new programs.
const OLD: &CStr = if cfg!(target_arch = "x86_64") { c"GLIBC_2.2.5" } else { c"GLIBC_2.17" };

extern "C" fn absent() -> c_long {
    crate::set_errno(libc::ENOSYS);
    -1
}

#[cold]
pub(super) fn find(cell: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // SAFETY: names that end.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        // SAFETY: names that end.
        found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), OLD.as_ptr()) };
    }
    if found.is_null() {
        found = absent as *mut c_void;
    }
    // Relaxed: every thread finds the same pointer.
    cell.store(found, Ordering::Relaxed);
    found
}

macro_rules! real {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// The C library's.
            ///
            /// # Safety
            /// F1, F2.
            #[inline(always)]
            pub(super) unsafe fn $name($($argument: $type),*) -> $result {
                static CELL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
                // Relaxed: a pointer to code, which was there before.
                let mut call = CELL.load(Ordering::Relaxed);
                if call.is_null() {
                    const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    };
                    call = find(&CELL, NAME);
                }
                // SAFETY: the C library's call of this name has this type; an absent one takes
                // anything.
                let call: unsafe extern "C" fn($($type),*) -> $result = unsafe { core::mem::transmute(call) };
                // SAFETY: F1.
                unsafe { call($($argument),*) }
            }
        )*
    };
}

/// `scandir`'s choice of entries, and their order.
pub(super) type Filter = Option<unsafe extern "C" fn(*const libc::dirent) -> c_int>;
pub(super) type Compare = Option<unsafe extern "C" fn(*mut *const libc::dirent, *mut *const libc::dirent) -> c_int>;
/// `glob`'s own errors.
pub(super) type GlobError = Option<unsafe extern "C" fn(*const c_char, c_int) -> c_int>;

real! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    __open_2(path: *const c_char, flags: c_int) -> c_int;
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    stat(path: *const c_char, to: *mut Stat) -> c_int;
    lstat(path: *const c_char, to: *mut Stat) -> c_int;
    fstat(fd: c_int, to: *mut Stat) -> c_int;
    fstatat(folder: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int;
    __xstat(version: c_int, path: *const c_char, to: *mut Stat) -> c_int;
    __lxstat(version: c_int, path: *const c_char, to: *mut Stat) -> c_int;
    __fxstat(version: c_int, fd: c_int, to: *mut Stat) -> c_int;
    __fxstatat(version: c_int, folder: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int;
    statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut Statx) -> c_int;
    access(path: *const c_char, mode: c_int) -> c_int;
    eaccess(path: *const c_char, mode: c_int) -> c_int;
    euidaccess(path: *const c_char, mode: c_int) -> c_int;
    faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    readlink(path: *const c_char, to: *mut c_char, room: size_t) -> ssize_t;
    readlinkat(folder: c_int, path: *const c_char, to: *mut c_char, room: size_t) -> ssize_t;
    __readlink_chk(path: *const c_char, to: *mut c_char, room: size_t, size: size_t) -> ssize_t;
    __readlinkat_chk(folder: c_int, path: *const c_char, to: *mut c_char, room: size_t, size: size_t) -> ssize_t;
    realpath(path: *const c_char, to: *mut c_char) -> *mut c_char;
    __realpath_chk(path: *const c_char, to: *mut c_char, size: size_t) -> *mut c_char;
    canonicalize_file_name(path: *const c_char) -> *mut c_char;
    getxattr(path: *const c_char, name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t;
    lgetxattr(path: *const c_char, name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t;
    listxattr(path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t;
    llistxattr(path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t;
    opendir(path: *const c_char) -> *mut DIR;
    fdopendir(fd: c_int) -> *mut DIR;
    closedir(stream: *mut DIR) -> c_int;
    readdir(stream: *mut DIR) -> *mut libc::dirent;
    readdir_r(stream: *mut DIR, entry: *mut libc::dirent, result: *mut *mut libc::dirent) -> c_int;
    rewinddir(stream: *mut DIR) -> ();
    telldir(stream: *mut DIR) -> c_long;
    seekdir(stream: *mut DIR, at: c_long) -> ();
    dirfd(stream: *mut DIR) -> c_int;
    scandir(path: *const c_char, list: *mut *mut *mut libc::dirent, filter: Filter, compare: Compare) -> c_int;
    scandirat(folder: c_int, path: *const c_char, list: *mut *mut *mut libc::dirent, filter: Filter, compare: Compare) -> c_int;
    glob(pattern: *const c_char, flags: c_int, error: GlobError, to: *mut libc::glob_t) -> c_int;
    close(fd: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(fd: c_int, to: c_int) -> c_int;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t;
    __read_chk(fd: c_int, to: *mut c_void, length: size_t, size: size_t) -> ssize_t;
    write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t;
    ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
}

/// The number of a device, as `st_rdev` has it.
pub(super) fn device_number((major, minor): (u32, u32)) -> dev_t {
    libc::makedev(major, minor)
}

/// Unused, but a file's offset is 64 bits here: the calls with 64 in their names are the same ones.
const _: () = assert!(size_of::<off_t>() == 8);
