// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of the NIC share: NICs, connected VIs with memory, small messages.
#![allow(dead_code)]

use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_via::nic::{NicConfig, Udp};
use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::wire::udp::keys_from_env;
use bellwire_via::{
    Completion, CqHandle, Error, MemAttributes, MemHandle, NetAddress, Nic, Operation, PtagHandle, ReceiveRequest, Reliability, Segment, SendRequest,
    ViAttributes, ViHandle,
};
use std::time::Duration;

pub const LONG: Option<Duration> = Some(Duration::from_secs(30));

/// The median: one of many that a busy machine holds up says nothing.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Tries again, up to ten times, what a busy machine can spoil but not bring about.
pub fn at_last(what: &str, mut is_so: impl FnMut() -> bool) {
    assert!((0..10).any(|_| is_so()), "{what}: in none of ten tries");
}

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An address that no other test uses.
pub fn address() -> NetAddress {
    // Relaxed: only distinct.
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    named(&format!("nic-test/{}/{n}", std::process::id()))
}

pub fn named(discriminator: &str) -> NetAddress {
    NetAddress::new(&[127, 0, 0, 1], discriminator.as_bytes()).unwrap()
}

pub fn open(mode: ProtectionMode) -> Nic {
    Nic::open(NicConfig { mode, ..NicConfig::default() }).unwrap()
}

pub const AREA: usize = 1 << 20;

/// A VI with an area of registered memory.
pub struct End<'a> {
    pub nic: &'a Nic,
    pub vi: ViHandle,
    pub ptag: PtagHandle,
    pub base: u64,
    pub memory: MemHandle,
    pub attributes: ViAttributes,
}

impl<'a> End<'a> {
    pub fn new(nic: &'a Nic, reliability: Reliability, cq: Option<CqHandle>) -> Self {
        nic.with(|e| {
            let ptag = e.create_ptag().unwrap();
            let base = e.allocate(AREA).unwrap().expose_provenance() as u64;
            let rights = MemAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: true };
            let memory = e.register_allocated(base, AREA as u64, &rights).unwrap();
            let attributes = ViAttributes { reliability, ptag: Some(ptag), rdma_write: true, rdma_read: true, ..ViAttributes::default() };
            let vi = e.create_vi(&attributes, cq, cq, None).unwrap();
            End { nic, vi, ptag, base, memory, attributes }
        })
    }

    pub fn segment(&self, offset: usize, length: usize) -> Segment {
        assert!(offset + length <= AREA);
        Segment { address: self.base + offset as u64, length: length as u32, handle: self.memory.raw() }
    }

    pub fn write(&self, offset: usize, data: &[u8]) {
        assert!(offset + data.len() <= AREA);
        // SAFETY: inside the area, which only this test's threads use.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), core::ptr::with_exposed_provenance_mut((self.base as usize) + offset), data.len()) }
    }

    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= AREA);
        let mut v = vec![0; length];
        // SAFETY: inside the area, which only this test's threads use.
        unsafe { core::ptr::copy_nonoverlapping(core::ptr::with_exposed_provenance((self.base as usize) + offset), v.as_mut_ptr(), length) };
        v
    }

    pub fn post_receive(&self, offset: usize, length: usize) {
        self.nic.post_receive(self.vi, &ReceiveRequest { segments: &[self.segment(offset, length)], context: offset as u64, descriptor: None }).unwrap();
    }

    pub fn post_send(&self, offset: usize, length: usize) {
        self.nic.post_send(self.vi, &SendRequest { segments: &[self.segment(offset, length)], context: offset as u64, ..SendRequest::default() }).unwrap();
    }

    pub fn post_read(&self, offset: usize, length: usize, from: u64, handle: u32) {
        let request = SendRequest {
            operation: Operation::RdmaRead,
            segments: &[self.segment(offset, length)],
            remote_address: from,
            remote_handle: handle,
            ..SendRequest::default()
        };
        self.nic.post_send(self.vi, &request).unwrap();
    }

    pub fn poll_receive(&self) -> Completion {
        loop {
            if let Some(c) = self.nic.receive_done(self.vi).unwrap() {
                return c;
            }
            std::hint::spin_loop();
        }
    }

    pub fn send_now(&self, offset: usize, length: usize) {
        self.post_send(offset, length);
        let c = self.nic.send_wait(self.vi, LONG).unwrap();
        assert!(!c.status.is_error(), "{:?}", c.status);
    }
}

pub fn serve(end: &End<'_>, address: &NetAddress) -> Result<(), Error> {
    let request = end.nic.connect_wait(address, LONG)?;
    end.nic.with(|e| e.accept(request.incoming, end.vi))
}

pub fn call(end: &End<'_>, address: &NetAddress) -> Result<ViAttributes, Error> {
    end.nic.connect_request(end.vi, &self::address(), address, LONG)
}

/// Two connected ends at Reliable Delivery; the queues of the first go to `cq`.
pub fn pair<'a>(a: &'a Nic, b: &'a Nic, cq: Option<CqHandle>) -> (End<'a>, End<'a>) {
    let (x, y) = (End::new(a, Reliability::ReliableDelivery, cq), End::new(b, Reliability::ReliableDelivery, None));
    connect(&x, &y);
    (x, y)
}

/// Connects two ends, each from a thread of its own.
pub fn connect(server: &End<'_>, client: &End<'_>) {
    connect_at(server, client, &address());
}

pub fn connect_at(server: &End<'_>, client: &End<'_>, at: &NetAddress) {
    std::thread::scope(|s| {
        s.spawn(|| serve(server, at).unwrap());
        call(client, at).unwrap();
    });
}

/// A NIC that reaches all others by UDP, at a loopback address of its own.
pub fn open_udp(last: u8, faults: &str) -> Nic {
    let id = std::process::id();
    let host = vec![127, (id >> 8) as u8 | 0x80, id as u8, last];
    // Of the environment, for measurements with keys.
    let keys = keys_from_env().unwrap().map(|loaded| loaded.keys);
    let faults = (!faults.is_empty()).then(|| faults.parse().unwrap());
    Nic::open(NicConfig { host, udp: Some(Udp::default()), shm: false, faults, keys, ..NicConfig::default() }).unwrap()
}

/// Where such a NIC is found.
pub fn at(nic: u8, name: &str) -> NetAddress {
    let id = std::process::id();
    NetAddress::new(&[127, (id >> 8) as u8 | 0x80, id as u8, nic], name.as_bytes()).unwrap()
}

/// Connects two of them, which are at `places`.
pub fn join_udp<'a, 'b>(server: &'a Nic, client: &'b Nic, places: (u8, u8)) -> (End<'a>, End<'b>) {
    let (x, y) = (End::new(server, Reliability::ReliableDelivery, None), End::new(client, Reliability::ReliableDelivery, None));
    let (there, here) = (at(places.0, "join"), at(places.1, "client"));
    std::thread::scope(|s| {
        s.spawn(|| serve(&x, &there).unwrap());
        client.connect_request(y.vi, &here, &there, LONG).unwrap();
    });
    (x, y)
}

/// Processor time that this process has used.
pub fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

pub fn thread_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Starts this test program again as another process that runs only the test `name`, with
/// `BELLWIRE_TEST_PEER` set to `argument`.
pub fn spawn_peer(name: &str, argument: &str) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("BELLWIRE_TEST_PEER", argument)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// The argument, in the process that [`spawn_peer`] started.
pub fn peer_argument() -> Option<String> {
    std::env::var("BELLWIRE_TEST_PEER").ok()
}
