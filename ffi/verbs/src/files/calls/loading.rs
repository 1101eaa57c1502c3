// SPDX-License-Identifier: MIT OR Apache-2.0
//! `dlopen`: a program that loads a libibverbs while it runs, by any name, gets this library.
//!
//! The C library takes the search path of the caller, which it knows by the address that the call
//! returns to. So the call goes on by a jump, not by another call.

use crate::files::real;
use bellwire_memory::atomic::{AtomicPtr, Ordering};
use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The C library's `dlopen`; set before it is jumped to.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Where this library is. `None`: it is part of the program.
fn own_path() -> Option<&'static CStr> {
    static PATH: OnceLock<Option<std::ffi::CString>> = OnceLock::new();
    let find = || {
        // SAFETY: numbers and pointers only, for which zero is one.
        let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: an address of this library; the loader's text stays, since the library does.
        unsafe {
            let found = libc::dladdr(own_path as *const c_void, &raw mut info) != 0 && !info.dli_fname.is_null();
            found.then(|| CStr::from_ptr(info.dli_fname).to_owned())
        }
    };
    PATH.get_or_init(|| find().filter(|path| is_library(path.to_bytes()))).as_deref()
}

fn is_library(path: &[u8]) -> bool {
    path.windows(3).any(|w| w == b".so")
}

/// Whether a name is one of libibverbs: `libibverbs.so.1`, `/opt/x/libibverbs-1de1263b.so.1.14`.
fn is_verbs(name: &[u8]) -> bool {
    let base = name.rsplit(|b| *b == b'/').next().unwrap_or(name);
    base.starts_with(b"libibverbs") && is_library(base)
}

/// The name to load in the place of another.
///
/// # Safety
/// F1: NULL, or a text that ends.
unsafe extern "C" fn choose(name: *const c_char) -> *const c_char {
    // Relaxed: the pointer to code is the same for every thread.
    if REAL.load(Ordering::Relaxed).is_null() {
        real::find(&REAL, c"dlopen");
    }
    // SAFETY: F1.
    if name.is_null() || !is_verbs(unsafe { CStr::from_ptr(name) }.to_bytes()) {
        return name;
    }
    own_path().map_or(name, CStr::as_ptr)
}

/// Loads a library.
///
/// # Safety
/// F1.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {choose}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "mov rdi, rax",
        "jmp qword ptr [rip + {real}]",
        choose = sym choose,
        real = sym REAL,
    )
}

/// Loads a library.
///
/// # Safety
/// F1.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[cfg(target_arch = "aarch64")]
pub unsafe extern "C" fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "str x1, [sp, #16]",
        "bl {choose}",
        "ldr x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16",
        choose = sym choose,
        real = sym REAL,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_libibverbs() {
        for name in ["libibverbs.so", "libibverbs.so.1", "/usr/lib/libibverbs.so.1.14.44.0", "x/libibverbs-1de1263b.so.1"] {
            assert!(is_verbs(name.as_bytes()), "{name}");
        }
        for name in ["librdmacm.so.1", "libibverbs.conf", "/libibverbs.so/libm.so", "libmlx5.so", ""] {
            assert!(!is_verbs(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn other_libraries_are_loaded_as_ever() {
        // SAFETY: names that end.
        unsafe {
            assert!(!dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW).is_null());
            assert!(dlopen(c"libnonexistent.so".as_ptr(), libc::RTLD_NOW).is_null());
        }
    }
}
