// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs without `unsafe` that would corrupt memory, and did when they compiled. Each is tried
//! twice: it must not compile, and within `unsafe` it must, so nothing else is wrong with it.

macro_rules! needs_unsafe {
    ($(#[$what:meta])* $name:ident: $before:literal, $call:literal) => {
        $(#[$what])*
        #[doc = concat!("```compile_fail,E0133\n", $before, "let _ = ", $call, ";\n```")]
        #[doc = concat!("```no_run\n", $before, "// SAFETY: never run.\nlet _ = unsafe { ", $call, " };\n```")]
        struct $name;
    };
}

needs_unsafe! {
    /// A message could overwrite what nobody may change.
    Register:
    "let nic = bellwire_via::Nic::open(Default::default()).unwrap();
     let constant = Box::new([7u64; 8]);
     let address = std::ptr::from_ref(&*constant) as u64;
     ",
    "nic.with(|engine| engine.register(address, 64, &Default::default()))"
}
