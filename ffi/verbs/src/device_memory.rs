// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the device: here it is memory of the process that programs reach by calls and by
//! registered keys, not by pointers.

use crate::abi::{IbvAllocDmAttr, IbvContext, IbvDm, IbvMr, IbvPd};
use crate::mapped::Mapped;
use crate::objects::{ZERO_BASED, register_backed};
use crate::set_errno;
use crate::types::{Backing, Shared, context, inside};
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// Copies and their places are multiples of that.
const UNIT: u64 = 4;

/// Device memory as a program has it.
#[repr(C)]
pub(crate) struct Dm {
    public: IbvDm,
    length: u64,
    memory: Arc<Mapped>,
}

impl Dm {
    fn new(context: *mut IbvContext, handle: u32, length: u64, memory: Arc<Mapped>) -> Self {
        let public = IbvDm { context, copy_in: copy_in as *const c_void, copy_out: copy_out as *const c_void, comp_mask: 0, handle };
        Self { public, length, memory }
    }

    /// Where a copy of `length` bytes at `offset` goes.
    fn place(&self, offset: u64, length: usize) -> Option<*mut u8> {
        let length = length as u64;
        let fits = offset.is_multiple_of(UNIT) && length.is_multiple_of(UNIT) && offset.checked_add(length).is_some_and(|end| end <= self.length);
        // SAFETY: within the mapping, just checked.
        fits.then(|| unsafe { self.memory.at.as_ptr().cast::<u8>().add(offset as usize) })
    }
}

unsafe extern "C" fn copy_in(dm: *mut IbvDm, offset: u64, from: *const c_void, length: usize) -> c_int {
    // SAFETY: V1.
    let Some(to) = unsafe { inside::<_, Dm>(dm) }.place(offset, length) else { return libc::EFAULT };
    // SAFETY: V2; the mapping has room. Peers may be writing it meanwhile.
    unsafe { bellwire_memory::bytes::copy(to, from.cast(), length) };
    0
}

unsafe extern "C" fn copy_out(to: *mut c_void, dm: *mut IbvDm, offset: u64, length: usize) -> c_int {
    // SAFETY: V1.
    let Some(from) = unsafe { inside::<_, Dm>(dm) }.place(offset, length) else { return libc::EFAULT };
    // SAFETY: V2; the mapping has as much. Peers may be writing it meanwhile.
    unsafe { bellwire_memory::bytes::copy(to.cast(), from, length) };
    0
}

pub(crate) unsafe extern "C" fn alloc_dm(public: *mut IbvContext, attr: *const IbvAllocDmAttr) -> *mut IbvDm {
    // SAFETY: V1, V2.
    let (context, a) = unsafe { (context(public), &*attr) };
    let fail = |errno| {
        set_errno(errno);
        core::ptr::null_mut()
    };
    // Pages are aligned enough for any power of two up to theirs.
    if a.comp_mask != 0 || a.length == 0 || a.log_align_req > 12 {
        return fail(libc::EINVAL);
    }
    if !context.shared.device_memory.take(a.length as u64) {
        return fail(libc::ENOMEM);
    }
    let Some(memory) = Mapped::new(a.length) else {
        context.shared.device_memory.give_back(a.length as u64);
        return fail(libc::ENOMEM);
    };
    let memory = Arc::new(memory);
    let handle = context.shared.device_memory.name(a.length as u64, &memory);
    Box::into_raw(Box::new(Dm::new(public, handle, a.length as u64, memory))).cast()
}

/// The same memory once more, for another context.
pub(crate) fn import(public: *mut IbvContext, shared: &Shared, handle: u32) -> Option<Box<Dm>> {
    let (length, memory) = shared.device_memory.all().get(&handle).and_then(|(n, m)| Some((*n, m.upgrade()?)))?;
    Some(Box::new(Dm::new(public, handle, length, memory)))
}

/// Ends device memory that no region and no import is of.
pub(crate) unsafe extern "C" fn free_dm(dm: *mut IbvDm) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Dm>(dm) };
    if Arc::strong_count(&inner.memory) != 1 {
        return libc::EBUSY;
    }
    // SAFETY: V1.
    let used = unsafe { &context(inner.public.context).shared.device_memory };
    used.all().remove(&inner.public.handle);
    used.give_back(inner.length);
    // SAFETY: V1; it is used no more.
    drop(unsafe { Box::from_raw(dm.cast::<Dm>()) });
    0
}

/// Registers device memory: requests call its first byte 0.
pub(crate) unsafe extern "C" fn reg_dm_mr(pd: *mut IbvPd, dm: *mut IbvDm, offset: u64, length: usize, access: u32) -> *mut IbvMr {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Dm>(dm) };
    // A region of nothing is one of a unit that nobody may touch.
    let (length, access) = if length == 0 { (UNIT as usize, ZERO_BASED) } else { (length, access) };
    let Some(place) = inner.place(offset, length).filter(|_| access & ZERO_BASED != 0) else {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    };
    register_backed(pd, place.cast(), length, 0, access, Some(Arc::clone(&inner.memory) as Backing))
}
