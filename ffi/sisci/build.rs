// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the shared library its versioned name: programs are bound to ABI level 1, not to a file of
//! the build directory.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsisci.so.1");
}
