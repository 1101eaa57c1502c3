// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tools of cases: buffers with guards, VIs, connections, posting, and waiting with
//! patience.

use crate::Fixture;
use bellwire_memory::bytes;
use bellwire_via::event::{AsyncError, AsyncErrorCode};
use bellwire_via::{
    Cause, Completion, CqHandle, Duration, Error, Event, Instant, MemAttributes, MemHandle, NetAddress, Operation, PtagHandle, ReceiveRequest, Reliability,
    Segment, SendRequest, SrqHandle, Status, ViAttributes, ViHandle, ViState, WorkFlags,
};
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// All three service levels.
pub const LEVELS: [Reliability; 3] = [Reliability::Unreliable, Reliability::ReliableDelivery, Reliability::ReliableReception];
/// The two that break instead of losing.
pub const RELIABLE: [Reliability; 2] = [Reliability::ReliableDelivery, Reliability::ReliableReception];

/// Where memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The process's heap: peers cannot map it.
    Heap,
    /// The engine's allocator: peers may map it.
    Engine,
}

/// Both origins.
pub const MEMORIES: [Memory; 2] = [Memory::Heap, Memory::Engine];

/// A registered range. Lives as long as its stage.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Its NIC.
    pub nic: usize,
    /// First byte.
    pub base: *mut u8,
    /// Bytes.
    pub len: usize,
    /// Its region.
    pub handle: MemHandle,
}

impl Buffer {
    /// Address of its first byte.
    pub fn address(&self) -> u64 {
        self.base.expose_provenance() as u64
    }

    /// A segment of it.
    pub fn segment(&self, offset: usize, length: usize) -> Segment {
        Segment { address: self.address() + offset as u64, length: length as u32, handle: self.handle.raw() }
    }

    /// Copies bytes in.
    pub fn write(&self, offset: usize, data: &[u8]) {
        assert!(offset + data.len() <= self.len, "the buffer is long enough");
        // SAFETY: in bounds, just checked; the stage keeps the memory.
        unsafe { bytes::copy(self.base.add(offset), data.as_ptr(), data.len()) };
    }

    /// Copies bytes out.
    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.len, "the buffer is long enough");
        let mut out = vec![0; length];
        // SAFETY: in bounds, just checked; the stage keeps the memory.
        unsafe { bytes::copy(out.as_mut_ptr(), self.base.add(offset), length) };
        out
    }

    /// All of it.
    pub fn bytes(&self) -> Vec<u8> {
        self.read(0, self.len)
    }

    /// Sets every byte.
    pub fn fill(&self, byte: u8) {
        self.write(0, &vec![byte; self.len]);
    }

    /// Panics unless `offset..offset + data.len()` holds `data` and every other byte is
    /// `elsewhere`.
    #[track_caller]
    pub fn expect(&self, offset: usize, data: &[u8], elsewhere: u8, what: &str) {
        let all = self.bytes();
        let same = all[offset..offset + data.len()] == *data;
        let at = all[offset..offset + data.len()].iter().zip(data).position(|(a, b)| a != b);
        assert!(same, "{what}: the data differs at byte {at:?} of {}", data.len());
        let outside = all.iter().enumerate().find(|(i, b)| !(offset..offset + data.len()).contains(i) && **b != elsewhere);
        assert!(outside.is_none(), "{what}: a byte outside the range was written: {outside:?}, range {offset}..{}", offset + data.len());
    }
}

/// A VI of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The NIC.
    pub nic: usize,
    /// The VI.
    pub vi: ViHandle,
}

/// Recognisable bytes.
pub fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let mut x = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend_from_slice(&x.to_le_bytes());
    }
    out.truncate(length);
    out
}

/// A fixture with what a case has made on it.
#[derive(Debug)]
pub struct Stage<F> {
    /// The fixture.
    pub fixture: F,
    events: [Vec<Event>; 2],
    heap: Vec<(*mut u8, Layout)>,
    names: u32,
}

impl<F> Drop for Stage<F> {
    fn drop(&mut self) {
        for (base, layout) in self.heap.drain(..) {
            // SAFETY: allocated with this layout by `memory`, freed only here. The engines are
            // dropped after this body, but do nothing with user memory when dropped.
            unsafe { dealloc(base, layout) };
        }
    }
}

impl<F: Fixture> Stage<F> {
    /// An empty stage.
    pub fn new(fixture: F) -> Self {
        Self { fixture, events: [Vec::new(), Vec::new()], heap: Vec::new(), names: 0 }
    }

    /// The NIC that plays a side (0 or 1).
    pub fn side(&self, side: usize) -> usize {
        side.min(self.fixture.nics() - 1)
    }

    /// Whether both sides are one NIC.
    pub fn is_loopback(&self) -> bool {
        self.fixture.nics() == 1
    }

    /// The time of a NIC.
    pub fn now(&mut self) -> Instant {
        self.fixture.with(0, |e| e.now())
    }

    /// A point in time.
    pub fn after(&mut self, ms: u64) -> Instant {
        self.now() + Duration::from_millis(ms)
    }

    /// A deadline for what is to succeed, or to fail for a better reason: not reached, however busy
    /// the machine is.
    pub fn in_time(&mut self) -> Instant {
        self.now() + F::PATIENCE
    }

    // ---- time

    /// One turn; events are gathered.
    pub fn turn(&mut self) {
        self.fixture.turn();
        self.gather_events();
    }

    fn gather_events(&mut self) {
        for nic in 0..self.fixture.nics() {
            let events = &mut self.events[nic];
            // A NIC that has died is not asked.
            if self.fixture.lives(nic) {
                self.fixture.with(nic, |e| {
                    while let Some(event) = e.poll_event() {
                        events.push(event);
                    }
                });
            }
        }
    }

    /// Turns until `ready` gives something; panics when patience ends.
    #[track_caller]
    pub fn wait<R>(&mut self, what: &str, mut ready: impl FnMut(&mut Self) -> Option<R>) -> R {
        let begun = self.clock();
        for turns in 0.. {
            if let Some(r) = ready(self) {
                return r;
            }
            let waited = self.clock().since(begun);
            assert!(waited < F::PATIENCE && turns < F::TURNS_MAX, "waited {} ms and {turns} turns in vain: {what}", waited.0 / 1_000_000);
            self.turn();
        }
        unreachable!("the loop ends by returning or by the assertion")
    }

    fn clock(&mut self) -> Instant {
        let nic = (0..self.fixture.nics()).find(|n| self.fixture.lives(*n)).expect("a NIC lives");
        self.fixture.with(nic, |e| e.now())
    }

    /// Turns until a condition holds.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        self.wait(what, |s| condition(s).then_some(()));
    }

    /// Lets pass the time in which anything that is still to happen happens: more of it as long as
    /// something is under way, within bounds (it may be for a dead peer).
    pub fn settle(&mut self) {
        let (end, late) = (self.clock() + F::QUIET, self.clock() + F::QUIET + F::BUSY);
        let mut turns = 0;
        while self.clock() < end || turns < F::QUIET_TURNS || (self.fixture.is_busy() && self.clock() < late) {
            self.turn();
            turns += 1;
        }
    }

    // ---- objects

    /// A protection tag.
    pub fn ptag(&mut self, nic: usize) -> PtagHandle {
        self.fixture.with(nic, |e| e.create_ptag()).expect("a tag")
    }

    /// Zeroed memory, not registered.
    pub fn memory(&mut self, nic: usize, memory: Memory, length: usize) -> *mut u8 {
        match memory {
            Memory::Engine => self.fixture.with(nic, |e| e.allocate(length)).expect("engine memory"),
            Memory::Heap => {
                let layout = Layout::from_size_align(length.max(1).next_multiple_of(4096), 4096).expect("a layout");
                // SAFETY: the size is not zero.
                let base = unsafe { alloc_zeroed(layout) };
                assert!(!base.is_null(), "out of memory");
                self.heap.push((base, layout));
                base
            }
        }
    }

    /// Registers memory.
    pub fn register(&mut self, nic: usize, base: *mut u8, len: usize, attributes: MemAttributes) -> Buffer {
        // SAFETY: U0: memory of `memory`, which the stage or the engine frees after everything
        // else, and of which nobody makes references.
        let handle = self.fixture.with(nic, |e| unsafe { e.register(base.expose_provenance() as u64, len as u64, &attributes) }).expect("a registration");
        Buffer { nic, base, len, handle }
    }

    /// Memory registered with all rights, whole pages.
    pub fn buffer(&mut self, nic: usize, memory: Memory, length: usize, ptag: Option<PtagHandle>) -> Buffer {
        let length = length.max(1).next_multiple_of(4096);
        let base = self.memory(nic, memory, length);
        self.register(nic, base, length, MemAttributes { ptag, rdma_write: true, rdma_read: true })
    }

    /// A VI with its own queues.
    pub fn vi(&mut self, nic: usize, attributes: &ViAttributes) -> Port {
        self.vi_with(nic, attributes, None, None, None)
    }

    /// A VI.
    pub fn vi_with(&mut self, nic: usize, attributes: &ViAttributes, send: Option<CqHandle>, receive: Option<CqHandle>, srq: Option<SrqHandle>) -> Port {
        let vi = self.fixture.with(nic, |e| e.create_vi(attributes, send, receive, srq)).expect("a VI");
        Port { nic, vi }
    }

    /// Attributes with a tag and all rights that the level allows.
    pub fn attributes(reliability: Reliability, ptag: Option<PtagHandle>) -> ViAttributes {
        ViAttributes { reliability, ptag, rdma_write: true, rdma_read: reliability.is_reliable(), ..ViAttributes::default() }
    }

    /// An address of a NIC with a discriminator of its own.
    pub fn fresh_address(&mut self, nic: usize) -> NetAddress {
        self.names += 1;
        let name = self.names.to_be_bytes();
        self.address(nic, &name)
    }

    /// An address of a NIC.
    pub fn address(&mut self, nic: usize, discriminator: &[u8]) -> NetAddress {
        self.fixture
            .with(nic, |e| {
                use bellwire_via::wire::Wire;
                NetAddress::new(e.wire().host_address(), discriminator)
            })
            .expect("a short address")
    }

    /// Connects two VIs, `b` as the server.
    #[track_caller]
    pub fn connect(&mut self, a: Port, b: Port) {
        let (local, remote) = (self.fresh_address(a.nic), self.fresh_address(b.nic));
        let wait = self.fixture.with(b.nic, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait");
        self.fixture.with(a.nic, |e| e.connect_request(a.vi, &local, &remote, Instant::NEVER)).expect("a request");
        let request = self.wait("a connection request", |s| s.fixture.with(b.nic, |e| e.poll_wait(wait)).expect("no timeout"));
        self.fixture.with(b.nic, |e| e.accept(request.incoming, b.vi)).expect("accepted");
        self.wait("the acceptance", |s| s.fixture.with(a.nic, |e| e.connect_status(a.vi)).expect("connected"));
        assert_eq!((self.state(a), self.state(b)), (ViState::Connected, ViState::Connected));
    }

    /// Two connected VIs with a tag each and all rights.
    #[track_caller]
    pub fn pair(&mut self, reliability: Reliability) -> Pair {
        let (na, nb) = (self.side(0), self.side(1));
        let (tag_a, tag_b) = (self.ptag(na), self.ptag(nb));
        let a = self.vi(na, &Self::attributes(reliability, Some(tag_a)));
        let b = self.vi(nb, &Self::attributes(reliability, Some(tag_b)));
        self.connect(a, b);
        Pair { a, b, tag_a: Some(tag_a), tag_b: Some(tag_b), reliability }
    }

    /// Ends a connection on both sides; completions are thrown away.
    pub fn part(&mut self, ports: &[Port]) {
        for p in ports {
            self.fixture.with(p.nic, |e| e.disconnect(p.vi)).expect("disconnected");
            while self.try_send_done(*p).is_some() || self.try_receive_done(*p).is_some() {}
        }
    }

    // ---- queues

    /// State of a VI.
    #[track_caller]
    pub fn state(&mut self, p: Port) -> ViState {
        self.fixture.with(p.nic, |e| e.query_vi(p.vi)).expect("the VI is there").0
    }

    /// Posts a send-side request.
    #[track_caller]
    pub fn post(&mut self, p: Port, request: &SendRequest<'_>) {
        self.fixture.with(p.nic, |e| e.post_send(p.vi, request)).expect("posted");
    }

    /// Posts a send of segments.
    #[track_caller]
    pub fn send(&mut self, p: Port, segments: &[Segment], immediate: Option<u32>, context: u64) {
        self.post(p, &SendRequest { segments, context, ..with_immediate(immediate) });
    }

    /// Posts an RDMA write.
    #[track_caller]
    pub fn rdma_write(&mut self, p: Port, segments: &[Segment], to: (u64, u32), immediate: Option<u32>, context: u64) {
        let request =
            SendRequest { operation: Operation::RdmaWrite, segments, remote_address: to.0, remote_handle: to.1, context, ..with_immediate(immediate) };
        self.post(p, &request);
    }

    /// Posts an RDMA read.
    #[track_caller]
    pub fn rdma_read(&mut self, p: Port, segments: &[Segment], from: (u64, u32), context: u64) {
        let request =
            SendRequest { operation: Operation::RdmaRead, segments, remote_address: from.0, remote_handle: from.1, context, ..SendRequest::default() };
        self.post(p, &request);
    }

    /// Posts a receive.
    #[track_caller]
    pub fn receive(&mut self, p: Port, segments: &[Segment], context: u64) {
        self.fixture.with(p.nic, |e| e.post_receive(p.vi, &ReceiveRequest { segments, context, descriptor: None })).expect("posted");
    }

    /// A send-side completion, if there is one.
    #[track_caller]
    pub fn try_send_done(&mut self, p: Port) -> Option<Completion> {
        self.fixture.with(p.nic, |e| e.send_done(p.vi)).expect("the VI is there")
    }

    /// A receive completion, if there is one.
    #[track_caller]
    pub fn try_receive_done(&mut self, p: Port) -> Option<Completion> {
        self.fixture.with(p.nic, |e| e.receive_done(p.vi)).expect("the VI is there")
    }

    /// The next send-side completion.
    #[track_caller]
    pub fn send_done(&mut self, p: Port) -> Completion {
        self.wait("a send completion", |s| s.try_send_done(p))
    }

    /// The next receive completion.
    #[track_caller]
    pub fn receive_done(&mut self, p: Port) -> Completion {
        self.wait("a receive completion", |s| s.try_receive_done(p))
    }

    /// The next send-side completion, which must be without error.
    #[track_caller]
    pub fn sent(&mut self, p: Port, context: u64) -> Completion {
        let c = self.send_done(p);
        assert!(c.status.contains(Status::DONE) && !c.status.is_error(), "send {context}: {c:?}");
        assert_eq!(c.context, context, "sends complete in order");
        c
    }

    /// The next receive completion, which must be without error.
    #[track_caller]
    pub fn received(&mut self, p: Port, context: u64) -> Completion {
        let c = self.receive_done(p);
        assert!(c.status.contains(Status::DONE) && !c.status.is_error(), "receive {context}: {c:?}");
        assert_eq!(c.context, context, "receives complete in order");
        c
    }

    /// All send-side completions there are.
    pub fn drain_sends(&mut self, p: Port) -> Vec<Completion> {
        core::iter::from_fn(|| self.try_send_done(p)).collect()
    }

    /// All receive completions there are.
    pub fn drain_receives(&mut self, p: Port) -> Vec<Completion> {
        core::iter::from_fn(|| self.try_receive_done(p)).collect()
    }

    // ---- events

    /// Takes the asynchronous errors of a VI seen so far.
    pub fn take_errors(&mut self, p: Port) -> Vec<AsyncErrorCode> {
        self.gather_events();
        let mut found = Vec::new();
        self.events[p.nic].retain(|e| match e {
            Event::AsyncError(AsyncError { vi: Some(vi), cq: None, code, .. }) if *vi == p.vi => {
                found.push(*code);
                false
            }
            _ => true,
        });
        found
    }

    /// Takes the other events of a NIC seen so far.
    pub fn take_events(&mut self, nic: usize) -> Vec<Event> {
        self.gather_events();
        core::mem::take(&mut self.events[nic])
    }

    /// Waits until a VI has broken, and checks that its owner hears exactly these errors.
    #[track_caller]
    pub fn broken(&mut self, p: Port, errors: &[AsyncErrorCode]) {
        self.until("a broken connection", |s| s.state(p) == ViState::Error);
        assert_eq!(self.take_errors(p), errors, "asynchronous errors");
    }

    /// Checks why a VI says that it broke.
    #[track_caller]
    pub fn broke_because(&mut self, p: Port, cause: Cause) {
        assert_eq!(self.fixture.with(p.nic, |e| e.vi_cause(p.vi)), Ok(Some(cause)));
    }

    /// Panics if a VI's owner has heard of an error.
    #[track_caller]
    pub fn no_errors(&mut self, p: Port) {
        assert_eq!(self.take_errors(p), [], "asynchronous errors");
    }

    /// Sends one small message from `a` to `b`: the connection works.
    #[track_caller]
    pub fn ping(&mut self, a: Port, b: Port, from: &Buffer, to: &Buffer) {
        let data = pattern(0xabcd, 24);
        from.write(0, &data);
        self.receive(b, &[to.segment(0, 64)], 0x7001);
        self.send(a, &[from.segment(0, 24)], None, 0x7002);
        self.sent(a, 0x7002);
        assert_eq!(self.received(b, 0x7001).length, 24);
        assert_eq!(to.read(0, 24), data);
    }
}

/// Two connected VIs.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The client's.
    pub a: Port,
    /// The server's.
    pub b: Port,
    /// Tag of `a`.
    pub tag_a: Option<PtagHandle>,
    /// Tag of `b`.
    pub tag_b: Option<PtagHandle>,
    /// Service.
    pub reliability: Reliability,
}

/// A request with immediate data, or without.
pub fn with_immediate(immediate: Option<u32>) -> SendRequest<'static> {
    let flags = if immediate.is_some() { WorkFlags::IMMEDIATE } else { WorkFlags::empty() };
    SendRequest { flags, immediate: immediate.unwrap_or(0), ..SendRequest::default() }
}

/// A range of a buffer as a peer names it.
pub fn remote(b: &Buffer, offset: usize) -> (u64, u32) {
    (b.address() + offset as u64, b.handle.raw())
}

/// Asserts that a call was refused for a reason.
#[track_caller]
pub fn refused<T: core::fmt::Debug>(result: Result<T, Error>, why: Error) {
    match result {
        Err(e) => assert_eq!(e, why),
        Ok(v) => panic!("expected {why:?}, got {v:?}"),
    }
}
