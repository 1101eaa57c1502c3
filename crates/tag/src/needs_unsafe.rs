// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs without `unsafe` that would corrupt memory, and did when they compiled. Each is tried
//! twice: it must not compile, and within `unsafe` it must, so nothing else is wrong with it.

macro_rules! needs_unsafe {
    ($(#[$what:meta])* $name:ident: $before:literal, $call:literal) => {
        $(#[$what])*
        #[doc = concat!("```compile_fail,E0133\nuse bellwire_tag::*;\n", $before, "let _ = ", $call, ";\n```")]
        #[doc = concat!("```no_run\nuse bellwire_tag::*;\n", $before, "// SAFETY: never run.\nlet _ = unsafe { ", $call, " };\n```")]
        struct $name;
    };
}

needs_unsafe! {
    /// A message could overwrite what nobody may change.
    GatherOne:
    "let constant = Box::new([7u8; 32]);
     let at = constant.as_ptr().cast_mut();
     ",
    "Gather::one(at, 32)"
}

needs_unsafe! {
    /// The same in pieces.
    GatherOf:
    "let constant = Box::new([7u8; 32]);
     let at = constant.as_ptr().cast_mut();
     ",
    "Gather::of([(at, 8), (at, 16)])"
}

needs_unsafe! {
    /// The same by the short ways: `SendOne` and `WantOne` are made of these.
    PieceNew:
    "let constant = Box::new([7u8; 32]);
     let at = constant.as_ptr().cast_mut();
     ",
    "Piece::new(at, 32)"
}

needs_unsafe! {
    /// A peer could overwrite what nobody may change.
    Insert:
    "let constant = Box::new([7u8; 32]);
     let region = Region { start: constant.as_ptr() as usize, length: 32, base: 0, access: Access::all() };
     let regions = SharedRegions::default();
     ",
    "regions.lock().insert(1, region)"
}
