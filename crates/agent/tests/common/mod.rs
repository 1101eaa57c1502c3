// SPDX-License-Identifier: MIT OR Apache-2.0
//! Agents in threads, and endpoints of this process.
#![allow(dead_code, reason = "not every test uses all of it")]

use bellwire_agent::{Agent, AgentConfig, Counters};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_time::Duration;
use bellwire_wire::agent::{AGENT_PORT, AgentConfig as PortConfig, AgentPort};
use bellwire_wire::packet::PacketPort;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// An agent in a thread.
pub struct Running {
    stop: UnixStream,
    thread: Option<JoinHandle<Counters>>,
}

impl Running {
    pub fn start(config: AgentConfig) -> Self {
        let (stop, stopped) = UnixStream::pair().unwrap();
        let mut agent = Agent::open(config).unwrap();
        let thread = std::thread::spawn(move || {
            agent.run(stopped.as_fd());
            agent.counters()
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends it; what it has done.
    pub fn end(mut self) -> Counters {
        self.stop.write_all(b"x").unwrap();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.stop.write_all(b"x");
            let _ = thread.join();
        }
    }
}

/// An address of its own for an agent of a test.
pub fn address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // Relaxed: the numbers need only differ.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, a, b, c] = (0xc0_0000 | (std::process::id() & 0xfff) << 8 | (number & 0xff)).to_be_bytes();
    SocketAddr::new(IpAddr::from(Ipv4Addr::new(127, a, b, c)), AGENT_PORT)
}

/// Settings of a test: endpoints leave their frames quickly and are unmapped then, few packets are
/// kept for them, and the agent says at once who is gone.
pub fn config(address: SocketAddr, frames: usize) -> AgentConfig {
    AgentConfig { address, frames, stay: Duration::from_micros(300), mapped: 0, parked_bytes: 512, grace: Duration(0), ..AgentConfig::default() }
}

pub fn endpoint(address: SocketAddr) -> AgentPort {
    AgentPort::open(PortConfig { address: Some(address.ip()), ..PortConfig::new(7.into()) }).unwrap()
}

/// Takes packets until one comes, for 20 s at most.
pub fn take(port: &mut AgentPort) -> (SocketAddr, Vec<u8>) {
    let until = port.now() + Duration::from_millis(20_000);
    while port.now() < until {
        port.handle_control();
        let _ = port.is_ready();
        if let Some((from, bytes)) = port.receive() {
            return (from, bytes.as_ref().to_vec());
        }
        std::thread::yield_now();
    }
    panic!("nothing came");
}
