// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface of PMIx, as far as it is used: types and numbers declared by hand from
//! `pmix_common.h` and `pmix.h` of PMIx 4.2.2, which are the same in 2.x to 5.x (the standard fixes
//! them: libraries of all these versions are `libpmix.so.2`). `tests/job/pmix_layout.c` compares
//! them with an installed header.
//!
//! Invariant X1: the functions have the types given here. The library stays loaded until the
//! process ends, for it has threads of its own.

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::error::Error;

pub(super) const SUCCESS: c_int = 0;
/// Done at once; the callback will not be called.
pub(super) const OPERATION_SUCCEEDED: c_int = -157;
pub(super) const ERR_NOT_FOUND: c_int = -46;
pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
/// Scope: local and remote processes.
pub(super) const GLOBAL: u8 = 3;

pub(super) const TYPE_BOOL: u16 = 1;
pub(super) const TYPE_UINT16: u16 = 13;
pub(super) const TYPE_UINT32: u16 = 14;
pub(super) const TYPE_BYTE_OBJECT: u16 = 27;

/// `pmix_proc_t`.
#[derive(Clone)]
#[repr(C)]
pub(super) struct Proc {
    pub nspace: [u8; 256],
    pub rank: u32,
}

/// `pmix_byte_object_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ByteObject {
    pub bytes: *mut c_char,
    pub size: usize,
}

/// The union of `pmix_value_t`: the members that are used, and the size of the largest
/// (`pmix_envar_t`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Data {
    pub flag: bool,
    pub uint16: u16,
    pub uint32: u32,
    pub object: ByteObject,
    pub whole: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
pub(super) struct Value {
    pub kind: u16,
    pub data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
pub(super) struct Info {
    pub key: [u8; 512],
    pub flags: u32,
    pub value: Value,
}

const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);

impl Info {
    /// A directive that is on.
    pub(super) fn on(key: &CStr) -> Self {
        let mut info = Self { key: [0; 512], flags: 0, value: Value { kind: TYPE_BOOL, data: Data { whole: [0; 3] } } };
        info.key[..key.to_bytes().len()].copy_from_slice(key.to_bytes());
        info.value.data.flag = true;
        info
    }
}

pub(super) type OpCallback = unsafe extern "C" fn(status: c_int, data: *mut c_void);

/// The functions of the library.
#[derive(Debug)]
pub(crate) struct Api {
    pub(super) init: unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int,
    pub(super) finalize: unsafe extern "C" fn(*const Info, usize) -> c_int,
    pub(super) abort: unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int,
    pub(super) put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int,
    pub(super) commit: unsafe extern "C" fn() -> c_int,
    pub(super) fence: unsafe extern "C" fn(*const Proc, usize, *const Info, usize, OpCallback, *mut c_void) -> c_int,
    pub(super) get: unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int,
    pub(super) error: unsafe extern "C" fn(c_int) -> *const c_char,
    /// Frees what a value holds; a macro of the header before 4.2.
    pub(super) destruct: Option<unsafe extern "C" fn(*mut Value)>,
}

impl Api {
    /// Loads the library: `BELLWIRE_PMIX_LIBRARY`, or `libpmix.so.2` wherever the dynamic linker
    /// finds it.
    pub(super) fn load() -> Result<Self, Error> {
        let name = std::env::var_os("BELLWIRE_PMIX_LIBRARY").filter(|name| !name.is_empty()).unwrap_or_else(|| "libpmix.so.2".into());
        let missing = |error: libloading::Error| {
            Error::Environment(format!(
                "the launcher speaks PMIx, for which {} is needed: {error}. Install it (Debian: libpmix2), or name the launcher's own in BELLWIRE_PMIX_LIBRARY",
                name.display()
            ))
        };
        // Global: its plugins look for its symbols.
        // SAFETY: its initialisers are those of a library that the user or the system chose; X1.
        let library = unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_GLOBAL) }.map_err(missing)?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: X1.
                *unsafe { library.get($name) }.map_err(missing)?
            };
        }
        let api = Self {
            init: symbol!(b"PMIx_Init\0"),
            finalize: symbol!(b"PMIx_Finalize\0"),
            abort: symbol!(b"PMIx_Abort\0"),
            put: symbol!(b"PMIx_Put\0"),
            commit: symbol!(b"PMIx_Commit\0"),
            fence: symbol!(b"PMIx_Fence_nb\0"),
            get: symbol!(b"PMIx_Get\0"),
            error: symbol!(b"PMIx_Error_string\0"),
            // SAFETY: X1.
            destruct: unsafe { library.get(b"PMIx_Value_destruct\0") }.ok().map(|symbol| *symbol),
        };
        std::mem::forget(library);
        Ok(api)
    }

    /// A failure of a call, in the library's words.
    pub(super) fn failure(&self, what: &str, status: c_int) -> Error {
        // SAFETY: X1.
        let text = unsafe { (self.error)(status) };
        let why = if text.is_null() {
            format!("PMIx status {status}")
        } else {
            // SAFETY: X1: not NULL is a string that lives as long as the library.
            format!("{} ({status})", unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        Error::Refused { what: what.to_owned(), why }
    }

    /// Asks that the job end.
    pub(crate) fn abort(&self, code: i32) {
        // SAFETY: X1: the text is a string; no processes named means all.
        unsafe { (self.abort)(code, c"the program ended the job".as_ptr(), std::ptr::null_mut(), 0) };
    }
}
