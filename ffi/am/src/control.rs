// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles, endpoints and their tables, events, statistics.

use crate::objects::{BundleObject, EndpointObject, library};
use crate::types::{BAD_ARG, EndpointName, IN_USE, NOT_INIT, OK, RESOURCE, code, put};
use bellwire_am::{ARGS_MAX, BULK_BYTES_MAX, Bundle, CREDITS_MAX, Counters, EndpointId, Error, HANDLERS, MEDIUM_BYTES_MAX, Name, TRANSLATIONS_MAX};
use core::ffi::{c_int, c_uint, c_void};
use std::time::Duration;

/// Messages that one AM_Poll handles at most.
const POLL_MAX: u32 = 32;

/// The endpoint behind a pointer: its bundle, and its id there.
///
/// # Safety
/// C1; with B2 the bundle lives as long as the endpoint.
#[inline]
pub(crate) unsafe fn endpoint<'e>(ep: *mut EndpointObject) -> Result<(&'e Bundle, EndpointId), Error> {
    // SAFETY: the caller's.
    let object = unsafe { ep.as_ref() }.ok_or(Error::BadArgument)?;
    // SAFETY: B2.
    let bundle = unsafe { object.bundle_at().as_ref() }.ok_or(Error::BadArgument)?;
    Ok((&bundle.bundle, object.id()))
}

/// The bundle behind a pointer.
///
/// # Safety
/// C1.
#[inline]
unsafe fn bundle<'e>(eb: *mut BundleObject) -> Result<&'e Bundle, Error> {
    // SAFETY: the caller's.
    unsafe { eb.as_ref() }.map(|b| &b.bundle).ok_or(Error::BadArgument)
}

fn index(value: c_int) -> Result<u32, Error> {
    u32::try_from(value).map_err(|_| Error::BadArgument)
}

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
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxNumHandlers() -> c_int {
    HANDLERS as c_int
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_AllocateBundle(kind: c_int, eb: *mut *mut BundleObject) -> c_int {
    if !(0..=1).contains(&kind) || eb.is_null() {
        return BAD_ARG;
    }
    let mut library = match library() {
        Ok(library) => library,
        Err(code) => return code,
    };
    let Some(device) = &library.device else { return NOT_INIT };
    let made = Bundle::new(device).map(|bundle| Box::into_raw(Box::new(BundleObject { bundle })));
    if let Ok(at) = made {
        library.bundles.insert(at.expose_provenance());
    }
    // SAFETY: C1.
    unsafe { put(eb, made) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_FreeBundle(eb: *mut BundleObject) -> c_int {
    let mut library = match library() {
        Ok(library) => library,
        Err(code) => return code,
    };
    if !library.bundles.contains(&eb.addr()) {
        return BAD_ARG;
    }
    // SAFETY: B1.
    if unsafe { &(*eb).bundle }.is_in_handler() {
        return IN_USE;
    }
    library.bundles.remove(&eb.addr());
    let of = |at: &usize| {
        let ep = core::ptr::with_exposed_provenance::<EndpointObject>(*at);
        // SAFETY: B1.
        unsafe { &*ep }.bundle_at() == eb
    };
    let endpoints: Vec<usize> = library.endpoints.iter().copied().filter(of).collect();
    for at in endpoints {
        library.endpoints.remove(&at);
        // SAFETY: B1: it was there until now.
        drop(unsafe { Box::from_raw(core::ptr::with_exposed_provenance_mut::<EndpointObject>(at)) });
    }
    drop(library);
    // SAFETY: B1: it was there until now.
    drop(unsafe { Box::from_raw(eb) });
    OK
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_AllocateEndpoint(eb: *mut BundleObject, ep: *mut *mut EndpointObject, name: *mut EndpointName) -> c_int {
    let mut library = match library() {
        Ok(library) => library,
        Err(code) => return code,
    };
    if ep.is_null() || name.is_null() {
        return BAD_ARG;
    }
    // SAFETY: C1.
    let made = unsafe { bundle(eb) }.and_then(|bundle| {
        let id = bundle.create_endpoint()?;
        Ok((id, bundle.name(id)?))
    });
    match made {
        Err(e) => code(Err(e)),
        Ok((id, named)) => {
            let at = Box::into_raw(Box::new(EndpointObject::new(eb, id)));
            library.endpoints.insert(at.expose_provenance());
            // SAFETY: C1.
            unsafe {
                ep.write(at);
                name.write(named.into());
            }
            OK
        }
    }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_FreeEndpoint(ep: *mut EndpointObject) -> c_int {
    let mut library = match library() {
        Ok(library) => library,
        Err(code) => return code,
    };
    if !library.endpoints.contains(&ep.addr()) {
        return BAD_ARG;
    }
    // SAFETY: C1.
    let freed = unsafe { endpoint(ep) }.and_then(|(bundle, id)| bundle.destroy_endpoint(id));
    if freed.is_ok() {
        library.endpoints.remove(&ep.addr());
        // SAFETY: B1: it was there until now.
        drop(unsafe { Box::from_raw(ep) });
    }
    code(freed)
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_MoveEndpoint(ep: *mut EndpointObject, from: *mut BundleObject, to: *mut BundleObject) -> c_int {
    // SAFETY: C1.
    let (found, from_bundle, to_bundle) = unsafe { (endpoint(ep), bundle(from), bundle(to)) };
    code(found.and_then(|(now, id)| {
        let (from_bundle, to_bundle) = (from_bundle?, to_bundle?);
        if !core::ptr::eq(now, from_bundle) {
            return Err(Error::BadArgument);
        }
        let moved = from_bundle.move_endpoint(id, to_bundle)?;
        // SAFETY: C1.
        unsafe { &*ep }.set(to, moved);
        Ok(())
    }))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_SetSeg(ep: *mut EndpointObject, address: *mut c_void, nbytes: usize) -> c_int {
    // SAFETY: C1.
    let found = unsafe { endpoint(ep) };
    code(found.and_then(|(bundle, id)| {
        if nbytes == 0 {
            return bundle.set_segment(id, None);
        }
        // SAFETY: C1: the header asks for memory that stays.
        unsafe { bundle.set_segment_of_program(id, address.cast(), nbytes) }
    }))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetSeg(ep: *mut EndpointObject, address: *mut *mut c_void, nbytes: *mut usize) -> c_int {
    if address.is_null() || nbytes.is_null() {
        return BAD_ARG;
    }
    // SAFETY: C1.
    let segment = unsafe { endpoint(ep) }.and_then(|(bundle, id)| bundle.segment(id));
    // SAFETY: C1.
    unsafe {
        match put(nbytes, segment.map(|s| s.map_or(0, |s| s.1))) {
            OK => put(address, segment.map(|s| s.map_or(core::ptr::null_mut(), |s| s.0.cast()))),
            bad => bad,
        }
    }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_MaxSegLength(nbytes: *mut usize) -> c_int {
    // SAFETY: C1.
    unsafe { put(nbytes, Ok(usize::MAX)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_SetTag(ep: *mut EndpointObject, tag: u64) -> c_int {
    // SAFETY: C1.
    code(unsafe { endpoint(ep) }.and_then(|(bundle, id)| bundle.set_tag(id, tag)))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetTag(ep: *mut EndpointObject, tag: *mut u64) -> c_int {
    // SAFETY: C1.
    unsafe { put(tag, endpoint(ep).and_then(|(bundle, id)| bundle.tag(id))) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_Map(ep: *mut EndpointObject, entry: c_int, name: EndpointName, tag: u64) -> c_int {
    // SAFETY: C1.
    let found = unsafe { endpoint(ep) };
    code(found.and_then(|(bundle, id)| bundle.map(id, index(entry)?, name.name().ok_or(Error::BadArgument)?, tag)))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_MapAny(ep: *mut EndpointObject, entry: *mut c_int, name: EndpointName, tag: u64) -> c_int {
    if entry.is_null() {
        return BAD_ARG;
    }
    // SAFETY: C1.
    let mapped = unsafe { endpoint(ep) }.and_then(|(bundle, id)| bundle.map_any(id, name.name().ok_or(Error::BadArgument)?, tag));
    // SAFETY: C1.
    unsafe { put(entry, mapped.map(|i| i as c_int)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_UnMap(ep: *mut EndpointObject, entry: c_int) -> c_int {
    // SAFETY: C1.
    let found = unsafe { endpoint(ep) };
    code(found.and_then(|(bundle, id)| bundle.unmap(id, index(entry)?)))
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
    unsafe { put(name, translation(ep, entry).map(|t| t.0.into())) }
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
    // SAFETY: C1.
    code(unsafe { bundle(eb) }.and_then(Bundle::wait_for_event))
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
pub unsafe extern "C" fn AMX_Alloc(nbytes: usize, address: *mut *mut c_void) -> c_int {
    if address.is_null() {
        return BAD_ARG;
    }
    let mut library = match library() {
        Ok(library) => library,
        Err(code) => return code,
    };
    let Some(device) = &library.device else { return NOT_INIT };
    let region = device.allocate(nbytes);
    let at = region.map(|region| {
        let at: *mut c_void = region.as_ptr().cast();
        library.regions.insert(at.addr(), region);
        at
    });
    // SAFETY: C1.
    unsafe { put(address, at) }
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AMX_Free(address: *mut c_void) -> c_int {
    let region = match library() {
        Ok(mut library) => library.regions.remove(&address.addr()),
        Err(code) => return code,
    };
    if region.is_some() { OK } else { BAD_ARG }
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

/// What an entry means. A free one: [`Error::Resource`].
///
/// # Safety
/// C1.
unsafe fn translation(ep: *mut EndpointObject, entry: c_int) -> Result<(Name, u64), Error> {
    // SAFETY: the caller's.
    let (bundle, id) = unsafe { endpoint(ep) }?;
    bundle.translation(id, index(entry)?)?.ok_or(Error::Resource)
}
