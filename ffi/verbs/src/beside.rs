// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real devices in the list beside ours (`--verbs=beside`). The genuine libibverbs lists and opens
//! them; a call for an object of theirs goes on to it. Posting and polling need no help: programs
//! make those calls through the table in the object's context.
//!
//! An object is ours if its context is of a device of ours. Every public object but a device begins
//! with its context.

use crate::abi::{IbvAh, IbvAsyncEvent, IbvCompChannel, IbvContext, IbvCq, IbvDevice, IbvDm, IbvMr, IbvPd, IbvQp, IbvSrq};
use crate::{devices, set_errno};
use bellwire_memory::atomic::{AtomicPtr, Ordering};
use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The event's element is a queue pair, a completion queue, a shared receive queue or a work queue.
const EVENTS_OF_OBJECTS: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 14, 15, 16, 19];

/// What a program gives a call, by which it is known whose it is.
pub(crate) trait Object {
    /// Its context, or NULL.
    ///
    /// # Safety
    /// V1, or an object of the genuine library's.
    unsafe fn context(self) -> *mut IbvContext;
}

impl Object for *mut IbvContext {
    unsafe fn context(self) -> *mut IbvContext {
        self
    }
}

macro_rules! objects {
    ($($type:ty),*) => {
        $(impl Object for *mut $type {
            unsafe fn context(self) -> *mut IbvContext {
                // SAFETY: the caller's: the public structure begins with its context.
                if self.is_null() { core::ptr::null_mut() } else { unsafe { (*self).context } }
            }
        })*
    };
}

objects!(IbvPd, IbvMr, IbvDm, IbvCompChannel, IbvCq, IbvSrq, IbvQp, IbvAh);

impl Object for *mut IbvAsyncEvent {
    unsafe fn context(self) -> *mut IbvContext {
        // SAFETY: the caller's.
        let event = unsafe { &*self };
        if event.element.is_null() || !EVENTS_OF_OBJECTS.contains(&event.event_type) {
            return core::ptr::null_mut();
        }
        // SAFETY: an object, which begins with its context.
        unsafe { *event.element.cast::<*mut IbvContext>() }
    }
}

/// What a call gives that the genuine library does not have.
pub(crate) trait Refusal {
    fn refusal() -> Self;
}

impl Refusal for c_int {
    fn refusal() -> Self {
        libc::ENOSYS
    }
}

impl Refusal for isize {
    fn refusal() -> Self {
        -(libc::ENOSYS as Self)
    }
}

impl Refusal for u64 {
    fn refusal() -> Self {
        0
    }
}

impl Refusal for () {
    fn refusal() -> Self {}
}

impl<T> Refusal for *mut T {
    fn refusal() -> Self {
        set_errno(libc::ENOSYS);
        core::ptr::null_mut()
    }
}

/// Whether an object is of a real device.
///
/// # Safety
/// As [`Object::context`].
#[inline]
pub(crate) unsafe fn is_real(object: impl Object) -> bool {
    if !devices::shows_real() {
        return false;
    }
    // SAFETY: the caller's; a context stays as long as its objects.
    unsafe {
        let context = object.context();
        !context.is_null() && devices::of((*context).device).is_none()
    }
}

/// Whether a device is a real one.
#[inline]
pub(crate) fn is_real_device(device: *mut IbvDevice) -> bool {
    devices::shows_real() && !device.is_null() && devices::of(device).is_none()
}

/// The genuine library's call of a name. `None`: there is no library, or it has no such call.
#[cold]
pub(crate) fn find(cell: &AtomicPtr<c_void>, name: &CStr) -> Option<*mut c_void> {
    // Relaxed: every thread finds the same pointer to code, which stays.
    let mut found = cell.load(Ordering::Relaxed);
    if found.is_null() {
        let library = genuine()?;
        // SAFETY: a library that stays; a name that ends.
        found = unsafe { libc::dlsym(library.0, name.as_ptr()) };
        // Relaxed: as above.
        cell.store(found, Ordering::Relaxed);
    }
    (!found.is_null()).then_some(found)
}

/// Where the library begins that has an address.
fn library_of(address: *const c_void) -> Option<*mut c_void> {
    // SAFETY: numbers and pointers only, for which zero is one.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: any address, and room for the answer.
    (unsafe { libc::dladdr(address, &raw mut info) } != 0).then_some(info.dli_fbase)
}

struct Library(*mut c_void);
// SAFETY: `Library` is a handle of the loader's, which any thread may use.
unsafe impl Send for Library {}
// SAFETY: `Library` is such a handle, and nothing writes it.
unsafe impl Sync for Library {}

/// The genuine library: the program's, or the system's if the program has loaded none.
fn genuine() -> Option<&'static Library> {
    static GENUINE: OnceLock<Option<Library>> = OnceLock::new();
    let load = || {
        // SAFETY: a name that ends.
        let open = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
        if open.is_null() {
            return None;
        }
        // SAFETY: the C library's call, which has this type; a name that ends. Ours of that name
        // would give this library.
        let handle = unsafe {
            let open: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void = core::mem::transmute(open);
            open(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY)
        };
        // SAFETY: a handle; a name that ends.
        let list = if handle.is_null() { handle } else { unsafe { libc::dlsym(handle, c"ibv_get_device_list".as_ptr()) } };
        // In place of libibverbs this library would find itself.
        let is_itself = library_of(list) == library_of(find as *const c_void);
        (!list.is_null() && !is_itself).then_some(Library(handle))
    };
    GENUINE.get_or_init(load).as_ref()
}

/// The genuine library's list, and how many devices it has. NULL: it has none.
pub(crate) fn list() -> (*mut *mut IbvDevice, usize) {
    let mut count: c_int = 0;
    if !devices::shows_real() {
        return (core::ptr::null_mut(), 0);
    }
    let list: *mut *mut IbvDevice = real!(ibv_get_device_list(&raw mut count));
    (list, if list.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) })
}

/// Calls the genuine library.
macro_rules! real {
    ($name:ident($($argument:expr),*)) => {{
        static CELL: bellwire_memory::atomic::AtomicPtr<core::ffi::c_void> = bellwire_memory::atomic::AtomicPtr::new(core::ptr::null_mut());
        const NAME: &core::ffi::CStr = match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        };
        match $crate::beside::find(&CELL, NAME) {
            Some(call) => {
                // SAFETY: V2: a call of this name has the type of ours, which gives the arguments.
                let call: unsafe extern "C" fn($($crate::beside::any!($argument)),*) -> _ = unsafe { core::mem::transmute(call) };
                // SAFETY: V1, V2: the program's arguments, as they are.
                unsafe { call($($argument),*) }
            }
            None => $crate::beside::Refusal::refusal(),
        }
    }};
}

/// A type that is to be inferred.
macro_rules! any {
    ($argument:expr) => {
        _
    };
}

/// Gives a call for an object of a real device to the genuine library.
macro_rules! or_real {
    ($object:expr, $name:ident($($argument:expr),*)) => {
        // SAFETY: V1, or an object of the genuine library's.
        if unsafe { $crate::beside::is_real($object) } {
            return $crate::beside::real!($name($($argument),*));
        }
    };
}

pub(crate) use {any, or_real, real};
