// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions that peers may reach. Nothing is pinned and nothing cached: a region is an entry
//! in a table, and its memory is touched only while it is there.

use crate::abi::{Fid, Iovec, Outcome, Table, TableRef, class, command, control, error, give, none};
use crate::counter::CounterObject;
use crate::flags;
use crate::resources::{self, DomainShared};
use crate::traced::setup_if;
use bellwire_tag::{Access, Region};
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// `struct fi_mr_attr`, as far as it is looked at; all versions begin so.
#[repr(C)]
pub(crate) struct MrAttr {
    pub iov: *const Iovec,
    pub count: usize,
    pub access: u64,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut c_void,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
    pub interface: c_int,
}

/// `struct fid_mr`, and ours behind it.
#[repr(C)]
pub(crate) struct MrObject {
    fid: Fid,
    desc: *mut c_void,
    key: u64,
    domain: Arc<DomainShared>,
}

static FID: Table<6> = Table::new([close as *const (), bind as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);

/// What is to be registered.
struct Wanted {
    at: *const u8,
    length: usize,
    access: u64,
    key: u64,
    flags: u64,
}

/// # Safety
/// F1, F2.
unsafe fn add(domain: *mut Fid, w: &Wanted, to: *mut *mut MrObject, context: *mut c_void) -> Outcome {
    // SAFETY: the caller's.
    let domain = unsafe { resources::checked(domain) }?;
    // FI_RMA_EVENT wants nothing more than what binding a counter does.
    if w.flags & !flags::RMA_EVENT != 0 {
        return Err(error::BAD_FLAGS);
    }
    let start = w.at.expose_provenance();
    if start.checked_add(w.length).is_none() {
        return Err(error::EINVAL);
    }
    let mut access = Access::empty();
    access.set(Access::READ, w.access & flags::REMOTE_READ != 0);
    access.set(Access::WRITE, w.access & flags::REMOTE_WRITE != 0);
    if !access.is_empty() {
        domain.serve();
    }
    let base = if domain.is_basic { start as u64 } else { 0 };
    let mut regions = domain.regions.lock();
    let key = if domain.is_basic { regions.free_key() } else { w.key };
    // SAFETY: R1, which F2 asks of the program.
    if !unsafe { regions.insert(key, Region { start, length: w.length, base, access }) } {
        return Err(error::NO_KEY);
    }
    drop(regions);
    let fid = Fid { class: class::MR, context, ops: TableRef::to(&FID) };
    give(MrObject { fid, desc: core::ptr::null_mut(), key, domain: Arc::clone(domain) }, to).inspect_err(|_| {
        domain.regions.lock().remove(key);
    })
}

/// `fi_mr_reg`.
pub(crate) unsafe extern "C" fn register<const TRACED: bool>(
    domain: *mut Fid,
    at: *const u8,
    length: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    to: *mut *mut MrObject,
    context: *mut c_void,
) -> c_int {
    // SAFETY: F1, F2.
    setup_if(TRACED, "fi_mr_reg", [at.addr(), length], || unsafe { add(domain, &Wanted { at, length, access, key, flags }, to, context) })
}

/// `fi_mr_regv`.
pub(crate) unsafe extern "C" fn register_vector<const TRACED: bool>(
    domain: *mut Fid,
    iov: *const Iovec,
    count: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    to: *mut *mut MrObject,
    context: *mut c_void,
) -> c_int {
    let (auth_key_size, auth_key, interface) = (0, core::ptr::null_mut(), 0);
    let attr = MrAttr { iov, count, access, offset, requested_key: key, context, auth_key_size, auth_key, interface };
    // SAFETY: F1, F2.
    unsafe { register_with::<TRACED>(domain, &attr, flags, to) }
}

/// `fi_mr_regattr`.
pub(crate) unsafe extern "C" fn register_with<const TRACED: bool>(domain: *mut Fid, attr: *const MrAttr, flags: u64, to: *mut *mut MrObject) -> c_int {
    // SAFETY: F2.
    let first = unsafe { attr.as_ref() }.and_then(|attr| unsafe { attr.iov.as_ref() }).map_or([0; 2], |piece| [piece.at.addr(), piece.length]);
    setup_if(TRACED, "fi_mr_regattr", first, || {
        // SAFETY: F2.
        let attr = unsafe { attr.as_ref() }.ok_or(error::EINVAL)?;
        if attr.count != 1 || attr.iov.is_null() {
            return Err(error::EINVAL);
        }
        if attr.interface != 0 || attr.auth_key_size != 0 {
            return Err(error::ENOSYS);
        }
        // SAFETY: F2.
        let piece = unsafe { *attr.iov };
        let wanted = Wanted { at: piece.at, length: piece.length, access: attr.access, key: attr.requested_key, flags };
        // SAFETY: F1, F2.
        unsafe { add(domain, &wanted, to, attr.context) }
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        let mr = unsafe { &*fid.cast::<MrObject>() };
        mr.domain.regions.lock().remove(mr.key);
        // SAFETY: F1.
        unsafe { crate::abi::drop_object::<MrObject>(fid) };
        Ok(())
    })
}

/// To a counter, which hears of peers; to an endpoint, which needs nothing done.
unsafe extern "C" fn bind(fid: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
    control(|| {
        // SAFETY: F1.
        let mr = unsafe { &*fid.cast::<MrObject>() };
        // SAFETY: F1.
        match unsafe { to.as_ref() }.map(|t| t.class) {
            Some(class::CNTR) => {
                if flags & !(flags::REMOTE_READ | flags::REMOTE_WRITE) != 0 {
                    return Err(error::BAD_FLAGS);
                }
                // SAFETY: F1: its class says what it is.
                let counter = Arc::clone(unsafe { &(*to.cast::<CounterObject>()).shared });
                mr.domain.watch(&counter);
                let mut how = Access::empty();
                how.set(Access::READ, flags & flags::REMOTE_READ != 0);
                how.set(Access::WRITE, flags & flags::REMOTE_WRITE != 0);
                mr.domain.regions.lock().watch(mr.key, &counter.counter, how);
                Ok(())
            }
            Some(class::EP) => Ok(()),
            _ => Err(error::EINVAL),
        }
    })
}

/// `FI_ENABLE`, `FI_REFRESH`: nothing is to be done.
unsafe extern "C" fn control_call(_: *mut Fid, asked: c_int, _: *mut c_void) -> c_int {
    if matches!(asked, command::ENABLE | command::REFRESH) { 0 } else { -error::ENOSYS }
}
