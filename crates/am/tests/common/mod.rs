// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests share: devices on each wire, and pairs of endpoints.
#![allow(dead_code, reason = "not every test uses all of it")]

use bellwire_am::{Bundle, Device, EndpointId};
use bellwire_via::nic::{NicConfig, Udp};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const TAG: u64 = 0x1234_5678_9abc;

pub fn device() -> Arc<Device> {
    Device::open(NicConfig::default()).expect("a NIC")
}

/// A device that others reach by UDP only, at an address of its own.
pub fn udp_device(last: u8, faults: Option<&str>) -> Arc<Device> {
    let id = std::process::id();
    let host = vec![127, (id >> 8) as u8 | 0x80, id as u8, last];
    let faults = faults.map(|plan| plan.parse().expect("a plan"));
    Device::open(NicConfig { host, udp: Some(Udp::default()), shm: false, faults, ..NicConfig::default() }).expect("a NIC")
}

/// Polls all bundles until `done`.
pub fn poll_until(bundles: &[&Bundle], what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        for bundle in bundles {
            bundle.poll().expect("polls");
        }
        assert!(Instant::now() < end, "{what}");
    }
}

pub fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed.wrapping_mul(131)) as u8).collect()
}

/// A bundle with one endpoint that accepts [`TAG`].
pub struct Side {
    pub device: Arc<Device>,
    pub bundle: Bundle,
    pub endpoint: EndpointId,
}

impl Side {
    pub fn new(device: &Arc<Device>) -> Self {
        let bundle = Bundle::new(device).expect("a bundle");
        let endpoint = bundle.create_endpoint().expect("an endpoint");
        bundle.set_tag(endpoint, TAG).unwrap();
        Self { device: Arc::clone(device), bundle, endpoint }
    }

    /// Maps the other's endpoint as entry 0.
    pub fn map(&self, other: &Side) {
        self.bundle.map(self.endpoint, 0, other.bundle.name(other.endpoint).unwrap(), TAG).unwrap();
    }
}

/// Polls on a thread of its own until `f` is done.
pub fn served<R>(bundle: &Bundle, f: impl FnOnce() -> R) -> R {
    let done = bellwire_memory::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            while !done.load(bellwire_memory::atomic::Ordering::SeqCst) {
                bundle.poll().expect("polls");
            }
        });
        struct Ends<'a>(&'a bellwire_memory::atomic::AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, bellwire_memory::atomic::Ordering::SeqCst);
            }
        }
        let ends = Ends(&done);
        let result = f();
        drop(ends);
        server.join().expect("the server's handlers are well");
        result
    })
}
