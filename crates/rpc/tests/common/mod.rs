// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests share: devices on each wire, and a thread that serves.
#![allow(dead_code, reason = "not every test uses all of it")]

use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_rpc::{Device, Node};
use bellwire_via::nic::{NicConfig, Udp};
use std::sync::Arc;
use std::time::Duration;

pub const PATIENCE: Duration = Duration::from_secs(30);

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

pub fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed.wrapping_mul(131)) as u8).collect()
}

/// Drives a node on a thread of its own until `f` is done.
pub fn served<R>(node: &Node, f: impl FnOnce() -> R) -> R {
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| node.drive(|| done.load(Ordering::SeqCst)).expect("it polls"));
        let ends = Ends(&done);
        let result = f();
        drop(ends);
        server.join().expect("the server's handlers are well");
        result
    })
}
