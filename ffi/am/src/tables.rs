// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translation tables, and how many handlers and requests there may be.

use crate::objects::{EndpointObject, endpoint, index};
use crate::types::{BAD_ARG, EndpointName, OK, RESOURCE, code, put};
use bellwire_am::{CREDITS_MAX, Error, HANDLERS, TRANSLATIONS_MAX};
use bellwire_trace::call as trace;
use core::ffi::c_int;

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxNumHandlers() -> c_int {
    HANDLERS as c_int
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_Map(ep: *mut EndpointObject, entry: c_int, name: EndpointName, tag: u64) -> c_int {
    trace::call("AM_Map", [ep.addr() as u64, entry as u64], || {
        // SAFETY: C1.
        let found = unsafe { endpoint(ep) };
        code(found.and_then(|(bundle, id)| bundle.map(id, index(entry)?, &name, tag)))
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_MapAny(ep: *mut EndpointObject, entry: *mut c_int, name: EndpointName, tag: u64) -> c_int {
    trace::call("AM_MapAny", [ep.addr() as u64, 0], || {
        if entry.is_null() {
            return BAD_ARG;
        }
        // SAFETY: C1.
        let mapped = unsafe { endpoint(ep) }.and_then(|(bundle, id)| bundle.map_any(id, &name, tag));
        // SAFETY: C1.
        unsafe { put(entry, mapped.map(|i| i as c_int)) }
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_UnMap(ep: *mut EndpointObject, entry: c_int) -> c_int {
    trace::call("AM_UnMap", [ep.addr() as u64, entry as u64], || {
        // SAFETY: C1.
        let found = unsafe { endpoint(ep) };
        code(found.and_then(|(bundle, id)| bundle.unmap(id, index(entry)?)))
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetTranslationInuse(ep: *mut EndpointObject, entry: c_int) -> c_int {
    // SAFETY: C1.
    code(unsafe { translation(ep, entry) }.map(drop))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetTranslationTag(ep: *mut EndpointObject, entry: c_int, tag: *mut u64) -> c_int {
    // SAFETY: C1.
    unsafe { put(tag, translation(ep, entry).map(|t| t.1)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetTranslationName(ep: *mut EndpointObject, entry: c_int, name: *mut EndpointName) -> c_int {
    // SAFETY: C1.
    unsafe { put(name, translation(ep, entry).map(|t| t.0)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetNumTranslations(ep: *mut EndpointObject, entries: *mut c_int) -> c_int {
    // SAFETY: C1.
    unsafe { put(entries, endpoint(ep).and_then(|(bundle, id)| bundle.translations(id)).map(|n| n as c_int)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_SetNumTranslations(ep: *mut EndpointObject, entries: c_int) -> c_int {
    // SAFETY: C1.
    let found = unsafe { endpoint(ep) };
    code(found.and_then(|(bundle, id)| bundle.set_translations(id, index(entries)?)))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_MaxNumTranslations(entries: *mut c_int) -> c_int {
    // SAFETY: C1.
    unsafe { put(entries, Ok(TRANSLATIONS_MAX as c_int)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_SetExpectedResources(ep: *mut EndpointObject, _endpoints: c_int, outstanding: c_int) -> c_int {
    // SAFETY: C1.
    let found = unsafe { endpoint(ep) };
    code(found.and_then(|(bundle, id)| bundle.set_credits(id, index(outstanding)?.clamp(1, CREDITS_MAX))))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetNumHandlers(ep: *mut EndpointObject, handlers: *mut c_int) -> c_int {
    // SAFETY: C1.
    unsafe { put(handlers, endpoint(ep).map(|_| HANDLERS as c_int)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_SetNumHandlers(ep: *mut EndpointObject, handlers: c_int) -> c_int {
    // SAFETY: C1.
    match unsafe { endpoint(ep) } {
        Err(_) => BAD_ARG,
        Ok(_) if handlers < 1 => BAD_ARG,
        Ok(_) if handlers > HANDLERS as c_int => RESOURCE,
        Ok(_) => OK,
    }
}

/// What an entry means. A free one: [`Error::Resource`].
///
/// # Safety
/// C1.
unsafe fn translation(ep: *mut EndpointObject, entry: c_int) -> Result<(EndpointName, u64), Error> {
    // SAFETY: the caller's.
    let (bundle, id) = unsafe { endpoint(ep) }?;
    bundle.translation(id, index(entry)?)?.ok_or(Error::Resource)
}
