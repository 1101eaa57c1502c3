// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folders: `opendir`, `readdir` and relatives, `scandir`, `glob`.
//!
//! A stream of ours is a place in a list of this library's, so that one comparison tells it from
//! the C library's.

use super::{Found, Target, number, pointer, taken, target, target_at};
use crate::files::real::{self, Compare, Filter, GlobError};
use crate::files::table::{Opened, opened};
use crate::files::tree::Node;
use crate::files::view::tree;
use bellwire_cm_device::Errno;
use bellwire_memory::atomic::{AtomicBool, Ordering};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::mem::MaybeUninit;
use libc::{DIR, dirent as Entry};
use std::ffi::CString;

/// Streams open at a time.
const STREAMS_MAX: usize = 512;

/// What a stream reads.
struct Stream {
    fd: c_int,
    entries: Vec<Entry>,
    at: usize,
}

struct Slot {
    is_taken: AtomicBool,
    stream: UnsafeCell<Option<Stream>>,
}

// SAFETY: the program owns a taken slot, and must not use a stream in two threads at a time (F1).
unsafe impl Sync for Slot {}

static SLOTS: [Slot; STREAMS_MAX] = [const { Slot { is_taken: AtomicBool::new(false), stream: UnsafeCell::new(None) } }; STREAMS_MAX];

/// The slot that a stream is.
#[inline(always)]
fn slot(stream: *mut DIR) -> Option<&'static Slot> {
    let offset = stream.addr().wrapping_sub((&raw const SLOTS).addr());
    if offset < size_of_val(&SLOTS) { SLOTS.get(offset / size_of::<Slot>()) } else { None }
}

/// The stream of ours, if it is one.
///
/// # Safety
/// F1: no other thread uses it.
#[inline(always)]
unsafe fn ours<'a>(stream: *mut DIR) -> Option<&'a mut Stream> {
    // SAFETY: the caller's.
    unsafe { (*slot(stream)?.stream.get()).as_mut() }
}

fn entry(name: &[u8], inode: u64, kind: u8) -> Entry {
    // SAFETY: numbers and bytes only, for which zero is one.
    let mut e: Entry = unsafe { core::mem::zeroed() };
    (e.d_ino, e.d_type, e.d_reclen) = (inode, kind, size_of::<Entry>() as u16);
    let room = e.d_name.len() - 1;
    for (to, from) in e.d_name.iter_mut().zip(&name[..name.len().min(room)]) {
        *to = *from as c_char;
    }
    e
}

fn name_of(entry: &Entry) -> &[c_char] {
    let end = entry.d_name.iter().position(|c| *c == 0).unwrap_or(entry.d_name.len());
    &entry.d_name[..end]
}

/// Everything in a folder of ours, in order.
fn list(found: &Found) -> Result<Vec<Entry>, Errno> {
    if !matches!(found.node(), Node::Folder) {
        return Err(Errno(libc::ENOTDIR));
    }
    let own = found.tree.inode(&found.path);
    let mut entries = vec![entry(b".", own, libc::DT_DIR), entry(b"..", own, libc::DT_DIR)];
    for (name, node) in found.tree.entries(&found.path) {
        let kind = match node {
            Node::Folder => libc::DT_DIR,
            Node::File(_) => libc::DT_REG,
            Node::Link(_) => libc::DT_LNK,
            Node::Device(..) => libc::DT_CHR,
        };
        entries.push(entry(name.as_bytes(), found.tree.inode(&format!("{}/{name}", found.path)), kind));
    }
    if found.tree.shows_real {
        add_real(&found.path, &mut entries);
    }
    for (at, e) in entries.iter_mut().enumerate() {
        e.d_off = at as i64 + 1;
    }
    Ok(entries)
}

/// Adds what the real system has in a folder of that name.
fn add_real(path: &str, entries: &mut Vec<Entry>) {
    let Ok(path) = CString::new(path) else { return };
    // SAFETY: F2: a stream of the C library, read and closed here.
    unsafe {
        let stream = real::opendir(path.as_ptr());
        while !stream.is_null() {
            let e = real::readdir(stream);
            if e.is_null() {
                real::closedir(stream);
                break;
            }
            let e = *e;
            if !entries.iter().any(|other| name_of(other) == name_of(&e)) {
                entries.push(Entry { d_reclen: size_of::<Entry>() as u16, ..e });
            }
        }
    }
}

fn open_stream(fd: c_int, entries: Vec<Entry>) -> Result<*mut DIR, Errno> {
    // Acquire: pairs with the release in `closedir`.
    let slot = SLOTS.iter().find(|s| s.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()).ok_or(Errno(libc::EMFILE))?;
    // SAFETY: the slot is this thread's, just taken.
    unsafe { *slot.stream.get() = Some(Stream { fd, entries, at: 0 }) };
    Ok(core::ptr::from_ref(slot).cast_mut().cast())
}

taken! {
    [opendir](path: *const c_char) -> *mut DIR {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::opendir(path),
                Ok(Target::Outside(path)) => real::opendir(path.as_ptr()),
                Ok(Target::Ours(found)) => pointer(list(&found).and_then(|entries| {
                    let fd = super::opening::open_node(&found, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC)?;
                    open_stream(fd, entries).inspect_err(|_| {
                        super::descriptors::close(fd);
                    })
                })),
                Err(error) => pointer(Err(error)),
            }
        }
    }
}

taken! {
    [fdopendir](fd: c_int) -> *mut DIR {
        match opened(fd) {
            Some(Opened::Node(path)) => pointer(list(&Found { tree: tree(), path }).and_then(|entries| open_stream(fd, entries))),
            Some(Opened::Device(..)) => pointer(Err(Errno(libc::ENOTDIR))),
            // SAFETY: F1, F2.
            None => unsafe { real::fdopendir(fd) },
        }
    }
}

taken! {
    [closedir](stream: *mut DIR) -> c_int {
        let Some(slot) = slot(stream) else {
            // SAFETY: F1, F2.
            return unsafe { real::closedir(stream) };
        };
        // SAFETY: F1: the program uses it no more.
        let Some(stream) = (unsafe { (*slot.stream.get()).take() }) else { return number(Err(Errno(libc::EBADF))) };
        // Release: pairs with the acquire in `open_stream`.
        slot.is_taken.store(false, Ordering::Release);
        // SAFETY: the descriptor is the stream's.
        unsafe { super::descriptors::close(stream.fd) }
    }
}

taken! {
    [readdir, readdir64](stream: *mut DIR) -> *mut Entry {
        // SAFETY: F1, F2.
        unsafe {
            let Some(stream) = ours(stream) else { return real::readdir(stream) };
            stream.at += 1;
            stream.entries.get_mut(stream.at - 1).map_or(core::ptr::null_mut(), core::ptr::from_mut)
        }
    }
}

taken! {
    [readdir_r, readdir64_r](stream: *mut DIR, to: *mut Entry, result: *mut *mut Entry) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            let Some(stream) = ours(stream) else { return real::readdir_r(stream, to, result) };
            stream.at += 1;
            result.write(core::ptr::null_mut());
            if let Some(entry) = stream.entries.get(stream.at - 1) {
                to.write(*entry);
                result.write(to);
            }
            0
        }
    }
}

taken! {
    [rewinddir](stream: *mut DIR) -> () {
        // SAFETY: F1, F2.
        unsafe {
            match ours(stream) {
                None => real::rewinddir(stream),
                Some(stream) => {
                    if let Some(Opened::Node(path)) = opened(stream.fd)
                        && let Ok(entries) = list(&Found { tree: tree(), path })
                    {
                        stream.entries = entries;
                    }
                    stream.at = 0;
                }
            }
        }
    }
}

taken! {
    [telldir](stream: *mut DIR) -> c_long {
        // SAFETY: F1, F2.
        unsafe { ours(stream).map_or_else(|| real::telldir(stream), |s| s.at as c_long) }
    }
}

taken! {
    [seekdir](stream: *mut DIR, at: c_long) -> () {
        // SAFETY: F1, F2.
        unsafe {
            match ours(stream) {
                None => real::seekdir(stream, at),
                Some(stream) => stream.at = at.max(0) as usize,
            }
        }
    }
}

taken! {
    [dirfd](stream: *mut DIR) -> c_int {
        // SAFETY: F1, F2.
        unsafe { ours(stream).map_or_else(|| real::dirfd(stream), |s| s.fd) }
    }
}

/// Makes `scandir`'s result: an array of pointers, all from `malloc`.
///
/// # Safety
/// F1.
unsafe fn scan(entries: Vec<Entry>, to: *mut *mut *mut Entry, filter: Filter, compare: Compare) -> Result<c_int, Errno> {
    // SAFETY: F1: the program's functions take entries; memory of `malloc` is as large as was asked
    // for.
    unsafe {
        let chosen: Vec<Entry> = entries.into_iter().filter(|e| filter.is_none_or(|f| f(e) != 0)).collect();
        let array = libc::malloc(size_of::<*mut Entry>() * chosen.len().max(1)).cast::<*mut Entry>();
        if array.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        for (at, e) in chosen.iter().enumerate() {
            let copy = libc::malloc(size_of::<Entry>()).cast::<Entry>();
            if copy.is_null() {
                (0..at).for_each(|i| libc::free((*array.add(i)).cast()));
                libc::free(array.cast());
                return Err(Errno(libc::ENOMEM));
            }
            copy.write(*e);
            array.add(at).write(copy);
        }
        if let Some(compare) = compare {
            // Both take pointers to elements.
            let compare: unsafe extern "C" fn(*const c_void, *const c_void) -> c_int = core::mem::transmute(compare);
            libc::qsort(array.cast(), chosen.len(), size_of::<*mut Entry>(), Some(compare));
        }
        to.write(array);
        Ok(chosen.len() as c_int)
    }
}

taken! {
    [scandir, scandir64](path: *const c_char, to: *mut *mut *mut Entry, filter: Filter, compare: Compare) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::scandir(path, to, filter, compare),
                Ok(Target::Outside(path)) => real::scandir(path.as_ptr(), to, filter, compare),
                Ok(Target::Ours(found)) => number(list(&found).and_then(|entries| scan(entries, to, filter, compare))),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [scandirat, scandirat64](folder: c_int, path: *const c_char, to: *mut *mut *mut Entry, filter: Filter, compare: Compare) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target_at(folder, path, true) {
                Ok(Target::Theirs) => real::scandirat(folder, path, to, filter, compare),
                Ok(Target::Outside(path)) => real::scandir(path.as_ptr(), to, filter, compare),
                Ok(Target::Ours(found)) => number(list(&found).and_then(|entries| scan(entries, to, filter, compare))),
                Err(error) => number(Err(error)),
            }
        }
    }
}

/// `glob_t`, with the functions by which it may be told to look.
#[repr(C)]
struct Glob {
    count: usize,
    paths: *mut *mut c_char,
    offset: usize,
    flags: c_int,
    close: Option<unsafe extern "C" fn(*mut c_void)>,
    read: Option<unsafe extern "C" fn(*mut c_void) -> *mut Entry>,
    open: Option<unsafe extern "C" fn(*const c_char) -> *mut c_void>,
    lstat: Option<unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int>,
    stat: Option<unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int>,
}

const _: () = assert!(size_of::<Glob>() == size_of::<libc::glob_t>());
/// `GLOB_ALTDIRFUNC`.
const BY_FUNCTIONS: c_int = 1 << 9;

unsafe extern "C" fn glob_close(stream: *mut c_void) {
    // SAFETY: F1: a stream from `glob_open`.
    unsafe { closedir(stream.cast()) };
}

unsafe extern "C" fn glob_read(stream: *mut c_void) -> *mut Entry {
    // SAFETY: F1: a stream from `glob_open`.
    unsafe { readdir(stream.cast()) }
}

unsafe extern "C" fn glob_open(path: *const c_char) -> *mut c_void {
    // SAFETY: F1.
    unsafe { opendir(path).cast() }
}

/// Patterns that begin like our paths are looked up by our own functions.
#[inline(always)]
unsafe fn may_match(pattern: *const c_char) -> bool {
    // SAFETY: F1: a text that ends.
    unsafe { crate::files::gate::begins_like_ours(pattern) }
}

taken! {
    [glob, glob64](pattern: *const c_char, flags: c_int, error: GlobError, to: *mut libc::glob_t) -> c_int {
        // SAFETY: F1, F2: both describe the same structure.
        unsafe {
            if !may_match(pattern) || flags & BY_FUNCTIONS != 0 {
                return real::glob(pattern, flags, error, to);
            }
            let inside = to.cast::<Glob>();
            (*inside).close = Some(glob_close);
            (*inside).read = Some(glob_read);
            (*inside).open = Some(glob_open);
            (*inside).lstat = Some(super::metadata::lstat);
            (*inside).stat = Some(super::metadata::stat);
            real::glob(pattern, flags | BY_FUNCTIONS, error, to)
        }
    }
}

/// Keeps room for entries of the C library's own size.
const _: () = assert!(size_of::<MaybeUninit<Entry>>() == size_of::<libc::dirent64>());
