// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs without `unsafe` that would corrupt memory, and did when they compiled. Each is tried
//! twice: it must not compile, and within `unsafe` it must, so nothing else is wrong with it.

macro_rules! needs_unsafe {
    ($(#[$what:meta])* $name:ident: $before:literal, $call:literal) => {
        $(#[$what])*
        #[doc = concat!("```compile_fail,E0133\nuse bellwire_verbs::*;\n", $before, "let _ = ", $call, ";\n```")]
        #[doc = concat!("```no_run\nuse bellwire_verbs::*;\n", $before, "// SAFETY: never run.\nlet _ = unsafe { ", $call, " };\n```")]
        struct $name;
    };
}

needs_unsafe! {
    /// A peer could overwrite what nobody may change.
    Register:
    "let port = Port::open(Default::default(), None).unwrap();
     let constant = Box::new([7u64; 8]);
     let address = std::ptr::from_ref(&*constant) as u64;
     let region = Region { domain: port.create_domain().unwrap(), address, length: 64, iova: 0, access: Access::all(), adopted: None };
     ",
    "port.register(&region)"
}

needs_unsafe! {
    /// The call could read where nothing is.
    PostInline:
    "let port = Port::open(Default::default(), None).unwrap();
     let pieces = [Sge { address: 64, length: 8, key: 0 }];
     let (flags, to) = (SendFlags::INLINE, None);
     let request = SendRequest { wr_id: 1, opcode: Opcode::Send, flags, pieces: &pieces, immediate: 0, address: 0, key: 0, operands: [0; 2], extra: Extra::None, to };
     ",
    "port.post_send(1, &request)"
}

needs_unsafe! {
    /// The same by the short way.
    PostShort:
    "let port = Port::open(Default::default(), None).unwrap();
     let piece = Sge { address: 64, length: 8, key: 0 };
     let send = ShortSend { wr_id: 1, flags: SendFlags::INLINE, has_immediate: false, immediate: 0, piece };
     ",
    "port.post_short(1, &send)"
}

needs_unsafe! {
    /// The same for a write.
    AccessShort:
    "let port = Port::open(Default::default(), None).unwrap();
     let piece = Sge { address: 64, length: 8, key: 0 };
     let access = ShortAccess { wr_id: 1, flags: SendFlags::INLINE, reads: false, address: 0, key: 0, piece };
     ",
    "port.access_short(1, &access)"
}
