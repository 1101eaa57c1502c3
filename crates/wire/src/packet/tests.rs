// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a packet wire makes of time, over a port whose clock the test sets.

use super::*;
use crate::LinkFailure;
use crate::time::Duration;
use bellwire_proto::{NicId, Transmit};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// From leaving to arriving.
const FLIGHT: Duration = Duration::from_micros(5);

/// Datagrams under way: from, to, when they can be there, bytes.
type Flying = RefCell<VecDeque<(SocketAddr, SocketAddr, Instant, Vec<u8>)>>;

#[derive(Default)]
struct Network {
    clock: Cell<u64>,
    flying: Flying,
}

struct Port {
    network: Rc<Network>,
    own: SocketAddr,
    located: VecDeque<(u64, Result<SocketAddr, LinkFailure>)>,
    other: SocketAddr,
}

impl PacketPort for Port {
    type Buffer = Vec<u8>;

    fn name(&self) -> &'static str {
        "test"
    }
    fn now(&self) -> Instant {
        Instant(self.network.clock.get())
    }
    fn send(&mut self, transmit: &Transmit<'_>) {
        for packet in transmit.bytes.chunks(transmit.segment.unwrap_or(transmit.bytes.len())) {
            self.network.flying.borrow_mut().push_back((self.own, transmit.to, self.now() + FLIGHT, packet.to_vec()));
        }
    }
    /// Waits for the datagram, if it is on its way: the look goes on for that long.
    fn receive(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        let mut flying = self.network.flying.borrow_mut();
        let at = flying.iter().position(|(_, to, ..)| *to == self.own)?;
        let (from, _, there, bytes) = flying.remove(at)?;
        self.network.clock.set(self.network.clock.get().max(there.0));
        Some((from, bytes))
    }
    fn expects_more(&self) -> bool {
        false
    }
    fn listen(&mut self, _: &NetAddress) -> bool {
        true
    }
    fn unlisten(&mut self, _: &NetAddress) {}
    fn locate(&mut self, request: u64, _: Rendezvous, _: &NetAddress, _: &NetAddress) {
        self.located.push_back((request, Ok(self.other)));
    }
    fn forget(&mut self, _: u64) {}
    fn poll_located(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)> {
        self.located.pop_front()
    }
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }
    fn is_busy(&self) -> bool {
        true
    }
}

fn wires() -> (Rc<Network>, [PacketWire<Port>; 2]) {
    let network = Rc::new(Network::default());
    network.clock.set(1_000_000_000);
    let address = |n: u8| SocketAddr::from(([10, 0, 0, n], 7));
    let wire = |n: u8| {
        let port = Port { network: Rc::clone(&network), own: address(n), located: VecDeque::new(), other: address(3 - n) };
        PacketWire::new(port, Config { nic: NicId([n; 16]), boot: 1, probe_path: false, ..Config::default() }, &[10, 0, 0, n], u64::from(n))
    };
    let wires = [wire(1), wire(2)];
    (network, wires)
}

fn connect(wires: &mut [PacketWire<Port>; 2]) -> [LinkId; 2] {
    let name = |n: u8| NetAddress::new(&[10, 0, 0, n], b"x").unwrap();
    wires[0].resolve(1, Rendezvous::Client, &name(1), &name(2));
    for _ in 0..10 {
        wires.iter_mut().for_each(PacketWire::look);
    }
    [0, 1].map(|i: usize| wires[i].links()[0])
}

fn send(wire: &mut PacketWire<Port>, link: LinkId) {
    let mut line = Line::default();
    line.0[0] = frame::Head::new(frame::Op::Send, 5).inline(8).0;
    assert_eq!(wire.send(link, &mut line, 2), Sent::Yes);
    wire.flush();
}

fn take(wire: &mut PacketWire<Port>, link: LinkId) {
    for _ in 0..4 {
        wire.begin_turn();
        // SAFETY: F2: the frame is used before it is consumed.
        if let Received::Frame(frame) = unsafe { wire.receive(link) } {
            assert_eq!(frame.head().to(), 5);
            return wire.consume(link);
        }
    }
    panic!("nothing came");
}

#[test]
fn a_packet_that_leaves_during_a_look_shows_no_shorter_way() {
    //= P-CONG-2
    //= P-ACK-6
    let (network, mut wires) = wires();
    let links = connect(&mut wires);
    let [a, b] = &mut wires;
    for _ in 0..200 {
        let base = network.clock.get() + 1_000_000;
        // It leaves 10 us after the look has begun that takes it.
        network.clock.set(base + 10_000);
        send(b, links[1]);
        network.clock.set(base);
        take(a, links[0]);
        send(a, links[0]);
        take(b, links[1]);
    }
    let path = b.path(links[1]).unwrap();
    // Timestamps count 64 ns.
    assert!(path.rtt_min.0 >= 2 * FLIGHT.0 - 64, "{path:?}");
    assert!(path.rtt.0 <= 3 * FLIGHT.0, "{path:?}");
}

/// A program that sleeps between messages wakes for messages alone; and of messages in quick
/// succession not each is acknowledged by itself.
#[test]
fn who_goes_to_sleep_acknowledges_before() {
    //= P-ACK-4
    let (network, mut wires) = wires();
    let links = connect(&mut wires);
    let [a, b] = &mut wires;
    let delay = Config::default().ack_delay;
    let acknowledgements = |wire: &PacketWire<Port>| wire.transport.statistics().acks_out;
    for _ in 0..20 {
        let (now, before) = (network.clock.get() + 1_000_000, acknowledgements(b));
        network.clock.set(now);
        send(a, links[0]);
        take(b, links[1]);
        assert!(b.next_timeout() <= Instant(now + 2 * delay.0) && a.has_outstanding());
        b.acknowledge_before_sleep();
        assert!(acknowledgements(b) == before + 1 && b.next_timeout() > Instant(now + 50 * delay.0), "{:?}", b.next_timeout());
        a.look();
        assert!(!a.has_outstanding());
        // The next one at once.
        network.clock.set(now + 1_000);
        send(a, links[0]);
        take(b, links[1]);
        b.acknowledge_before_sleep();
        assert!(acknowledgements(b) == before + 1 && b.next_timeout() <= Instant(now + 2 * delay.0));
    }
}
