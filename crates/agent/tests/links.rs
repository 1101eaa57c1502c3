// SPDX-License-Identifier: MIT OR Apache-2.0
//! NICs find each other, make sessions and exchange frames.

mod common;

use bellwire_agent::{Agent, AgentConfig, Counters};
use bellwire_memory::line_queue::Line;
use bellwire_wire::Transmit;
use bellwire_wire::address::NetAddress;
use bellwire_wire::agent::{AgentConfig as PortConfig, AgentPort};
use bellwire_wire::packet::{PacketPort, PacketWire};
use bellwire_wire::udp::host_address;
use bellwire_wire::{LinkId, Received, Rendezvous, Sent, Wire, WireEvent};
use common::{Running, address, config, endpoint};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

type Nic = PacketWire<AgentPort>;

fn nic(port: AgentPort, seed: u64) -> Nic {
    let transport = port.transport_config().unwrap();
    let host = host_address(SocketAddr::new(port.address().ip(), 0));
    PacketWire::new(port, transport, &host, seed)
}

/// The agent of an exchange.
enum Host {
    InThread(Running),
    ByHand(Arc<Mutex<Agent>>),
}

impl Host {
    fn in_thread(config: AgentConfig) -> Self {
        Self::InThread(Running::start(config))
    }

    fn by_hand(config: AgentConfig) -> Self {
        Self::ByHand(Arc::new(Mutex::new(Agent::open(config).unwrap())))
    }

    fn endpoint(&self, at: SocketAddr) -> AgentPort {
        let Self::ByHand(agent) = self else { return endpoint(at) };
        let agent = Arc::clone(agent);
        let meanwhile = Box::new(move || _ = agent.lock().unwrap().step());
        AgentPort::open_beside(PortConfig { address: Some(at.ip()), ..PortConfig::new(7.into()) }, meanwhile).unwrap()
    }

    fn turn(&self) {
        match self {
            Self::InThread(_) => std::thread::yield_now(),
            Self::ByHand(agent) => _ = agent.lock().unwrap().step(),
        }
    }

    fn end(self) -> Counters {
        match self {
            Self::InThread(running) => running.end(),
            Self::ByHand(agent) => agent.lock().unwrap().counters(),
        }
    }
}

fn turn(nic: &mut Nic) -> Option<LinkId> {
    nic.handle_control();
    nic.begin_turn();
    nic.flush();
    match nic.poll_event()? {
        WireEvent::LinkUp { link, .. } => Some(link),
        event => panic!("{event:?}"),
    }
}

/// The next frame's second word.
fn receive(nic: &mut Nic, link: LinkId) -> Option<u64> {
    nic.begin_turn();
    // SAFETY: the frame is used before anything else is done.
    match unsafe { nic.receive(link) } {
        Received::Frame(frame) => {
            let word = frame.word(1);
            nic.consume(link);
            Some(word)
        }
        Received::Empty => None,
        Received::Broken => panic!("the link broke"),
    }
}

/// Two NICs exchange frames beside `crowd` endpoints that want to be served all the time.
fn exchange(agent: Host, at: SocketAddr, crowd: usize) -> Counters {
    let mut crowd: Vec<_> = (0..crowd).map(|_| agent.endpoint(at)).collect();
    let mut nics = [nic(agent.endpoint(at), 1), nic(agent.endpoint(at), 2)];
    let host = host_address(SocketAddr::new(at.ip(), 0));
    let (client, server) = (NetAddress::new(&host, b"client").unwrap(), NetAddress::new(&host, b"server").unwrap());
    assert!(nics[1].listen(&server));
    nics[0].resolve(1, Rendezvous::Client, &client, &server);
    let mut links = [None, None];
    let until = nics[0].port().now() + bellwire_time::Duration::from_millis(20_000);
    let mut sent = [0u64; 2];
    let mut got = [0u64; 2];
    const COUNT: u64 = 300;
    while got != [COUNT; 2] {
        for i in 0..2 {
            links[i] = turn(&mut nics[i]).or(links[i]);
            let Some(link) = links[i] else { continue };
            // More at once than the agent keeps for an endpoint that is not resident.
            while sent[i] < COUNT && sent[i] < got[1 - i] + 32 {
                let mut line = Line::default();
                (line.0[0], line.0[1]) = (2, sent[i]);
                match nics[i].send(link, &mut line, 2) {
                    Sent::Yes => sent[i] += 1,
                    Sent::NoRoom => break,
                    other => panic!("{other:?}"),
                }
                nics[i].flush();
            }
            while let Some(word) = receive(&mut nics[i], link) {
                assert_eq!(word, got[i], "lost, doubled or out of order");
                got[i] += 1;
            }
        }
        for i in 1..crowd.len() {
            let to = crowd[i - 1].address();
            if crowd[i].is_ready() {
                crowd[i].send(&Transmit { to, bytes: &[0x10; 40], segment: None, fragment: false, session: None });
            }
            crowd[i].handle_control();
            while crowd[i].receive().is_some() {}
        }
        agent.turn();
        assert!(nics[0].port().now() < until, "links {links:?}, sent {sent:?}, got {got:?}");
    }
    let counters = agent.end();
    assert!(counters.broken == 0, "{counters:?}");
    counters
}

#[test]
fn frames_for_both() {
    let at = address();
    exchange(Host::in_thread(config(at, 2)), at, 0);
}

/// Both are unloaded again and again, and packets for them refused. The agent has a turn whenever
/// the programs have had one: in a thread of its own, on a busy machine, it may find both resident
/// for all packets.
#[test]
fn three_frames_in_a_crowd() {
    let at = address();
    let counters = exchange(Host::by_hand(config(at, 3)), at, 6);
    assert!(counters.not_resident > 0, "{counters:?}");
}

/// The memory of all stays mapped.
#[test]
fn three_frames_in_a_crowd_by_default() {
    let at = address();
    let counters = exchange(Host::in_thread(AgentConfig { address: at, frames: 3, ..AgentConfig::default() }), at, 6);
    assert!(counters.not_resident == 0, "{counters:?}");
}

/// While an endpoint waits for its turn, a few packets wait with it; then more may leave.
#[test]
fn few_packets_wait_for_a_turn() {
    let at = address();
    let agent = Host::by_hand(config(at, 2));
    let [mut sender, mut receiver] = [agent.endpoint(at), agent.endpoint(at)];
    let to = receiver.address();
    let mut came = 0;
    for round in 1..4 {
        // Others have the frames.
        let mut others = [agent.endpoint(at), agent.endpoint(at)];
        let around = [others[1].address(), others[0].address()];
        for (other, to) in others.iter_mut().zip(around) {
            other.send(&Transmit { to, bytes: &[0x10; 40], segment: None, fragment: false, session: None });
        }
        (0..20).for_each(|_| agent.turn());
        let written = (0..10).filter(|_| {
            let is_ready = sender.is_ready();
            if is_ready {
                sender.send(&Transmit { to, bytes: &[0x10; 40], segment: None, fragment: false, session: None });
            }
            is_ready
        });
        assert_eq!(written.count(), 4, "in round {round}");
        assert!(!sender.is_clear() && sender.next_timeout() != bellwire_time::Instant::NEVER);
        for _ in 0..200 {
            agent.turn();
            while receiver.receive().is_some() {
                came += 1;
            }
        }
        assert!(sender.is_ready() && came == 4 * round, "{came} in round {round}");
    }
}
