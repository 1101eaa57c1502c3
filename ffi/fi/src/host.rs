// SPDX-License-Identifier: MIT OR Apache-2.0
//! The libfabric that has loaded us, and how it gets to know us.
//!
//! A provider must say a version at least as new as its host's, or is skipped; so ours says the
//! host's own. The host may be in a scope that we do not see (a wheel's copy, loaded by a
//! language's runtime): then it is looked for among the libraries that are loaded.

use crate::abi::Fid;
use crate::attributes::{FabricAttr, Info};
use crate::limits::{NAME, VERSION};
use core::ffi::{CStr, c_char, c_int, c_void};

/// `struct fi_provider`.
#[repr(C)]
pub(crate) struct Provider {
    pub version: u32,
    pub fi_version: u32,
    /// The host's.
    pub context: [*mut c_void; 4],
    pub name: *const c_char,
    pub getinfo: unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int,
    pub fabric: unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fid, *mut c_void) -> c_int,
    pub cleanup: extern "C" fn(),
}

/// The oldest interface that we speak, and what we say where the host cannot be asked.
const OLDEST: u32 = 1 << 16 | 5;
const USUAL: u32 = 2 << 16 | 5;

extern "C" fn cleanup() {}

/// Asks a library, or all that can be seen from here (NULL), for its `fi_version`.
fn version_in(library: *mut c_void) -> Option<u32> {
    // SAFETY: a handle of `dlopen`, or RTLD_DEFAULT, which is NULL.
    let at = unsafe { libc::dlsym(library, c"fi_version".as_ptr()) };
    // SAFETY: libfabric's function of that name has this type.
    (!at.is_null()).then(|| unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(at)() })
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, newest: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` gives information that is not NULL, and the argument that
    // `host_version` gave it: its `newest`.
    let (name, newest) = unsafe { ((*info).dlpi_name, &mut *newest.cast::<u32>()) };
    // SAFETY: a name that is not NULL is a string.
    let is_it = !name.is_null() && unsafe { CStr::from_ptr(name) }.to_bytes().windows(9).any(|part| part == b"libfabric");
    if is_it {
        // SAFETY: a string; nothing is loaded that is not there already.
        let library = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !library.is_null() {
            *newest = (*newest).max(version_in(library).unwrap_or(0));
            // SAFETY: opened just above.
            unsafe { libc::dlclose(library) };
        }
    }
    0
}

fn host_version() -> u32 {
    let mut newest = version_in(core::ptr::null_mut()).unwrap_or(0);
    // SAFETY: the callback is of that type, and `newest` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut newest).cast()) };
    if newest < OLDEST { USUAL } else { newest }
}

/// The entry point: called once, when libfabric loads us. The structure is the host's from then on.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut c_void {
    let provider = Provider {
        version: VERSION,
        fi_version: host_version(),
        context: [core::ptr::null_mut(); 4],
        name: NAME.as_ptr(),
        getinfo: crate::info::getinfo,
        fabric: crate::fabric::open,
        cleanup,
    };
    Box::into_raw(Box::new(provider)).cast()
}
