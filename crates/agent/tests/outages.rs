// SPDX-License-Identifier: MIT OR Apache-2.0
//! Agents that end under traffic: programs keep their addresses, and each message is handled once.

mod common;

use bellwire_memory::line_queue::Line;
use bellwire_time::Duration;
use bellwire_wire::address::NetAddress;
use bellwire_wire::agent::AgentPort;
use bellwire_wire::packet::{PacketPort, PacketWire};
use bellwire_wire::udp::host_address;
use bellwire_wire::{LinkId, Received, Rendezvous, Sent, Wire, WireEvent};
use common::{Running, address, config, endpoint};
use std::net::SocketAddr;

type Nic = PacketWire<AgentPort>;

fn nic(at: SocketAddr, seed: u64) -> Nic {
    let port = endpoint(at);
    let transport = port.transport_config().unwrap();
    PacketWire::new(port, transport, &host_address(SocketAddr::new(at.ip(), 0)), seed)
}

/// One end of a link: sends numbers, expects the peer's.
struct End {
    nic: Nic,
    link: Option<LinkId>,
    sent: u64,
    got: u64,
}

impl End {
    fn turn(&mut self, most: u64) {
        self.nic.handle_control();
        self.nic.begin_turn();
        match self.nic.poll_event() {
            Some(WireEvent::LinkUp { link, .. }) => self.link = Some(link),
            Some(event) => panic!("{event:?}, sent {}, got {}", self.sent, self.got),
            None => {}
        }
        let Some(link) = self.link else { return };
        if self.sent < most {
            let mut line = Line::default();
            (line.0[0], line.0[1]) = (2, self.sent);
            if self.nic.send(link, &mut line, 2) == Sent::Yes {
                self.sent += 1;
            }
        }
        self.nic.flush();
        self.nic.begin_turn();
        // SAFETY: the frame is used before anything else is done.
        while let Received::Frame(frame) = unsafe { self.nic.receive(link) } {
            assert_eq!(frame.word(1), self.got, "lost, doubled or out of order");
            self.got += 1;
            self.nic.consume(link);
        }
    }
}

fn pair(first: SocketAddr, second: SocketAddr) -> [End; 2] {
    let name = |at: SocketAddr, text: &[u8]| NetAddress::new(&host_address(SocketAddr::new(at.ip(), 0)), text).unwrap();
    let mut ends = [nic(first, 1), nic(second, 2)].map(|nic| End { nic, link: None, sent: 0, got: 0 });
    assert!(ends[1].nic.listen(&name(second, b"server")));
    ends[0].nic.resolve(1, Rendezvous::Client, &name(first, b"client"), &name(second, b"server"));
    ends
}

/// Both agents of a pair are ended, one after the other, while numbers go both ways.
#[test]
fn agents_end_and_come_back_under_traffic() {
    let rounds: u64 = std::env::var("BELLWIRE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let at = [address(), address()];
    let settings = |at| bellwire_agent::AgentConfig { grace: Duration::from_millis(5_000), ..config(at, 4) };
    let mut agents = at.map(|at| Some(Running::start(settings(at))));
    let mut ends = pair(at[0], at[1]);
    let addresses = ends.each_ref().map(|end| end.nic.port().address());
    for round in 0..rounds {
        let most = 20 * (round + 1);
        let victim = (round % 2) as usize;
        let until = ends[0].nic.port().now() + Duration::from_millis(30_000);
        let mut turns = 0u32;
        while ends.iter().any(|end| end.got < most) {
            ends.iter_mut().for_each(|end| end.turn(most));
            turns += 1;
            if turns == 20 {
                drop(agents[victim].take());
            }
            if turns == 60 {
                agents[victim] = Some(Running::start(settings(at[victim])));
            }
            assert!(ends[0].nic.port().now() < until, "round {round}: {:?}", ends.each_ref().map(|e| (e.sent, e.got)));
            std::thread::yield_now();
        }
        if agents[victim].is_none() {
            agents[victim] = Some(Running::start(settings(at[victim])));
        }
    }
    let until = ends[0].nic.port().now() + Duration::from_millis(30_000);
    while ends.iter().any(|end| !end.nic.port().is_attached() || end.got < 20 * rounds) && ends[0].nic.port().now() < until {
        ends.iter_mut().for_each(|end| end.turn(20 * rounds));
    }
    assert_eq!(ends.each_ref().map(|end| end.nic.port().address()), addresses, "addresses stay");
    assert!(ends.iter().all(|end| end.got == 20 * rounds));
}

/// A number belongs to whom it was given: another program that asks for it gets another.
#[test]
fn a_number_is_not_to_be_had_by_asking() {
    use bellwire_memory::fd_passing;
    use bellwire_wire::agent::messages::{Label, ToAgent, ToProgram};
    use rustix::fd::AsFd;
    let at = address();
    let _agent = Running::start(config(at, 4));
    let first = endpoint(at);
    let number = first.address().port();
    drop(first);
    let forged = bellwire_memory::region::sparse_memfd(&format!("bellwire-endpoint/{}/0/{:016x}", number + 1, 0), 4096).unwrap();
    for ticket in [None, Some(forged)] {
        let socket = fd_passing::connect_abstract(&bellwire_wire::agent::name_of_agent(Some(at.ip()))).unwrap();
        let (_bell, ringer) = bellwire_memory::event::pipe_of_bell().unwrap();
        let attach = ToAgent::Attach { number, network: Label::default(), key: Label::default() }.store();
        let fds: Vec<_> = [Some(ringer.as_fd()), ticket.as_ref().map(AsFd::as_fd)].into_iter().flatten().collect();
        fd_passing::send(socket.as_fd(), &attach, &fds).unwrap();
        let mut bytes = [0; 80];
        let answer = loop {
            match fd_passing::receive(socket.as_fd(), &mut bytes) {
                Ok(received) => break ToProgram::load(&bytes[..received.len]),
                Err(_) => std::thread::yield_now(),
            }
        };
        assert!(matches!(answer, Some(ToProgram::Attached { number: given, .. }) if given != number), "{answer:?}");
    }
}
