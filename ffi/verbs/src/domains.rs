// SPDX-License-Identifier: MIT OR Apache-2.0
//! Domains beside protection domains: thread domains and parent domains, which tell a device how a
//! program shares its objects and change nothing here; XRC domains.

use crate::abi::{IbvContext, IbvParentDomainInitAttr, IbvPd, IbvTd, IbvXrcd, IbvXrcdInitAttr};
use crate::devices::Kind;
use crate::types::{HeldTd, Pd, Td, Xrcd, context, inside};
use crate::{code, object, set_errno};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_verbs::{Error, Port};
use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) unsafe extern "C" fn alloc_td(context: *mut IbvContext, init: *const u32) -> *mut IbvTd {
    // SAFETY: V2.
    if unsafe { *init } != 0 {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    Box::into_raw(Box::new(Td { public: IbvTd { context }, users: AtomicU32::new(0) })).cast()
}

pub(crate) unsafe extern "C" fn dealloc_td(td: *mut IbvTd) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Td>(td) };
    // Relaxed: the program does not make parent domains of a thread domain that it ends.
    if inner.users.load(Ordering::Relaxed) != 0 {
        return libc::EBUSY;
    }
    // SAFETY: V1; it is used no more.
    drop(unsafe { Box::from_raw(td.cast::<Td>()) });
    0
}

/// Makes a parent domain: objects made in it are of its protection domain. The allocators it may
/// name are for memory that queues share with a device, of which there is none.
pub(crate) unsafe extern "C" fn alloc_parent_domain(context: *mut IbvContext, attr: *const IbvParentDomainInitAttr) -> *mut IbvPd {
    const ALLOCATORS: u32 = 1;
    const CONTEXT: u32 = 2;
    // SAFETY: V2.
    let a = unsafe { &*attr };
    let one_allocator = a.comp_mask & ALLOCATORS != 0 && a.alloc.is_null() != a.free.is_null();
    if a.pd.is_null() || a.comp_mask & !(ALLOCATORS | CONTEXT) != 0 || one_allocator {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    // SAFETY: V1.
    let (parent, td) = unsafe { (inside::<_, Pd>(a.pd), (!a.td.is_null()).then(|| inside::<_, Td>(a.td))) };
    let held = td.map(HeldTd::new);
    let port = Arc::clone(&parent.port);
    let made = parent.own.count(Kind::Pd).and_then(|counted| {
        port.hold_domain(parent.id)?;
        let public = IbvPd { context, handle: parent.id };
        Ok(Box::new(Pd { public, port, own: parent.own, id: parent.id, is_parent: true, td: held, _counted: counted }))
    });
    object(made).cast()
}

/// XRC domains that are named by a file: all who open it share one, with how many have.
static NAMED: Mutex<Vec<Named>> = Mutex::new(Vec::new());

#[derive(Clone, Copy, PartialEq, Eq)]
struct Named {
    /// The device, by its address: it outlives its domains.
    port: usize,
    file: (u64, u64),
    id: u32,
    users: u32,
}

fn file_of(fd: c_int) -> Result<(u64, u64), Error> {
    if fd < 0 {
        return Err(Error::Invalid);
    }
    // SAFETY: the program's descriptor, used during the call alone; one that is not open gives an
    // error.
    let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) }).map_err(|_| Error::Invalid)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn open_named(port: &Arc<Port>, fd: c_int, flags: c_int) -> Result<u32, Error> {
    let (file, at) = (file_of(fd)?, Arc::as_ptr(port).addr());
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = named.iter_mut().find(|n| n.port == at && n.file == file) {
        if flags & libc::O_EXCL != 0 {
            return Err(Error::Invalid);
        }
        found.users += 1;
        return Ok(found.id);
    }
    if flags & libc::O_CREAT == 0 {
        return Err(Error::Invalid);
    }
    let id = port.create_xrc_domain()?;
    named.push(Named { port: at, file, id, users: 1 });
    Ok(id)
}

/// Opens an XRC domain: the one of a file, or with the descriptor -1 a new one.
pub(crate) unsafe extern "C" fn open_xrcd(public: *mut IbvContext, init: *const IbvXrcdInitAttr) -> *mut IbvXrcd {
    const FILE_AND_FLAGS: u32 = 3;
    // SAFETY: V1, V2.
    let (port, init) = unsafe { (Arc::clone(&context(public).port), &*init) };
    let id = match init.comp_mask {
        FILE_AND_FLAGS if init.fd == -1 && init.oflags & libc::O_CREAT != 0 => port.create_xrc_domain(),
        FILE_AND_FLAGS => open_named(&port, init.fd, init.oflags),
        _ => Err(Error::Invalid),
    };
    object(id.map(|id| Box::new(Xrcd { public: IbvXrcd { context: public }, port, id }))).cast()
}

/// Closes an XRC domain; it ends with the last who has it open.
pub(crate) unsafe extern "C" fn close_xrcd(xrcd: *mut IbvXrcd) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Xrcd>(xrcd) };
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let at = named.iter().position(|n| n.port == Arc::as_ptr(&inner.port).addr() && n.id == inner.id);
    let outcome = match at {
        Some(i) if named[i].users > 1 => {
            named[i].users -= 1;
            Ok(())
        }
        _ => inner.port.destroy_xrc_domain(inner.id).inspect(|()| {
            if let Some(i) = at {
                named.swap_remove(i);
            }
        }),
    };
    drop(named);
    if outcome.is_ok() {
        // SAFETY: V1; it is used no more.
        drop(unsafe { Box::from_raw(xrcd.cast::<Xrcd>()) });
    }
    code(outcome)
}
