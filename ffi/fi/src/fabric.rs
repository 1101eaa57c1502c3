// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fabric: there is one.

use crate::abi::{Fid, Table, TableRef, class, control, error, give, none};
use crate::attributes::FabricAttr;
use crate::cq::CqObject;
use crate::eq::EqObject;
use crate::traced::setup;
use crate::{domain, eq, limits, passive, waitset};
use core::ffi::{CStr, c_int, c_void};

/// `struct fid_fabric`.
#[repr(C)]
pub(crate) struct FabricObject {
    fid: Fid,
    ops: TableRef,
    api_version: u32,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<6> = Table::new([
    domain::open as *const (),
    passive::open as *const (),
    eq::open as *const (),
    waitset::open as *const (),
    trywait as *const (),
    domain::open2 as *const (),
]);

/// The provider's `fabric`.
///
/// # Safety
/// F2.
pub(crate) unsafe extern "C" fn open(attr: *mut FabricAttr, to: *mut *mut Fid, context: *mut c_void) -> c_int {
    setup("fi_fabric", [0; 2], || {
        // SAFETY: F2.
        let attr = unsafe { attr.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F2: a string.
        if !attr.name.is_null() && unsafe { CStr::from_ptr(attr.name) } != limits::NAME {
            return Err(error::EINVAL);
        }
        let fid = Fid { class: class::FABRIC, context, ops: TableRef::to(&FID) };
        give(FabricObject { fid, ops: TableRef::to(&OPS), api_version: attr.api_version }, to.cast::<*mut FabricObject>())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        unsafe { crate::abi::drop_object::<FabricObject>(fid) };
        Ok(())
    })
}

/// Whether one may sleep on the descriptors of these objects now.
unsafe extern "C" fn trywait(_: *mut Fid, which: *mut *mut Fid, count: c_int) -> c_int {
    control(|| {
        for i in 0..usize::try_from(count).map_err(|_| error::EINVAL)? {
            // SAFETY: F2.
            let fid = unsafe { *which.add(i) };
            // SAFETY: F1.
            match unsafe { fid.as_ref() }.map(|f| f.class) {
                // SAFETY: F1: its class says what it is.
                Some(class::CQ) if !unsafe { &(*fid.cast::<CqObject>()).shared }.try_wait() => return Err(error::EAGAIN),
                // SAFETY: F1: its class says what it is.
                Some(class::EQ) if !unsafe { &(*fid.cast::<EqObject>()).shared }.try_wait() => return Err(error::EAGAIN),
                Some(class::CQ | class::EQ | class::CNTR) => {}
                _ => return Err(error::EINVAL),
            }
        }
        Ok(())
    })
}
