// SPDX-License-Identifier: MIT OR Apache-2.0
//! One NIC's view of the network in memory: the [`Wire`] that its engine is given.
//!
//! There is no direct access: all memory is reached by frames, and the owner is the judge. Memory
//! comes from the heap.

use super::SimNetwork;
use crate::address::NetAddress;
use crate::heap::{self, Heap};
use crate::{Allocation, DirectMemory, Frame, LinkFailure, LinkId, LinkInfo, MemoryKind, Received, Rendezvous, Sent, Wire, WireEvent};
use bellwire_memory::line_queue::Line;
use std::rc::Rc;

/// A NIC on a [`SimNetwork`]. Dropping it closes the NIC in good order.
#[derive(Debug)]
pub struct SimWire {
    network: SimNetwork,
    nic: usize,
    host: Vec<u8>,
    payload_bytes_max: usize,
    heap: Heap,
    /// The line and the payload last received: frames point into them, whatever becomes of the
    /// network's own queue.
    current: Box<Line>,
    payload: Rc<Vec<u8>>,
}

impl SimNetwork {
    /// A new NIC at a host address. A NIC that had the address before and has died is replaced.
    pub fn attach(&self, host: &[u8]) -> SimWire {
        let (nic, payload_bytes_max) = self.0.borrow_mut().attach(host);
        SimWire { network: self.clone(), nic, host: host.to_vec(), payload_bytes_max, heap: Heap::default(), current: Box::default(), payload: Rc::default() }
    }
}

impl SimWire {
    /// The NIC's number in its network.
    pub fn nic(&self) -> usize {
        self.nic
    }
}

impl Drop for SimWire {
    fn drop(&mut self) {
        self.network.0.borrow_mut().detach(self.nic, LinkFailure::PeerClosed);
    }
}

// SAFETY: W1: `Heap`. W2: a vector of that length. W3: `current` is boxed, `payload` is shared with
// the network; both change with the next receive. W4: nothing is kept.
unsafe impl Wire for SimWire {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn host_address(&self) -> &[u8] {
        &self.host
    }

    fn payload_bytes_max(&self, _link: LinkId) -> usize {
        self.payload_bytes_max
    }

    fn send(&mut self, link: LinkId, line: &mut Line, words: usize) -> Sent {
        // The words that are not in use may hold anything.
        line.0[words..].fill(0);
        self.network.0.borrow_mut().send(self.nic, link, line, 0, |_| true)
    }

    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent {
        assert!(length <= self.payload_bytes_max, "the engine keeps to the wire's limit");
        self.network.0.borrow_mut().send(self.nic, link, line, length, fill)
    }

    unsafe fn receive(&mut self, link: LinkId) -> Received {
        let mut network = self.network.0.borrow_mut();
        network.count_look();
        match network.front(self.nic, link) {
            Err(()) => Received::Broken,
            Ok(None) => {
                network.finish_receiving(self.nic, link);
                Received::Empty
            }
            Ok(Some(f)) => {
                *self.current = f.line;
                self.payload = Rc::clone(&f.payload);
                // SAFETY: F1: both stay until the next receive, which F2 excludes.
                Received::Frame(unsafe { Frame::new(f.line.0[0], self.current.0.as_ptr(), self.payload.as_ptr(), self.payload.len()) })
            }
        }
    }

    fn consume(&mut self, link: LinkId) {
        self.network.0.borrow_mut().consume(self.nic, link);
    }

    fn has_events(&self) -> bool {
        self.network.0.borrow().has_events(self.nic)
    }

    fn allocate(&mut self, bytes: usize) -> Option<Allocation> {
        self.heap.allocate(bytes)
    }

    fn free(&mut self, segment: u32) {
        self.heap.free(segment);
    }

    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind {
        heap::presumed_kind(address, length)
    }

    fn listen(&mut self, _local: &NetAddress) -> bool {
        true
    }

    fn unlisten(&mut self, _local: &NetAddress) {}

    fn resolve(&mut self, request: u64, _how: Rendezvous, _local: &NetAddress, remote: &NetAddress) {
        self.network.0.borrow_mut().resolve(self.nic, request, remote.host());
    }

    fn cancel(&mut self, request: u64) {
        self.network.0.borrow_mut().cancel(self.nic, request);
    }

    fn poll_event(&mut self) -> Option<WireEvent> {
        self.network.0.borrow_mut().poll_event(self.nic)
    }

    fn failure(&mut self, link: LinkId) -> LinkFailure {
        self.network.0.borrow().failure(self.nic, link)
    }

    fn close(&mut self, link: LinkId) {
        self.network.0.borrow_mut().close(self.nic, link);
    }

    fn link_info(&self, link: LinkId) -> LinkInfo {
        LinkInfo { loopback: self.network.0.borrow().is_loopback(self.nic, link), wire: self.name(), ..LinkInfo::default() }
    }
}

// SAFETY: nothing is reached directly.
unsafe impl DirectMemory for SimWire {}
