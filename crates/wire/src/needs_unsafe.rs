// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs without `unsafe` that would read freed memory or write memory of others, and did when
//! they compiled. Each is tried twice: it must not compile, and within `unsafe` it must, so nothing
//! else is wrong with it.

macro_rules! needs_unsafe {
    ($(#[$what:meta])* $name:ident: $before:literal, $call:literal) => {
        $(#[$what])*
        #[doc = concat!("```compile_fail,E0133\nuse bellwire_wire::*;\n", $before, "let _ = ", $call, ";\n```")]
        #[doc = concat!("```no_run\nuse bellwire_wire::*;\n", $before, "// SAFETY: never run.\nlet _ = unsafe { ", $call, " };\n```")]
        struct $name;
    };
}

needs_unsafe! {
    /// The frame could be read when the wire is gone.
    Receive:
    "let mut wire = sim::SimNetwork::new(Default::default()).attach(&[1]);
     let link = LinkId::from_raw(1);
     ",
    "wire.receive(link)"
}

needs_unsafe! {
    /// The same by the short way.
    PeekLine:
    "let mut wire = sim::SimNetwork::new(Default::default()).attach(&[1]);
     let link = LinkId::from_raw(1);
     ",
    "wire.peek_line(link, 1)"
}

needs_unsafe! {
    /// The peer's bytes could be written to any place.
    PullGranted:
    "let mut wire = sim::SimNetwork::new(Default::default()).attach(&[1]);
     let link = LinkId::from_raw(1);
     let wish = RemoteAccess { handle: 1, ptag: 1, address: 0, length: 8, write: false, part_offset: 0, part_length: 8 };
     ",
    "wire.pull_granted(link, &wish, |copy| copy(0, std::ptr::dangling_mut(), 8))"
}

macro_rules! is_checked {
    ($(#[$what:meta])* $name:ident: $error:literal, $wrong:literal, $right:literal) => {
        $(#[$what])*
        #[doc = concat!("```compile_fail,", $error, "\nuse bellwire_wire::*;\n", $wrong, "\n```")]
        #[doc = concat!("```no_run\nuse bellwire_wire::*;\n", $right, "\n```")]
        struct $name;
    };
}

is_checked! {
    /// A closure that is shown a frame could keep it.
    KeepFrame: "E0507",
    "fn f(wire: &mut shm::ShmWire, link: LinkId) -> Option<Frame> {
         wire.take::<false, _>(link, 1, |frame| Some(*frame))
     }",
    "fn f(wire: &mut shm::ShmWire, link: LinkId) -> Option<u64> {
         wire.take::<false, _>(link, 1, |frame| Some(frame.word(1)))
     }"
}

is_checked! {
    /// Bytes that move with their value: a frame would point at where they were.
    MovingBuffer: "E0277",
    "struct Moving([u8; 64]);
     impl AsRef<[u8]> for Moving {
         fn as_ref(&self) -> &[u8] {
             &self.0
         }
     }
     fn buffer<B: packet::StableBytes>(_: B) {}
     buffer(Moving([0; 64]));",
    "fn buffer<B: packet::StableBytes>(_: B) {}
     buffer(vec![0; 64]);"
}
