// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polling and waiting, limits, statistics.

use crate::carrier::Carrier;
use crate::objects::{BundleObject, EndpointObject, bundle, endpoint};
use crate::types::{BAD_ARG, code, put};
use bellwire_am::{ARGS_MAX, BULK_BYTES_MAX, Counters, MEDIUM_BYTES_MAX};
use bellwire_trace::call as trace;
use core::ffi::{c_int, c_uint};
use std::time::Duration;

/// Messages that one AM_Poll handles at most.
const POLL_MAX: u32 = 32;

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxShort() -> c_int {
    ARGS_MAX as c_int
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxMedium() -> c_int {
    MEDIUM_BYTES_MAX as c_int
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxLong() -> c_int {
    BULK_BYTES_MAX as c_int
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_Poll(eb: *mut BundleObject) -> c_int {
    // SAFETY: C1.
    let polled = unsafe { bundle(eb) }.and_then(|bundle| {
        for _ in 0..POLL_MAX {
            if bundle.poll()? == 0 {
                break;
            }
        }
        Ok(())
    });
    code(polled)
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_SetEventMask(eb: *mut BundleObject, mask: c_int) -> c_int {
    if !(0..=1).contains(&mask) {
        return BAD_ARG;
    }
    // SAFETY: C1.
    code(unsafe { bundle(eb) }.map(|bundle| bundle.set_event_mask(mask == 1)))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetEventMask(eb: *mut BundleObject, mask: *mut c_int) -> c_int {
    // SAFETY: C1.
    unsafe { put(mask, bundle(eb).map(|bundle| c_int::from(bundle.event_mask()))) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_WaitSema(eb: *mut BundleObject) -> c_int {
    trace::call("AM_WaitSema", [eb.addr() as u64, 0], || {
        // SAFETY: C1.
        code(unsafe { bundle(eb) }.and_then(Carrier::wait_for_event))
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_GetStatistics(ep: *mut EndpointObject, statistics: *mut Counters) -> c_int {
    // SAFETY: C1.
    unsafe { put(statistics, endpoint(ep).and_then(|(bundle, id)| bundle.counters(id))) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_ResetStatistics(ep: *mut EndpointObject) -> c_int {
    // SAFETY: C1.
    code(unsafe { endpoint(ep) }.and_then(|(bundle, id)| bundle.reset_counters(id)))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_SetPatience(eb: *mut BundleObject, milliseconds: c_uint) -> c_int {
    let patience = (milliseconds != 0).then(|| Duration::from_millis(u64::from(milliseconds)));
    // SAFETY: C1.
    code(unsafe { bundle(eb) }.map(|bundle| bundle.set_patience(patience)))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_AddStatistics(sum: *mut Counters, statistics: *const Counters) {
    // SAFETY: C1.
    if let (Some(sum), Some(statistics)) = unsafe { (sum.as_mut(), statistics.as_ref()) } {
        sum.add(statistics);
    }
}
