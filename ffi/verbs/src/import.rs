// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects taken over from another context of this process: a program duplicates the descriptor of
//! a context (`cmd_fd`), and makes a second context of it, with the same objects. Processes cannot
//! import each other's objects (decision 36).
//!
//! As with a device of the kernel, an import keeps no object alive: the program ends each object
//! once, by either context.

use crate::abi::{IbvContext, IbvDm, IbvMr, IbvPd};
use crate::beside::or_real;
use crate::device_memory;
use crate::devices::Kind;
use crate::object;
use crate::types::{Mr, Pd, Shared, context, inside};
use bellwire_verbs::Error;
use core::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The name of the file behind a context's descriptor, by which other processes' are known.
const FILE: &core::ffi::CStr = c"bellwire-context";

/// Which file a descriptor is of: device and number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        rustix::fs::fstat(fd).ok().map(|s| Self(s.st_dev, s.st_ino))
    }
}

/// Contexts that can be imported.
static CONTEXTS: Mutex<Vec<(Identity, Weak<Shared>)>> = Mutex::new(Vec::new());

/// Makes the descriptor of a new context.
pub(crate) fn descriptor(shared: &Arc<Shared>) -> Option<OwnedFd> {
    let fd = rustix::fs::memfd_create(FILE, rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    let identity = Identity::of(fd.as_fd())?;
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    contexts.retain(|(_, shared)| shared.strong_count() != 0);
    contexts.push((identity, Arc::downgrade(shared)));
    Some(fd)
}

/// What a descriptor is of.
pub(crate) fn shared_of(fd: BorrowedFd<'_>) -> Result<Arc<Shared>, c_int> {
    let identity = Identity::of(fd).ok_or(libc::EBADF)?;
    let found = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|(i, _)| *i == identity).and_then(|(_, shared)| shared.upgrade());
    match found {
        Some(shared) if shared.port.is_ours() => Ok(shared),
        // The parent's: this process has none of its memory's registrations.
        Some(_) => Err(libc::EOPNOTSUPP),
        None => Err(if is_context(fd) { libc::EOPNOTSUPP } else { libc::EINVAL }),
    }
}

/// Whether it is a context of another process.
fn is_context(fd: BorrowedFd<'_>) -> bool {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).is_ok_and(|to| to.to_string_lossy().contains("memfd:bellwire-context"))
}

/// The protection domain with that handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_pd(public: *mut IbvContext, handle: u32) -> *mut IbvPd {
    or_real!(public, ibv_import_pd(public, handle));
    // SAFETY: V1.
    let context = unsafe { context(public) };
    let (own, port) = (context.own, Arc::clone(&context.port));
    let made = own.count(Kind::Pd).and_then(|counted| {
        // Looks whether there is one.
        port.hold_domain(handle)?;
        port.release_domain(handle)?;
        let public = IbvPd { context: public, handle };
        Ok(Box::new(Pd { public, port, own, id: handle, is_parent: false, td: None, _counted: counted }))
    });
    object(made).cast()
}

/// The region with that handle. Its address is not told: `addr` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_mr(pd: *mut IbvPd, handle: u32) -> *mut IbvMr {
    or_real!(pd, ibv_import_mr(pd, handle));
    // SAFETY: V1.
    let (inner, context) = unsafe { (inside::<_, Pd>(pd), (*pd).context) };
    let made = inner.own.count(Kind::Mr).and_then(|counted| {
        if inner.port.region_domain(handle) != Some(inner.id) {
            return Err(Error::Invalid);
        }
        let public = IbvMr { context, pd, addr: core::ptr::null_mut(), length: 0, handle, lkey: handle, rkey: handle };
        Ok(Box::new(Mr::new(public, Arc::clone(&inner.port), None, counted)))
    });
    object(made).cast()
}

/// The device memory with that handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_dm(public: *mut IbvContext, handle: u32) -> *mut IbvDm {
    or_real!(public, ibv_import_dm(public, handle));
    // SAFETY: V1.
    object(device_memory::import(public, unsafe { &context(public).shared }, handle).ok_or(Error::Invalid)).cast()
}

/// Gives back what an import made; the domain stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_pd(pd: *mut IbvPd) {
    or_real!(pd, ibv_unimport_pd(pd));
    // SAFETY: V1; it is used no more.
    drop(unsafe { Box::from_raw(pd.cast::<Pd>()) });
}

/// Gives back what an import made; the region stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_mr(mr: *mut IbvMr) {
    or_real!(mr, ibv_unimport_mr(mr));
    // SAFETY: V1; it is used no more.
    drop(unsafe { Box::from_raw(mr.cast::<Mr>()) });
}

/// Gives back what an import made; the memory stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_dm(dm: *mut IbvDm) {
    or_real!(dm, ibv_unimport_dm(dm));
    // SAFETY: V1; it is used no more.
    drop(unsafe { Box::from_raw(dm.cast::<device_memory::Dm>()) });
}
