// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's objects: one device, the bundles on it, their endpoints, memory. C has raw
//! pointers to bundles and endpoints, which are boxes that the library owns.
//!
//! Invariants
//! - B1: a bundle's box is in `Library::bundles`, and an endpoint's in `Library::endpoints`, from
//!   its allocation until it is freed.
//! - B2: an endpoint's bundle lives as long as the endpoint: freeing a bundle frees its endpoints
//!   first.

use crate::carrier::{Carrier, On};
use crate::types::{NOT_INIT, OK, RESOURCE};
use bellwire_am::{Bundle, Device, EndpointId, Error, Region};
use bellwire_amvia::from_env;
use bellwire_memory::atomic::{AtomicPtr, AtomicU32, Ordering};
use bellwire_trace::call as trace;
use bellwire_via::nic::NicConfig;
use core::ffi::{CStr, c_int, c_void};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an `eb_t` points to.
pub struct BundleObject {
    /// Shared with the process's team, if it is the team's.
    pub(crate) bundle: Carrier,
}

/// What an `ep_t` points to. It names the endpoint's place, which changes when it moves.
pub struct EndpointObject {
    bundle: AtomicPtr<BundleObject>,
    id: AtomicU32,
}

impl EndpointObject {
    pub(crate) fn new(bundle: *mut BundleObject, id: EndpointId) -> Self {
        Self { bundle: AtomicPtr::new(bundle), id: AtomicU32::new(id.raw()) }
    }

    #[inline]
    pub(crate) fn bundle_at(&self) -> *mut BundleObject {
        // Relaxed: a program that moves an endpoint while it uses it orders that itself.
        self.bundle.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn id(&self) -> EndpointId {
        // Relaxed: as in bundle_at().
        EndpointId::from_raw(self.id.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, bundle: *mut BundleObject, id: EndpointId) {
        // Relaxed: as in bundle_at().
        self.bundle.store(bundle, Ordering::Relaxed);
        // Relaxed: as in bundle_at().
        self.id.store(id.raw(), Ordering::Relaxed);
    }
}

/// All of it.
#[derive(Default)]
pub(crate) struct Library {
    inits: u32,
    /// Bellwire's own layer; a mapping on libvipl, which bundles are on if it is there.
    pub(crate) native: Option<Arc<Device>>,
    pub(crate) vi: Option<Arc<bellwire_amvia::Device>>,
    pub(crate) bundles: BTreeSet<usize>,
    pub(crate) endpoints: BTreeSet<usize>,
    pub(crate) regions: BTreeMap<usize, Memory>,
}

static LIBRARY: Mutex<Option<Library>> = Mutex::new(None);

/// The library, if it is initialised.
pub(crate) fn library() -> Result<Guard, c_int> {
    let guard = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.is_some() { Ok(Guard(guard)) } else { Err(NOT_INIT) }
}

/// The library, locked.
pub(crate) struct Guard(MutexGuard<'static, Option<Library>>);

impl core::ops::Deref for Guard {
    type Target = Library;
    fn deref(&self) -> &Library {
        self.0.as_ref().expect("looked at by library()")
    }
}

impl core::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Library {
        self.0.as_mut().expect("looked at by library()")
    }
}

/// The endpoint behind a pointer: its bundle, and its id there.
///
/// # Safety
/// C1; with B2 the bundle lives as long as the endpoint.
#[inline]
pub(crate) unsafe fn endpoint<'e>(ep: *mut EndpointObject) -> Result<(&'e Carrier, EndpointId), Error> {
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
pub(crate) unsafe fn bundle<'e>(eb: *mut BundleObject) -> Result<&'e Carrier, Error> {
    // SAFETY: the caller's.
    unsafe { eb.as_ref() }.map(|b| &b.bundle).ok_or(Error::BadArgument)
}

/// An index or a count, which is not negative.
pub(crate) fn index(value: c_int) -> Result<u32, Error> {
    u32::try_from(value).map_err(|_| Error::BadArgument)
}

/// Opens Bellwire's own layer, unless it is open.
pub(crate) fn open_native(library: &mut Library) -> Result<(), String> {
    if library.native.is_none() {
        let config = NicConfig::from_env().map_err(|e| e.to_string())?;
        library.native = Some(Device::open(config).map_err(|e| e.to_string())?);
    }
    Ok(())
}

/// Opens what the environment asks for, with `native` for Bellwire's own layer.
pub(crate) fn open<E: From<String>>(library: &mut Library, native: impl FnOnce(&mut Library) -> Result<(), E>) -> Result<(), E> {
    match from_env()? {
        None => native(library),
        Some(_) if library.vi.is_some() => Ok(()),
        Some((mapping, credits)) => {
            library.vi = Some(bellwire_amvia::Device::open(mapping, credits, own_file().as_deref())?);
            Ok(())
        }
    }
}

/// The file of this library, beside which libvipl may be.
fn own_file() -> Option<PathBuf> {
    // SAFETY: pointers may be NULL.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    let of: extern "C" fn() -> c_int = AM_Init;
    // SAFETY: an address of this library, and a place for what is known of it.
    if unsafe { libc::dladdr(of as *const c_void, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's string, which stays as long as this library does.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Initialises the library once more, with what `open` opens in it.
pub(crate) fn init<E>(open: impl FnOnce(&mut Library) -> Result<(), E>) -> Result<Guard, E> {
    let mut guard = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut library = guard.take().unwrap_or_default();
    let opened = open(&mut library);
    if opened.is_ok() {
        library.inits += 1;
    }
    if library.inits > 0 {
        *guard = Some(library);
    }
    opened.map(|()| Guard(guard))
}

/// Memory of `AMX_Alloc`, freed when this goes.
pub(crate) enum Memory {
    Native { _region: Arc<Region> },
    Vi { _region: bellwire_amvia::Region },
}

impl Library {
    /// A bundle on the device that there is.
    pub(crate) fn create_bundle(&self) -> Result<Carrier, Error> {
        match (&self.vi, &self.native) {
            (Some(device), _) => Ok(On::Vi(Arc::new(bellwire_amvia::Bundle::new(device)?)).into()),
            (None, Some(device)) => Ok(On::Native(Arc::new(Bundle::new(device)?)).into()),
            (None, None) => Err(Error::Resource),
        }
    }

    /// Memory that peers can reach directly.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<*mut c_void, Error> {
        let (at, memory) = match (&self.vi, &self.native) {
            (Some(device), _) => {
                let region = device.allocate(bytes)?;
                (region.as_ptr(), Memory::Vi { _region: region })
            }
            (None, Some(device)) => {
                let region = device.allocate(bytes)?;
                (region.as_ptr(), Memory::Native { _region: region })
            }
            (None, None) => return Err(Error::Resource),
        };
        self.regions.insert(at.addr(), memory);
        Ok(at.cast())
    }

    /// A bundle for C.
    pub(crate) fn add_bundle(&mut self, bundle: Carrier) -> *mut BundleObject {
        let at = Box::into_raw(Box::new(BundleObject { bundle }));
        self.bundles.insert(at.expose_provenance());
        at
    }

    /// An endpoint for C.
    pub(crate) fn add_endpoint(&mut self, bundle: *mut BundleObject, id: EndpointId) -> *mut EndpointObject {
        let at = Box::into_raw(Box::new(EndpointObject::new(bundle, id)));
        self.endpoints.insert(at.expose_provenance());
        at
    }
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AM_Init() -> c_int {
    trace::call("AM_Init", [0; 2], || {
        match init(|library| open(library, open_native)) {
            Ok(_) => OK,
            Err(why) => {
                // One write: two processes of a terminal that fail at a time would mix their
                // pieces.
                let line = format!("bellwire: AM_Init: {why}\n");
                eprint!("{line}");
                RESOURCE
            }
        }
    })
}

/// See am.h.
#[unsafe(no_mangle)]
pub extern "C" fn AM_Terminate() -> c_int {
    trace::call("AM_Terminate", [0; 2], || {
        let mut guard = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(library) = &mut *guard else { return NOT_INIT };
        library.inits -= 1;
        if library.inits != 0 {
            return OK;
        }
        let ended = guard.take();
        drop(guard);
        if let Some(library) = ended {
            for at in library.endpoints {
                // SAFETY: B1.
                drop(unsafe { Box::from_raw(core::ptr::with_exposed_provenance_mut::<EndpointObject>(at)) });
            }
            for at in library.bundles {
                // SAFETY: B1.
                drop(unsafe { Box::from_raw(core::ptr::with_exposed_provenance_mut::<BundleObject>(at)) });
            }
        }
        OK
    })
}
