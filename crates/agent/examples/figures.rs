// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of the agent: half a round trip of 8 bytes through it beside direct UDP, the rate of 100
//! pairs over 8 frames beside frames for all, and the memory of an idle endpoint. Run with
//! `cargo run --release -p bellwire-agent --example figures`; with `latency`, `rate` or `memory`
//! for one of them (three rounds of the first two). `SPIN` sets how long agents look before they
//! sleep, in us; with `COUNTERS` they print what they have done.

use bellwire_agent::{Agent, AgentConfig};
use bellwire_memory::line_queue::Line;
use bellwire_time::Duration;
use bellwire_wire::address::NetAddress;
use bellwire_wire::agent::{AGENT_PORT, AgentConfig as PortConfig, AgentPort};
use bellwire_wire::packet::{PacketPort, PacketWire};
use bellwire_wire::udp::{UdpConfig, UdpPort, host_address};
use bellwire_wire::users::Allow;
use bellwire_wire::xdp::XdpMode;
use bellwire_wire::{LinkId, Received, Rendezvous, Sent, Wire, WireEvent};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

struct End<P: PacketPort> {
    wire: PacketWire<P>,
    link: Option<LinkId>,
}

impl<P: PacketPort> End<P> {
    fn turn(&mut self) {
        // A NIC's helper thread does that when there is something.
        if self.link.is_none() {
            self.wire.handle_control();
        }
        self.wire.begin_turn();
        if let Some(WireEvent::LinkUp { link, .. }) = self.wire.poll_event() {
            self.link = Some(link);
        }
        self.wire.flush();
    }

    fn send(&mut self) -> bool {
        let Some(link) = self.link else { return false };
        let mut line = Line::default();
        line.0[0] = 2;
        let sent = self.wire.send(link, &mut line, 2) == Sent::Yes;
        self.wire.flush();
        sent
    }

    fn receive(&mut self) -> bool {
        let Some(link) = self.link else { return false };
        self.wire.begin_turn();
        // SAFETY: the frame is not used.
        let got = matches!(unsafe { self.wire.receive(link) }, Received::Frame(_));
        if got {
            self.wire.consume(link);
        }
        got
    }
}

fn by_agent(at: SocketAddr, seed: u64) -> End<AgentPort> {
    let port = AgentPort::open(PortConfig { address: Some(at.ip()), ..PortConfig::new(seed.into()) }).expect("the agent");
    let transport = port.transport_config().expect("randomness");
    End { wire: PacketWire::new(port, transport, &host_address(SocketAddr::new(at.ip(), 0)), seed), link: None }
}

fn by_udp(at: SocketAddr, seed: u64) -> End<UdpPort> {
    let port = UdpPort::open(&UdpConfig {
        address: SocketAddr::new(at.ip(), 0),
        directory_port: 17_118,
        seed: seed.into(),
        faults: None,
        tap: None,
        allow: Allow::NOBODY,
        keys: None,
        xdp: XdpMode::Off,
    })
    .expect("a socket");
    let transport = port.transport_config().expect("randomness");
    End { wire: PacketWire::new(port, transport, &host_address(SocketAddr::new(at.ip(), 0)), seed), link: None }
}

fn names(first: SocketAddr, second: SocketAddr, number: usize) -> (NetAddress, NetAddress) {
    let name = |at: SocketAddr, text: String| NetAddress::new(&host_address(SocketAddr::new(at.ip(), 0)), text.as_bytes()).expect("short");
    (name(first, format!("client {number}")), name(second, format!("server {number}")))
}

/// Half a round trip: the median of 21 batches and the best of them, ns, and how often a processor
/// went from one thread to another meanwhile.
struct Half {
    median: u64,
    best: u64,
    switches: f64,
}

impl std::fmt::Display for Half {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ns (at best {} ns), {:.1} switches", self.median, self.best, self.switches)
    }
}

/// An agent to which the threads of the programs give turns themselves.
type Beside = Option<Arc<Mutex<Agent>>>;

fn give_turn(agent: &Beside) {
    if let Some(agent) = agent {
        agent.lock().expect("no panic").turn();
    }
}

/// Switches of the threads of processes so far, this one among them.
fn switches(others: &[u32]) -> u64 {
    let processes = others.iter().copied().chain([std::process::id()]);
    let threads = processes.flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten());
    let texts = threads.filter_map(|t| std::fs::read_to_string(t.path().join("status")).ok());
    let count = |line: &str| line.split_once("ctxt_switches:").and_then(|(_, n)| n.trim().parse::<u64>().ok()).unwrap_or(0);
    texts.map(|text| text.lines().map(count).sum::<u64>()).sum()
}

fn ping_pong<P: PacketPort + Send + 'static>(mut ends: [End<P>; 2], at: [SocketAddr; 2], beside: [Beside; 2], agents: &[u32]) -> Half
where
    PacketWire<P>: Send,
{
    let (local, remote) = names(at[0], at[1], 0);
    assert!(ends[1].wire.listen(&remote));
    ends[0].wire.resolve(1, Rendezvous::Client, &local, &remote);
    const BATCH: u64 = 500;
    let (done, is_done) = channel::<()>();
    let ([mut client, mut server], [near, far]) = (ends, beside);
    let thread = std::thread::spawn(move || {
        let mut idle = 0u32;
        while is_done.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            give_turn(&far);
            server.turn();
            if server.receive() {
                while !server.send() {}
                idle = 0;
            } else {
                idle += 1;
                if idle > 8 {
                    std::thread::yield_now();
                }
            }
        }
    });
    while client.link.is_none() {
        give_turn(&near);
        client.turn();
        std::thread::yield_now();
    }
    let (mut times, before) = (Vec::new(), switches(agents));
    for _ in 0..22 {
        let began = client.wire.port().now();
        for _ in 0..BATCH {
            while !client.send() {
                give_turn(&near);
                client.turn();
            }
            let mut idle = 0u32;
            while !client.receive() {
                give_turn(&near);
                client.turn();
                idle += 1;
                if idle > 8 {
                    std::thread::yield_now();
                }
            }
        }
        times.push(client.wire.port().now().since(began).0 / BATCH / 2);
    }
    let switches = (switches(agents) - before) as f64 / (times.len() as u64 * BATCH * 2) as f64;
    drop(done);
    thread.join().expect("the server");
    times.remove(0);
    times.sort_unstable();
    Half { median: times[times.len() / 2], best: times[0], switches }
}

/// An agent in a process of its own, as `bellwired` is one.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn start(at: SocketAddr, frames: usize) -> Running {
    let mut child = Command::new(std::env::current_exe().expect("its name"))
        .args(["agent", &at.to_string(), &frames.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut serving = [0; 1];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut serving).expect("it serves");
    Running(child)
}

/// That process: it ends with its standard input.
fn be_agent(at: &str, frames: &str) {
    let address = at.parse().expect("an address");
    let mut config = AgentConfig { address, frames: frames.parse().expect("a number"), ..AgentConfig::default() };
    if let Some(spin) = std::env::var("SPIN").ok().and_then(|s| s.parse().ok()) {
        config.spin = Duration::from_micros(spin);
    }
    let mut agent = Agent::open(config).expect("an agent");
    std::io::stdout().write_all(b"s").and_then(|()| std::io::stdout().flush()).expect("a pipe");
    agent.run(std::io::stdin().as_fd());
    if std::env::var_os("COUNTERS").is_some() {
        eprintln!("{:?} {:?}", agent.counters(), agent.residency());
    }
}

/// Processor time of a process, ns.
fn processor_time(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("/proc");
    text.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

/// The rate of some pairs: messages a second, and the processor time of a message in their program
/// and in the agent, ns.
struct Rate {
    rate: u64,
    program: u64,
    agent: u64,
}

/// Pairs with 16 messages under way each, all in one thread.
fn rate(at: SocketAddr, frames: usize, pairs: usize) -> Rate {
    let agent = start(at, frames);
    let mut ends: Vec<[End<AgentPort>; 2]> = (0..pairs).map(|i| [by_agent(at, 2 * i as u64), by_agent(at, 2 * i as u64 + 1)]).collect();
    for (i, [client, server]) in ends.iter_mut().enumerate() {
        let (local, remote) = names(at, at, i);
        assert!(server.wire.listen(&remote));
        client.wire.resolve(1, Rendezvous::Client, &local, &remote);
    }
    while ends.iter().any(|pair| pair.iter().any(|end| end.link.is_none())) {
        ends.iter_mut().flatten().for_each(End::turn);
        std::thread::yield_now();
    }
    let mut under_way = vec![0u32; pairs];
    let times = || [std::process::id(), agent.0.id()].map(processor_time);
    let (mut count, began, before) = (0u64, ends[0][0].wire.port().now(), times());
    let mut now = began;
    while now.since(began) < Duration::from_millis(2_000) {
        for (i, [client, server]) in ends.iter_mut().enumerate() {
            while under_way[i] < 16 && client.send() {
                under_way[i] += 1;
            }
            client.turn();
            // The client must look for its acknowledgements.
            client.receive();
            server.turn();
            while server.receive() {
                under_way[i] -= 1;
                count += 1;
            }
        }
        now = ends[0][0].wire.port().now();
        std::thread::yield_now();
    }
    let after = times();
    let [program, agent] = [0, 1].map(|i| (after[i] - before[i]) / count.max(1));
    Rate { rate: count * 1_000_000_000 / now.since(began).0, program, agent }
}

/// Frames for all beside few.
fn rates(all: SocketAddr, few: SocketAddr) {
    let (all, few) = (rate(all, 256, 100), rate(few, 8, 100));
    println!("100 pairs: {} messages/s with frames for all, {} over 8 frames ({:.2})", all.rate, few.rate, few.rate as f64 / all.rate as f64);
    let times = |r: &Rate| format!("{} ns of the programs and {} ns of the agent", r.program, r.agent);
    println!("processor time of a message: {}; over 8 frames {}", times(&all), times(&few));
}

/// KiB of memory that the segments of this process's endpoints take.
fn segments_kib() -> u64 {
    let files = std::fs::read_dir("/proc/self/fd").expect("/proc").flatten();
    let segments = files.filter(|f| std::fs::read_link(f.path()).is_ok_and(|to| to.to_string_lossy().contains("bellwire-endpoint")));
    segments.filter_map(|f| std::fs::metadata(f.path()).ok()).map(|m| m.blocks() / 2).sum()
}

/// KiB of shared memory that an endpoint takes which has had a session and is idle.
fn memory(at: SocketAddr) -> u64 {
    let _stop = start(at, 64);
    const PAIRS: usize = 200;
    let mut ends: Vec<[End<AgentPort>; 2]> = (0..PAIRS).map(|i| [by_agent(at, 2 * i as u64), by_agent(at, 2 * i as u64 + 1)]).collect();
    for (i, [client, server]) in ends.iter_mut().enumerate() {
        let (local, remote) = names(at, at, i);
        assert!(server.wire.listen(&remote));
        client.wire.resolve(1, Rendezvous::Client, &local, &remote);
        for _ in 0..2_000_000 {
            client.turn();
            server.turn();
            if client.link.is_some() && server.link.is_some() {
                break;
            }
        }
    }
    // Paths are probed with long packets for a while. Then the programs sleep, and look once when
    // it is time.
    let began = ends[0][0].wire.port().now();
    while ends[0][0].wire.port().now().since(began) < Duration::from_millis(500) {
        ends.iter_mut().flatten().for_each(|end| _ = end.receive());
        std::thread::yield_now();
    }
    ends.iter_mut().flatten().for_each(|end| end.wire.set_armed(true));
    std::thread::sleep(std::time::Duration::from_secs(1));
    ends.iter_mut().flatten().for_each(|end| _ = end.receive());
    segments_kib() / (2 * PAIRS as u64)
}

/// An agent without a thread, and a port of it that gives it turns while it waits.
fn beside(at: SocketAddr) -> (Beside, End<AgentPort>) {
    let agent = Arc::new(Mutex::new(Agent::open(AgentConfig { address: at, ..AgentConfig::default() }).expect("an agent")));
    let turns = Arc::clone(&agent);
    let seed = u64::from(at.port()) + u64::from(at.is_ipv4());
    let config = PortConfig { address: Some(at.ip()), ..PortConfig::new(seed.into()) };
    let port = AgentPort::open_beside(config, Box::new(move || _ = turns.lock().expect("no panic").step())).expect("the agent");
    let transport = port.transport_config().expect("randomness");
    (Some(agent), End { wire: PacketWire::new(port, transport, &host_address(SocketAddr::new(at.ip(), 0)), seed), link: None })
}

fn latency() {
    let at = |last: u8| SocketAddr::new(Ipv4Addr::new(127, 77, 5, last).into(), AGENT_PORT);
    println!("half round trip of 8 B:");
    println!("  direct UDP: {}", ping_pong([by_udp(at(1), 1), by_udp(at(2), 2)], [at(1), at(2)], [None, None], &[]));
    {
        let agent = start(at(3), 8);
        println!("  one agent: {}", ping_pong([by_agent(at(3), 1), by_agent(at(3), 2)], [at(3), at(3)], [None, None], &[agent.0.id()]));
    }
    {
        let agents = [start(at(4), 8), start(at(5), 8)];
        let pids = [agents[0].0.id(), agents[1].0.id()];
        println!("  two agents: {}", ping_pong([by_agent(at(4), 1), by_agent(at(5), 2)], [at(4), at(5)], [None, None], &pids));
    }
    let (near, client) = beside(at(9));
    let (far, server) = beside(at(10));
    println!("  two agents in the programs' threads: {}", ping_pong([client, server], [at(9), at(10)], [near, far], &[]));
}

fn main() {
    let at = |last: u8| SocketAddr::new(Ipv4Addr::new(127, 77, 5, last).into(), AGENT_PORT);
    let idle = || println!("an idle endpoint takes {} KiB of shared memory", memory(at(8)));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["agent", at, frames] => be_agent(at, frames),
        ["latency"] => (0..3).for_each(|_| latency()),
        ["rate"] => (0..3).for_each(|_| rates(at(6), at(7))),
        ["memory"] => idle(),
        [] => {
            latency();
            idle();
            rates(at(6), at(7));
        }
        _ => eprintln!("figures [latency | rate | memory]"),
    }
}
