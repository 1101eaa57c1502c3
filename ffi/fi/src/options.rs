// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of endpoints: `fi_getopt` and `fi_setopt`.

use crate::abi::{Fid, Outcome, control, error};
use crate::limits::DATA_BYTES_MAX;
use crate::object::of;
use core::ffi::{c_int, c_void};

/// `FI_OPT_MIN_MULTI_RECV`; what may be asked of the newer ones is limits that are fixed.
const MIN_MULTI_RECV: c_int = 0;
const CM_DATA_SIZE: c_int = 1;

pub(crate) unsafe extern "C" fn setopt(fid: *mut Fid, level: c_int, name: c_int, value: *const c_void, length: usize) -> c_int {
    control(|| {
        if level != 0 || name != MIN_MULTI_RECV {
            return Err(libc::ENOPROTOOPT);
        }
        if value.is_null() || length != size_of::<usize>() {
            return Err(error::EINVAL);
        }
        // SAFETY: F1, F2.
        unsafe { of(fid).shared.endpoint.set_multi_receive_min(*value.cast::<usize>()) };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn getopt(fid: *mut Fid, level: c_int, name: c_int, value: *mut c_void, length: *mut usize) -> c_int {
    control(|| {
        if name == CM_DATA_SIZE {
            // SAFETY: F2.
            return unsafe { connection_option(level, name, value, length) };
        }
        if level != 0 || name != MIN_MULTI_RECV {
            return Err(libc::ENOPROTOOPT);
        }
        // SAFETY: F2.
        let room = unsafe { length.as_mut() }.ok_or(error::EINVAL)?;
        if core::mem::replace(room, size_of::<usize>()) < size_of::<usize>() {
            return Err(error::TOO_SMALL);
        }
        if value.is_null() {
            return Err(error::EINVAL);
        }
        // SAFETY: F1, F2.
        unsafe { *value.cast::<usize>() = of(fid).shared.endpoint.multi_receive_min() };
        Ok(())
    })
}

/// How much data goes with a request for a connection, and with its answer.
///
/// # Safety
/// F2.
pub(crate) unsafe fn connection_option(level: c_int, name: c_int, value: *mut c_void, length: *mut usize) -> Outcome {
    if level != 0 || name != CM_DATA_SIZE {
        return Err(libc::ENOPROTOOPT);
    }
    // SAFETY: F2.
    let room = unsafe { length.as_mut() }.ok_or(error::EINVAL)?;
    if core::mem::replace(room, size_of::<usize>()) < size_of::<usize>() {
        return Err(error::TOO_SMALL);
    }
    // SAFETY: F2.
    *unsafe { value.cast::<usize>().as_mut() }.ok_or(error::EINVAL)? = DATA_BYTES_MAX;
    Ok(())
}
