// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of a program, messages of peers, links that open and break, and time, for connection
//! management.
//!
//! Asserted besides: a channel is told of its events when they begin and end, only claimed services
//! are released, only known links are closed, and nothing is left of channels that end.

use crate::input::Input;
use bellwire_cm::{Channel, Cm, Gid, Host, IdOption, Link, Parameters, QpKind, Service, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

const STEPS_MAX: usize = 400;
const OWN: Gid = [1; 16];

#[derive(Default)]
struct World {
    claims: BTreeSet<Service>,
    links: BTreeSet<Link>,
    made: u64,
    readable: BTreeMap<Channel, bool>,
}

impl Host for World {
    fn claim(&mut self, service: Service) -> bool {
        // Another process has one port of four.
        service.port % 4 != 3 && self.claims.insert(service)
    }

    fn release(&mut self, service: Service) {
        assert!(self.claims.remove(&service), "only what was claimed is released");
    }

    fn open(&mut self, _gid: Gid, service: Service) -> Option<Link> {
        if service.port % 3 == 2 {
            return None;
        }
        self.made += 1;
        self.links.insert(Link(self.made));
        Some(Link(self.made))
    }

    fn may_answer(&mut self, _gid: Gid, service: Service) -> bool {
        service.port.is_multiple_of(2)
    }

    fn close(&mut self, link: Link) {
        assert!(self.links.remove(&link), "only a link that is there is closed");
    }

    fn send(&mut self, link: Link, message: &[u8]) {
        assert!(self.links.contains(&link) && message.len() <= bellwire_cm::MESSAGE_BYTES_MAX);
    }

    fn has_completions(&mut self, qp: u32) -> bool {
        !qp.is_multiple_of(2)
    }

    fn signal(&mut self, channel: Channel, has_events: bool) {
        let was = self.readable.insert(channel, has_events).unwrap_or(false);
        assert_ne!(was, has_events, "a channel is told of changes only");
    }
}

fn parameters(input: &mut Input<'_>) -> Parameters {
    let length = usize::from(input.u8());
    Parameters { qp: u32::from(input.u8()), responder_resources: input.u8(), initiator_depth: input.u8(), data: vec![7; length], ..Parameters::default() }
}

fn address(input: &mut Input<'_>) -> SocketAddr {
    const KNOWN: [&str; 4] = ["0.0.0.0:0", "10.0.0.1:0", "[::]:0", "[fd00::1]:0"];
    let mut address: SocketAddr = KNOWN[usize::from(input.u8() % 4)].parse().expect("an address");
    address.set_port(u16::from(input.u8() % 8) * 1000);
    address
}

/// A message: its head is one as far as that goes, with small numbers; or anything.
fn message(input: &mut Input<'_>) -> Vec<u8> {
    let length = usize::from(input.u8());
    let mut bytes: Vec<u8> = (0..84).map(|_| 0).collect();
    for at in [0, 1, 3, 7, 11, 19, 23, 35] {
        bytes[at] = input.u8();
    }
    if bytes[0] & 0x80 == 0 {
        (bytes[0], bytes[3]) = (1 + bytes[0] % 9, 2 + bytes[3] % 3);
        (bytes[7], bytes[11]) = (bytes[7] % 16, bytes[11] % 16);
        bytes[2] = (length % 225) as u8;
        (bytes[12], bytes[13]) = (1, if bytes[3] == 4 { 0x11 } else { 6 });
        bytes[14..16].copy_from_slice(&(u16::from(input.u8() % 8) * 1000).to_be_bytes());
    }
    bytes.resize(84 + length % 225, input.u8());
    bytes
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (mut cm, mut world, mut now) = (Cm::new(OWN, 1), World::default(), 1_u64);
    let channels = [cm.create_channel(), cm.create_channel()];
    input.drive(STEPS_MAX, |input| {
        let (what, channel, id) = (input.u8(), channels[usize::from(input.u8() % 2)], u32::from(input.u8() % 16));
        let host = &mut world;
        match what % 24 {
            0 | 1 => {
                let space = [Space::Tcp, Space::Udp, Space::Ib][usize::from(input.u8() % 3)];
                let kind = [QpKind::Reliable, QpKind::Datagram, QpKind::Unreliable][usize::from(input.u8() % 3)];
                let _ = cm.create_id(channel, u64::from(what), space, kind);
            }
            2 => drop(cm.destroy_id(host, channel, id)),
            3 => drop(cm.bind(host, channel, id, address(input), what & 64 != 0)),
            4 => drop(cm.listen(host, channel, id, u32::from(input.u8()))),
            5 => {
                let (to, found) = (address(input), if what & 64 == 0 { Ok(([10, 0, 0, 1].into(), OWN)) } else { Err(113) });
                let _ = cm.resolve_address(host, channel, id, to, found);
            }
            6 => drop(cm.resolve_route(host, channel, id)),
            7 | 8 => drop(cm.connect(host, channel, id, parameters(input), now)),
            9 | 10 => {
                let named = (what & 64 == 0).then(|| (9, parameters(input)));
                let _ = cm.accept(host, channel, id, named, now);
            }
            11 => drop(cm.reject(host, channel, id, u32::from(input.u8()), &[1; 100])),
            12 => drop(cm.disconnect(host, channel, id, now)),
            13 => drop(cm.notify(host, channel, id)),
            14 => drop(cm.migrate(host, channel, id, channels[usize::from(input.u8() % 2)])),
            15 => drop(cm.join(host, channel, id, 3, [0xff; 16])),
            16 => drop(cm.leave(host, channel, id)),
            17 => {
                let option = [IdOption::ReuseAddress(true), IdOption::FamilyOnly(true), IdOption::AckTimeout(input.u8()), IdOption::Tos(1)];
                let _ = cm.set_option(channel, id, option[usize::from(input.u8() % 4)]);
            }
            18 => {
                let _ = (cm.attributes(channel, id, u32::from(input.u8() % 8)), cm.route(channel, id));
            }
            19 => {
                assert_eq!(host.readable.get(&channel).copied().unwrap_or(false), cm.has_events(channel));
                let _ = cm.take_event(host, channel);
            }
            20 => {
                host.made += 1;
                let link = Link(host.made);
                host.links.insert(link);
                cm.accepted(link, [input.u8(); 16]);
            }
            21 => {
                let link = Link(u64::from(input.u8() % 16));
                if what & 64 == 0 {
                    cm.opened(host, link, now);
                } else if host.links.remove(&link) {
                    cm.closed(host, link, what & 32 != 0, now);
                }
            }
            22 => {
                let link = Link(u64::from(input.u8() % 16));
                let bytes = message(input);
                cm.message(host, link, &bytes, now);
            }
            _ => {
                now += u64::from(input.u8()) << (what / 8);
                if let Some(at) = cm.next_time().filter(|_| what & 64 != 0) {
                    now = now.max(at);
                }
                cm.tick(host, now);
            }
        }
    });
    for channel in channels {
        cm.destroy_channel(&mut world, channel);
    }
    assert!(cm.ids() == 0 && world.claims.is_empty(), "nothing is left");
}
