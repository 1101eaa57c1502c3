// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wire with one link, whose other end is the fuzzer.

use bellwire_memory::line_queue::Line;
use bellwire_via::frame::Head;
use bellwire_via::handle::Handle;
use bellwire_via::wire::{Allocation, DirectMemory, Frame, LinkId, LinkInfo, MapAccess, MemoryKind, Received, Rendezvous, Sent, Wire, WireEvent};
use bellwire_via::{Engine, NetAddress};
use std::collections::VecDeque;

/// Payload of the longest frame.
const PAYLOAD_MAX: usize = 1024;

/// A frame of the peer's.
pub struct Incoming {
    pub words: Box<[u64; 8]>,
    pub payload: Vec<u8>,
}

/// See the module.
pub struct Scripted {
    pub incoming: VecDeque<Incoming>,
    pub events: VecDeque<WireEvent>,
    /// Frames that find room before the link is full.
    pub room: u32,
    pub broken: bool,
    /// The payload last sent.
    pub sent: Vec<u8>,
    pub taken: bool,
    pub resolves: bool,
    scratch: Vec<u8>,
}

/// The link.
pub fn link() -> LinkId {
    Handle::from_raw(1 << 20 | 1)
}

impl Scripted {
    /// A link that is up.
    pub fn new() -> Self {
        let events = VecDeque::from([WireEvent::LinkUp { link: link(), request: None }]);
        Self { incoming: VecDeque::new(), events, room: u32::MAX, broken: false, sent: Vec::new(), taken: true, resolves: true, scratch: vec![0; 65_536] }
    }

    fn leave(&mut self) -> Sent {
        match (self.broken, self.room) {
            (true, _) => Sent::Broken,
            (_, 0) => Sent::NoRoom,
            _ => {
                self.room -= 1;
                Sent::Yes
            }
        }
    }
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}

/// The engine's wire.
pub fn wire(engine: &mut Engine<Scripted>) -> &mut Scripted {
    // SAFETY: E1: the fuzz targets change what the wire says next; nothing was allocated or kept.
    unsafe { engine.wire_mut() }
}

// SAFETY: W1: it has no memory to give. W2: the scratch is longer than any payload. W3: a frame
// stays in the queue, its words and payload in allocations of their own, until it is consumed or
// its link is closed. W4: nothing is kept.
unsafe impl Wire for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }
    fn host_address(&self) -> &[u8] {
        &[127, 0, 0, 1]
    }
    fn payload_bytes_max(&self, _link: LinkId) -> usize {
        PAYLOAD_MAX
    }
    fn send(&mut self, _: LinkId, _: &mut Line, _: usize) -> Sent {
        self.leave()
    }
    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, _: LinkId, _: &mut Line, length: usize, fill: F) -> Sent {
        let sent = self.leave();
        if sent == Sent::Yes {
            assert!(length <= PAYLOAD_MAX);
            if !fill(self.scratch.as_mut_ptr()) {
                return Sent::Unfilled;
            }
            self.sent = self.scratch[..length].to_vec();
        }
        sent
    }
    unsafe fn receive(&mut self, _: LinkId) -> Received {
        match self.incoming.front() {
            _ if self.broken => Received::Broken,
            None => Received::Empty,
            // SAFETY: F1: as W3 says; F2 is the caller's.
            Some(f) => Received::Frame(unsafe {
                let bulk = Head(f.words[0]).is_bulk();
                Frame::new(f.words[0], f.words.as_ptr(), f.payload.as_ptr(), if bulk { f.payload.len() } else { 0 })
            }),
        }
    }
    fn consume(&mut self, _: LinkId) {
        self.incoming.pop_front();
    }
    fn sent_mark(&self, _: LinkId) -> u32 {
        0
    }
    fn is_taken(&mut self, _: LinkId, _: u32) -> bool {
        self.taken
    }
    fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
    fn allocate(&mut self, _: usize) -> Option<Allocation> {
        None
    }
    fn free(&mut self, _: u32) {}
    fn probe_memory(&self, _: u64, _: u64) -> MemoryKind {
        MemoryKind::Writable
    }
    fn listen(&mut self, _: &NetAddress) -> bool {
        true
    }
    fn unlisten(&mut self, _: &NetAddress) {}
    fn resolve(&mut self, request: u64, _: Rendezvous, _: &NetAddress, _: &NetAddress) {
        let reason = bellwire_via::wire::LinkFailure::NobodyThere;
        let event = if self.resolves { WireEvent::LinkUp { link: link(), request: Some(request) } } else { WireEvent::Unresolved { request, reason } };
        self.events.push_back(event);
    }
    fn cancel(&mut self, _: u64) {}
    fn poll_event(&mut self) -> Option<WireEvent> {
        self.events.pop_front()
    }
    fn close(&mut self, _: LinkId) {
        // Whoever looks at a frame of a link that is closed looks at freed memory.
        self.incoming.clear();
        self.broken = true;
    }
    fn link_info(&self, _: LinkId) -> LinkInfo {
        LinkInfo::default()
    }
}

// SAFETY: nothing is reached directly.
unsafe impl DirectMemory for Scripted {
    fn grant(&mut self, _: LinkId, _: u32, access: Option<MapAccess>) {
        assert!(access.is_none(), "there is nothing to grant");
    }
}
