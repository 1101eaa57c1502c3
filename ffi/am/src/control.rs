// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles, endpoints, segments, tags, memory.

use crate::objects::{BundleObject, EndpointObject, bundle, endpoint, library};
use crate::types::{BAD_ARG, EndpointName, IN_USE, OK, code, put};
use bellwire_am::Error;
use bellwire_trace::call as trace;
use core::ffi::{c_int, c_void};

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_AllocateBundle(kind: c_int, eb: *mut *mut BundleObject) -> c_int {
    trace::call("AM_AllocateBundle", [kind as u64, 0], || {
        if !(0..=1).contains(&kind) || eb.is_null() {
            return BAD_ARG;
        }
        let mut library = match library() {
            Ok(library) => library,
            Err(code) => return code,
        };
        let made = library.create_bundle().map(|bundle| library.add_bundle(bundle));
        // SAFETY: C1.
        unsafe { put(eb, made) }
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_FreeBundle(eb: *mut BundleObject) -> c_int {
    trace::call("AM_FreeBundle", [eb.addr() as u64, 0], || {
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
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_AllocateEndpoint(eb: *mut BundleObject, ep: *mut *mut EndpointObject, name: *mut EndpointName) -> c_int {
    trace::call("AM_AllocateEndpoint", [eb.addr() as u64, 0], || {
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
                let at = library.add_endpoint(eb, id);
                // SAFETY: C1.
                unsafe {
                    ep.write(at);
                    name.write(named);
                }
                OK
            }
        }
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_FreeEndpoint(ep: *mut EndpointObject) -> c_int {
    trace::call("AM_FreeEndpoint", [ep.addr() as u64, 0], || {
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
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_MoveEndpoint(ep: *mut EndpointObject, from: *mut BundleObject, to: *mut BundleObject) -> c_int {
    trace::call("AM_MoveEndpoint", [ep.addr() as u64, to.addr() as u64], || {
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
    })
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_SetSeg(ep: *mut EndpointObject, address: *mut c_void, nbytes: usize) -> c_int {
    trace::call("AM_SetSeg", [address.addr() as u64, nbytes as u64], || {
        // SAFETY: C1.
        let found = unsafe { endpoint(ep) };
        code(found.and_then(|(bundle, id)| {
            // SAFETY: C1: the header asks for memory that stays.
            unsafe { bundle.set_segment(id, address.cast(), nbytes) }
        }))
    })
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
    trace::call("AM_SetTag", [ep.addr() as u64, tag], || {
        // SAFETY: C1.
        code(unsafe { endpoint(ep) }.and_then(|(bundle, id)| bundle.set_tag(id, tag)))
    })
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
pub unsafe extern "C" fn AMX_Alloc(nbytes: usize, address: *mut *mut c_void) -> c_int {
    if address.is_null() {
        return BAD_ARG;
    }
    let mut library = match library() {
        Ok(library) => library,
        Err(code) => return code,
    };
    let at = library.allocate(nbytes);
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
