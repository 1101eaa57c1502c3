// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls that are taken. Each begins with the gate; foreign paths and descriptors go to the C
//! library with the same arguments.

mod descriptors;
mod directory;
mod loading;
mod metadata;
mod names;
mod opening;

use super::gate::{candidate, has_mark};
use super::table::opened;
use super::tree::{Node, Place, Tree};
use super::view::tree;
use bellwire_cm_device::Errno;
use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;

/// A call under all its names.
macro_rules! taken {
    ($(#[$doc:meta])* [$first:ident $(, $more:ident)*] $arguments:tt -> $result:ty $body:block) => {
        taken!(@one $first $arguments -> $result $body);
        $(taken!(@one $more $arguments -> $result $body);)*
    };
    (@one $name:ident ($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        /// The C library's call of this name.
        ///
        /// # Safety
        /// F1.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result $body
    };
}
use taken;

/// Where a call goes.
enum Target {
    /// To the C library, as it is.
    Theirs,
    /// To the C library, with this absolute path in the place of folder and path.
    Outside(CString),
    /// To a node of ours.
    Ours(Found),
}

/// A node of ours.
#[derive(Clone)]
struct Found {
    tree: &'static Tree,
    path: String,
}

impl Found {
    fn node(&self) -> &'static Node {
        // Nodes are never removed.
        self.tree.get(&self.path).unwrap_or(&Node::Folder)
    }
}

thread_local! {
    /// This thread is making the tree: what it looks at meanwhile is the system's.
    static IS_MAKING: Cell<bool> = const { Cell::new(false) };
}

/// Where a path relative to a folder goes. `follows`: a link at its end is followed.
///
/// # Safety
/// F1: NULL, or a text that ends.
#[inline(always)]
unsafe fn target_at(folder: c_int, path: *const c_char, follows: bool) -> Result<Target, Errno> {
    // SAFETY: F1.
    unsafe {
        if let Some(path) = candidate(path) {
            return follow(path, follows);
        }
        if has_mark(folder) && !path.is_null() && *path as u8 != b'/' { below(folder, CStr::from_ptr(path), follows) } else { Ok(Target::Theirs) }
    }
}

/// The same for a path by itself.
///
/// # Safety
/// F1.
#[inline(always)]
unsafe fn target(path: *const c_char, follows: bool) -> Result<Target, Errno> {
    // SAFETY: F1.
    unsafe { target_at(libc::AT_FDCWD, path, follows) }
}

#[cold]
fn follow(path: &str, follows: bool) -> Result<Target, Errno> {
    if IS_MAKING.get() {
        return Ok(Target::Theirs);
    }
    IS_MAKING.set(true);
    let tree = tree();
    IS_MAKING.set(false);
    match tree.follow(path, follows)? {
        Place::Ours(path) => Ok(Target::Ours(Found { tree, path })),
        Place::Outside(real) if real == path => Ok(Target::Theirs),
        Place::Outside(real) => CString::new(real).map(Target::Outside).map_err(|_| Errno(libc::EINVAL)),
    }
}

/// A path below an opened folder of ours.
#[cold]
fn below(folder: c_int, path: &CStr, follows: bool) -> Result<Target, Errno> {
    let Some(opened) = opened(folder) else { return Ok(Target::Theirs) };
    let path = path.to_str().map_err(|_| Errno(libc::ENOENT))?;
    if path.is_empty() {
        return Err(Errno(libc::ENOENT));
    }
    if !matches!(tree().get(opened.path()), Some(Node::Folder)) {
        return Err(Errno(libc::ENOTDIR));
    }
    follow(&format!("{}/{path}", opened.path()), follows)
}

/// What a call that gives a number returns: -1 and `errno` for an error.
fn number<T: Minus>(outcome: Result<T, Errno>) -> T {
    outcome.unwrap_or_else(|error| {
        crate::set_errno(error.0);
        T::MINUS_ONE
    })
}

trait Minus {
    const MINUS_ONE: Self;
}

impl Minus for c_int {
    const MINUS_ONE: Self = -1;
}

impl Minus for isize {
    const MINUS_ONE: Self = -1;
}

/// What a call that gives a pointer returns.
fn pointer<T>(outcome: Result<*mut T, Errno>) -> *mut T {
    outcome.unwrap_or_else(|error| {
        crate::set_errno(error.0);
        core::ptr::null_mut()
    })
}
