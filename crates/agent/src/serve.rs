// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint's turn: its packets go to endpoints of this host, ring to ring, or to other agents;
//! and what other agents send goes to endpoints.

use crate::agent::Agent;
use crate::network::{HEADER_BYTES, Header};
use bellwire_memory::packet_ring::{Corrupt, Record};
use bellwire_residency::EndpointId;
use bellwire_wire::agent::segment::{AgentEnd, Kind};
use bellwire_wire::agent::{SHOWN_BYTES, directory, is_data};
use std::net::{IpAddr, SocketAddr};

/// Datagrams of other agents taken in a round: with thousands of endpoints a round is long, and the
/// kernel drops what its buffer has no room for meanwhile.
const DATAGRAMS_PER_ROUND: usize = 1024;

/// A packet, where it lies.
#[derive(Clone, Copy)]
enum Packet<'a> {
    /// In the ring of its sender, who may still change it.
    InRing(&'a AgentEnd, &'a Record, usize),
    /// In the agent's memory.
    Here(&'a [u8]),
}

impl Packet<'_> {
    fn length(&self) -> usize {
        match self {
            Self::InRing(_, _, length) => *length,
            Self::Here(bytes) => bytes.len(),
        }
    }

    /// Copies its first bytes; `to` is no longer than it is.
    fn copy(&self, to: &mut [u8]) {
        match self {
            Self::InRing(end, record, _) => end.copy_packet(record, to),
            Self::Here(bytes) => to.copy_from_slice(&bytes[..to.len()]),
        }
    }

    fn deliver(&self, from: &SocketAddr, to: &mut AgentEnd) -> Result<bool, Corrupt> {
        match self {
            Self::InRing(end, record, _) => end.forward(record, from, to),
            Self::Here(bytes) => to.deliver(Kind::Packet, from, bytes),
        }
    }

    /// Of a data packet: what its sender is shown if it is refused.
    fn shown(&self) -> Option<[u8; SHOWN_BYTES]> {
        if self.length() < SHOWN_BYTES {
            return None;
        }
        let mut begin = [0; SHOWN_BYTES];
        self.copy(&mut begin);
        is_data(&begin).then_some(begin)
    }
}

/// The end of a packet.
enum Fate {
    /// Delivered, or lost where that is allowed.
    Done,
    /// Its receiver is not resident; what its sender is shown.
    Refused([u8; SHOWN_BYTES]),
    /// There is no such endpoint.
    Gone,
}

impl Agent {
    /// Serves a resident endpoint; how many packets it had.
    pub(crate) fn serve(&mut self, place: u32) -> u32 {
        let Some(endpoint) = self.endpoints.get_mut(place) else { return 0 };
        let network = endpoint.network;
        let Some(mut end) = endpoint.end.take() else { return 0 };
        let (mut packets, mut bytes, mut attempts) = (0, 0, self.config.loiter);
        let mut broken = None;
        while packets < self.config.turn_packets && bytes < self.config.turn_bytes {
            let record = match end.tx.peek() {
                Ok(Some(record)) => record,
                // Of an endpoint that had packets more are hoped for.
                Ok(None) if packets > 0 && attempts > 0 => {
                    attempts -= 1;
                    core::hint::spin_loop();
                    continue;
                }
                Ok(None) => break,
                Err(_) => {
                    broken = Some(place);
                    break;
                }
            };
            let Some((to, length)) = end.head(&record).filter(|_| Kind::of(record.tag) == Some(Kind::Packet)) else {
                broken = Some(place);
                break;
            };
            packets += 1;
            bytes += length;
            let victim = self.route(place, &mut end, network, to, (&record, length));
            end.tx.consume(&record);
            if victim == Some(place) {
                broken = victim;
                break;
            } else if let Some(other) = victim {
                self.end_endpoint(other);
            }
        }
        end.tx.publish();
        if packets > 0 {
            self.residency.access(self.now, EndpointId(place));
        }
        if let Some(endpoint) = self.endpoints.get_mut(place) {
            let (_, for_room) = if packets > 0 { end.wants_ring() } else { (false, false) };
            if for_room {
                let _ = endpoint.bell.ring();
            }
            endpoint.packets += u64::from(packets);
            endpoint.end = Some(end);
        }
        if let Some(broken) = broken {
            self.end_endpoint(broken);
        }
        packets
    }

    /// Sends a packet of the endpoint at `place` on its way. An endpoint that broke its end.
    fn route(&mut self, place: u32, end: &mut AgentEnd, network: u64, to: SocketAddr, (record, length): (&Record, usize)) -> Option<u32> {
        let from = self.address_of(self.endpoints.get(place)?.number);
        if to.ip() != from.ip() {
            let header = Header { kind: Kind::Packet, to: to.port(), from: from.port(), network };
            self.network.send(self.now, to.ip(), header, length, |bytes| end.copy_packet(record, bytes));
            return None;
        }
        let notice: (Kind, Vec<u8>) = if to.port() == 0 {
            let mut question = [0; directory::QUESTION_BYTES];
            if length != question.len() {
                return None;
            }
            end.copy_packet(record, &mut question);
            (Kind::Packet, directory::answer(&question, |name| self.endpoints.find(network, name))?)
        } else if to.port() == from.port() {
            // To itself: from one of its rings to the other.
            let mut bytes = vec![0; length];
            end.copy_packet(record, &mut bytes);
            (Kind::Packet, bytes)
        } else {
            match self.deliver(network, to.port(), from, Packet::InRing(end, record, length)) {
                Ok(Fate::Done) => return None,
                Ok(Fate::Refused(shown)) => (Kind::NotResident, shown.to_vec()),
                Ok(Fate::Gone) => (Kind::Gone, Vec::new()),
                Err(broken) => return Some(broken),
            }
        };
        self.note(place);
        end.deliver(notice.0, &to, &notice.1).is_err().then_some(place)
    }

    /// Delivers a packet to an endpoint of this host. An error: the endpoint broke its end.
    fn deliver(&mut self, network: u64, number: u16, from: SocketAddr, packet: Packet<'_>) -> Result<Fate, u32> {
        let now = self.now;
        let Some(place) = self.endpoints.place_of(number) else {
            // Programs of the agent before may not have come back yet.
            return Ok(if now.since(self.began) < self.config.grace { Fate::Done } else { Fate::Gone });
        };
        let Some(endpoint) = self.endpoints.get_mut(place).filter(|e| e.network == network) else {
            self.counters.foreign += 1;
            return Ok(Fate::Done);
        };
        let Some(end) = &mut endpoint.end else {
            let is_kept = self.endpoints.park(place, from, packet.length(), |bytes| packet.copy(bytes));
            self.demand(place);
            // Only of data is there a refusal; its sender tries again, anything else is lost.
            let shown = if is_kept { None } else { packet.shown() };
            let Some(shown) = shown else { return Ok(Fate::Done) };
            if let Some(endpoint) = self.endpoints.get_mut(place) {
                endpoint.is_expecting = true;
            }
            self.counters.not_resident += 1;
            return Ok(Fate::Refused(shown));
        };
        endpoint.is_expecting = false;
        match packet.deliver(&from, end) {
            Ok(delivered) => self.counters.dropped += u64::from(!delivered),
            Err(Corrupt) => return Err(place),
        }
        self.residency.access(now, EndpointId(place));
        self.note(place);
        Ok(Fate::Done)
    }

    /// Delivers the packets that were kept for an endpoint: it is resident now.
    pub(crate) fn unpark(&mut self, place: u32) {
        let parked = self.endpoints.unpark(place);
        let Some(endpoint) = self.endpoints.get_mut(place) else { return };
        if let Some(end) = &mut endpoint.end {
            // A ring that is broken or full: the packets are lost; the turn that comes finds out.
            let delivered = parked.iter().filter(|(from, bytes)| end.deliver(Kind::Packet, from, bytes) == Ok(true)).count();
            if delivered > 0 {
                self.note(place);
            }
        }
    }

    /// Takes what other agents have sent; how many datagrams.
    pub(crate) fn serve_network(&mut self) -> usize {
        let mut bytes = core::mem::take(&mut self.datagram);
        let mut taken = 0;
        while taken < DATAGRAMS_PER_ROUND
            && let Some(datagram) = self.network.receive(&mut bytes)
        {
            taken += 1;
            if let Some((ip, header, length)) = datagram {
                self.take_datagram(ip, header, &bytes[HEADER_BYTES..length]);
            }
        }
        self.datagram = bytes;
        taken
    }

    fn take_datagram(&mut self, ip: IpAddr, header: Header, packet: &[u8]) {
        let from = self.network.endpoint_at(ip, header.from);
        let answer = |agent: &mut Self, kind, bytes: &[u8]| {
            let back = Header { kind, to: header.from, from: header.to, network: header.network };
            agent.network.send(agent.now, ip, back, bytes.len(), |to| to.copy_from_slice(bytes));
        };
        match header.kind {
            Kind::Packet if header.to == 0 => {
                if let Some(found) = directory::answer(packet, |name| self.endpoints.find(header.network, name)) {
                    answer(self, Kind::Packet, &found);
                }
            }
            Kind::Packet => match self.deliver(header.network, header.to, from, Packet::Here(packet)) {
                Ok(Fate::Done) => {}
                Ok(Fate::Refused(shown)) => answer(self, Kind::NotResident, &shown),
                Ok(Fate::Gone) => answer(self, Kind::Gone, &[]),
                Err(broken) => self.end_endpoint(broken),
            },
            kind @ (Kind::Gone | Kind::NotResident) => {
                let Some(place) = self.endpoints.place_of(header.to) else { return };
                let Some(endpoint) = self.endpoints.get_mut(place).filter(|e| e.network == header.network) else { return };
                // A sender that is not resident any more finds out by itself.
                let Some(end) = &mut endpoint.end else { return };
                match end.deliver(kind, &from, &packet[..packet.len().min(SHOWN_BYTES)]) {
                    Ok(_) => self.note(place),
                    Err(Corrupt) => self.end_endpoint(place),
                }
            }
        }
    }
}
