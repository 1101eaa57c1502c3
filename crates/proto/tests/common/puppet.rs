// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer played by hand: it says what a test wants to be said, to one transport.

use bellwire_proto::packet::data::{Answer, Data};
use bellwire_proto::packet::handshake::Party;
use bellwire_proto::packet::{Hello, Packet};
use bellwire_proto::{Duration, Event, Instant, NicId, SessionId, Transport};
use std::net::SocketAddr;

pub struct Puppet {
    pub transport: Transport<Vec<u8>>,
    pub address: SocketAddr,
    pub now: Instant,
    pub party: Party,
    /// The transport's id for the session, and its first packet's number.
    pub session: u64,
    pub their_psn: u32,
    pub psn: u32,
    /// The transport's end.
    pub end: Option<SessionId>,
}

/// Bytes of one packet.
pub fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    let mut out = vec![0; 70_000];
    let n = packet.emit(&mut out);
    out.truncate(n);
    out
}

/// A frame with one word of head.
pub fn frame(word: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![1, 0];
    out.extend((payload.len() as u16).to_le_bytes());
    out.extend(word.to_le_bytes());
    out.extend(payload);
    out
}

impl Puppet {
    pub fn strange(transport: Transport<Vec<u8>>) -> Self {
        let party =
            Party { nic: NicId([0xaa; 16]), boot: 5, session: 0x1_0000_0001, attempt: 1, features: 0, datagram: 1200, psn: u32::MAX - 2, room: 1 << 20 };
        let now = Instant(5_000_000);
        Self { transport, address: "10.9.9.9:9".parse().unwrap(), now, party, session: 0, their_psn: 0, psn: party.psn, end: None }
    }

    /// With a session that is up, begun from here.
    pub fn connected(transport: Transport<Vec<u8>>) -> Self {
        Self::connected_with(transport, 1 << 20)
    }

    /// .. with room for so many bytes in flight.
    pub fn connected_with(transport: Transport<Vec<u8>>, room: u32) -> Self {
        let mut puppet = Self::strange(transport);
        puppet.party.room = room;
        assert!(puppet.shake_hands());
        puppet.say(&Packet::Data(puppet.data(0, false, &[])));
        puppet.psn = puppet.psn.wrapping_add(1);
        match puppet.transport.poll_event() {
            Some(Event::Up { incoming: true, context: None, session, .. }) => puppet.end = Some(session),
            other => panic!("{other:?}"),
        }
        puppet.hear();
        puppet.now = puppet.now + Duration::from_micros(1);
        puppet
    }

    /// Up to WELCOME; whether it came.
    pub fn shake_hands(&mut self) -> bool {
        let mut hello = Hello { timestamp: 1, party: self.party, nonce: 7, versions: [1, 1], cookie: [0; 16] };
        for _ in 0..2 {
            for p in self.ask(&bytes(&Packet::Hello(hello))) {
                match Packet::parse(&p).unwrap() {
                    Packet::Cookie(c) => hello.cookie = c.cookie,
                    Packet::Welcome(w) => {
                        assert_eq!(w.nonce, 7);
                        (self.session, self.their_psn) = (w.party.session, w.party.psn);
                        return true;
                    }
                    _ => {}
                }
            }
        }
        false
    }

    pub fn id(&self) -> SessionId {
        self.end.expect("a session")
    }

    pub fn data<'a>(&self, stream_back: u16, ordered: bool, frames: &'a [u8]) -> Data<'a> {
        let timestamp = (self.now.0 >> 6) as u32;
        Data {
            session: self.session,
            psn: self.psn,
            stream_back,
            ordered,
            ack_now: false,
            retransmitted: false,
            timestamp,
            answer: Answer::default(),
            frames,
            count: 0,
        }
    }

    pub fn say(&mut self, packet: &Packet<'_>) {
        let bytes = bytes(packet);
        self.transport.handle_packet(self.now, self.address, bytes);
    }

    /// What the transport sends now.
    pub fn hear(&mut self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(t) = self.transport.poll_transmit(self.now) {
            let size = t.segment.unwrap_or(t.bytes.len());
            out.extend(t.bytes.chunks(size).map(<[u8]>::to_vec));
        }
        out
    }

    pub fn ask(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.transport.handle_packet(self.now, self.address, bytes.to_vec());
        self.hear()
    }

    /// Time passes; what the transport sends meanwhile, without being answered.
    pub fn wait(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let until = self.now + time;
        let mut out = Vec::new();
        while self.transport.next_timeout() <= until {
            self.now = self.now.max(self.transport.next_timeout());
            self.transport.handle_timeout(self.now);
            out.extend(self.hear());
        }
        self.now = until;
        out
    }

    /// The first words of the heads of everything that can be delivered.
    pub fn delivered(&mut self) -> Vec<u64> {
        let mut out = Vec::new();
        while let Some(session) = self.transport.next_delivery() {
            while let Some(d) = self.transport.poll_deliver(session) {
                out.extend(d.frames().map(|f| f.head[0]));
            }
        }
        out
    }

    pub fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.transport.poll_event()).collect()
    }
}
