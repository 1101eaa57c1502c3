// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs without `unsafe` that would corrupt memory. Each is tried twice: it must not compile,
//! and within `unsafe` it must, so nothing else is wrong with it.

macro_rules! needs_unsafe {
    ($(#[$what:meta])* $name:ident: $call:literal) => {
        $(#[$what])*
        #[doc = concat!("```compile_fail,E0133\nfn f(process: &bellwire_gas::Process, place: u64) {\n    let _ = ", $call, ";\n}\n```")]
        #[doc = concat!("```no_run\nfn f(process: &bellwire_gas::Process, place: u64) {\n    // SAFETY: never run.\n    let _ = unsafe { ", $call, " };\n}\n```")]
        struct $name;
    };
}

needs_unsafe! {
    /// Statics can be named, those that nobody may change too.
    Fill: "process.fill(place, 0, 64)"
}

needs_unsafe! {
    /// The same of a word.
    Change: "process.atomic(place, bellwire_gas::Atomic::Add, 8, 1, 0)"
}

needs_unsafe! {
    /// A function is called on any place.
    Call: "process.call(place, 0, 0)"
}
