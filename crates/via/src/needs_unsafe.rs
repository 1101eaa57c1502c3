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

needs_unsafe! {
    /// What the engine was given would be freed, and read by its safe calls.
    ReplaceWire:
    "use bellwire_via::wire::sim::SimNetwork;
     let network = SimNetwork::new(Default::default());
     let mut engine = bellwire_via::Engine::new(network.attach(&[1]), 1);
     let at = engine.allocate(4096).unwrap();
     let other = network.attach(&[2]);
     ",
    "std::mem::replace(engine.wire_mut(), other)"
}

macro_rules! liar {
    ($how:literal, $unsafe:literal) => {
        concat!(
            "```",
            $how,
            "
use bellwire_memory::line_queue::Line;
use bellwire_via::wire::*;
use bellwire_via::{Engine, NetAddress};

struct Liar(*mut u8);

",
            $unsafe,
            "impl DirectMemory for Liar {}

",
            $unsafe,
            "impl Wire for Liar {
    fn name(&self) -> &'static str { \"liar\" }
    fn host_address(&self) -> &[u8] { &[] }
    fn payload_bytes_max(&self, _: LinkId) -> usize { 256 }
    fn send(&mut self, _: LinkId, _: &mut Line, _: usize) -> Sent { Sent::Broken }
    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, _: LinkId, _: &mut Line, _: usize, _: F) -> Sent { Sent::Broken }
    unsafe fn receive(&mut self, _: LinkId) -> Received { Received::Empty }
    fn consume(&mut self, _: LinkId) {}
    fn has_events(&self) -> bool { false }
    fn allocate(&mut self, _: usize) -> Option<Allocation> { Some(Allocation { base: self.0, length: 4096, segment: 1 }) }
    fn free(&mut self, _: u32) {}
    fn probe_memory(&self, _: u64, _: u64) -> MemoryKind { MemoryKind::Writable }
    fn listen(&mut self, _: &NetAddress) -> bool { true }
    fn unlisten(&mut self, _: &NetAddress) {}
    fn resolve(&mut self, _: u64, _: Rendezvous, _: &NetAddress, _: &NetAddress) {}
    fn cancel(&mut self, _: u64) {}
    fn poll_event(&mut self) -> Option<WireEvent> { None }
    fn close(&mut self, _: LinkId) {}
    fn link_info(&self, _: LinkId) -> LinkInfo { LinkInfo::default() }
}

let constant = Box::new([7u8; 4096]);
let mut engine = Engine::new(Liar(constant.as_ptr().cast_mut()), 1);
let at = engine.allocate(4096).unwrap();
engine.copy_to_allocated(at.expose_provenance() as u64, &[9; 8]).unwrap();
assert_ne!(constant[0], 7, \"an immutable box has changed\");
```"
        )
    };
}

/// A wire could give memory that is not its own.
#[doc = liar!("compile_fail,E0200", "")]
#[doc = liar!("no_run", "unsafe ")]
struct Liar;
