// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages in packets, each copied into a packet of the library's at the sender and out of one at
//! the receiver.
//!
//! ```text
//!  0      1          4          8          12         16
//!  | kind | reserved | number   | taken    | bytes of | payload
//!  |      |          | of data  | by us    | message  |
//! ```
//!
//! Data packets are numbered from 1. `taken` is how many the sender of this packet has taken: an
//! acknowledgement, which every packet carries. A receiver that acknowledges does so by a packet
//! after each message, or half a window; a sender keeps what is not acknowledged, and sends it
//! again after a while. Without acknowledgements a packet says `taken` after half a window alone,
//! so that the receiver's buffers do not run out, and nothing is kept.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::channel::Link;
use super::memory::{Block, Span};
use crate::error::Error;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 16;
/// Most payload of a packet.
pub const PAYLOAD_BYTES: usize = 8 << 10;
/// Bytes of a packet.
pub const PACKET_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;
/// Data packets that the receiver has not taken, at most.
pub const WINDOW: u32 = 8;
/// When what is not acknowledged is sent again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

const DATA: u8 = 1;
const TAKEN: u8 = 2;

/// A carrier of packets, in slots.
pub trait Carrier {
    /// A packet may get lost, so that it must be sent again.
    const MAY_LOSE: bool;

    /// A slot to fill.
    ///
    /// # Errors
    /// It is broken.
    fn take(&mut self) -> Result<Option<usize>, Error>;

    /// The bytes of a slot that was taken and is not on its way.
    fn fill(&mut self, slot: usize) -> &mut [u8];

    /// Sends the first bytes of a slot, which stays taken.
    ///
    /// # Errors
    /// It is broken.
    fn send(&mut self, slot: usize, bytes: usize) -> Result<(), Error>;

    /// Gives a slot back; it may still be on its way.
    fn free(&mut self, slot: usize);

    /// A packet that has come: its slot and bytes.
    ///
    /// # Errors
    /// It is broken.
    fn receive(&mut self) -> Result<Option<(usize, usize)>, Error>;

    /// The bytes of a slot that has come.
    fn came(&self, slot: usize) -> &[u8];

    /// Gives a slot that has come back, for another packet.
    ///
    /// # Errors
    /// It is broken.
    fn give_back(&mut self, slot: usize) -> Result<(), Error>;

    /// See [`Link::sleep`].
    ///
    /// # Errors
    /// It is broken.
    fn sleep(&mut self) -> Result<(), Error>;
}

/// The rungs with copies.
pub struct Packets<C> {
    carrier: C,
    acknowledges: bool,
    /// Data packets that have been sent, and that the peer has taken.
    given: u32,
    taken_there: u32,
    kept: VecDeque<(u32, usize, usize)>,
    again_at: Option<Instant>,
    /// Bytes of the message that is being sent.
    offset: usize,
    sent: u64,
    /// Data packets that have come in order, been taken out, and been acknowledged.
    came: u32,
    taken: u32,
    told: u32,
    owes: bool,
    held: VecDeque<(usize, usize)>,
    receives: VecDeque<Span>,
    filled: usize,
    received: u64,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl<C: Carrier> Packets<C> {
    /// On a carrier that nothing has gone over.
    pub fn new(carrier: C, acknowledges: bool) -> Self {
        Self {
            carrier,
            acknowledges,
            given: 0,
            taken_there: 0,
            kept: VecDeque::new(),
            again_at: None,
            offset: 0,
            sent: 0,
            came: 0,
            taken: 0,
            told: 0,
            owes: false,
            held: VecDeque::new(),
            receives: VecDeque::new(),
            filled: 0,
            received: 0,
        }
    }

    fn header(&mut self, slot: usize, kind: u8, number: u32, total: usize) {
        self.told = self.taken;
        let (taken, head) = (self.taken, &mut self.carrier.fill(slot)[..HEADER_BYTES]);
        head[..4].copy_from_slice(&[kind, 0, 0, 0]);
        head[4..8].copy_from_slice(&number.to_le_bytes());
        head[8..12].copy_from_slice(&taken.to_le_bytes());
        head[12..].copy_from_slice(&(total as u32).to_le_bytes());
    }

    /// Says how much has been taken, if there is a slot for it.
    fn tell(&mut self) -> Result<(), Error> {
        let Some(slot) = self.carrier.take()? else {
            self.owes = true;
            return Ok(());
        };
        self.owes = false;
        self.header(slot, TAKEN, 0, 0);
        self.carrier.send(slot, HEADER_BYTES)?;
        self.carrier.free(slot);
        Ok(())
    }

    /// Copies what is held to where it belongs.
    fn deliver(&mut self) -> Result<(), Error> {
        while let (Some(&(slot, bytes)), Some(to)) = (self.held.front(), self.receives.front()) {
            let packet = &self.carrier.came(slot)[..bytes];
            let (total, payload) = (word(packet, 12) as usize, &packet[HEADER_BYTES..]);
            if total > to.len() || payload.len() > total - self.filled.min(total) {
                return Err(Error::failed("a message longer than its receive"));
            }
            to.write(self.filled, payload);
            self.filled += payload.len();
            let is_whole = self.filled == total;
            self.carrier.give_back(slot)?;
            self.held.pop_front();
            self.taken += 1;
            if is_whole {
                (self.filled, self.received) = (0, self.received + 1);
                self.receives.pop_front();
            }
            if is_whole && self.acknowledges || self.taken - self.told >= WINDOW / 2 {
                self.tell()?;
            }
        }
        Ok(())
    }

    /// The peer has taken so many.
    fn acknowledged(&mut self, taken: u32) -> Result<(), Error> {
        if taken > self.given {
            return Err(Error::failed("packets are acknowledged that were not sent"));
        }
        self.taken_there = self.taken_there.max(taken);
        while let Some((number, slot, _)) = self.kept.front().copied().filter(|(number, ..)| *number <= taken) {
            debug_assert!(number != 0);
            self.carrier.free(slot);
            self.kept.pop_front();
            self.again_at = (!self.kept.is_empty()).then(|| Instant::now() + AGAIN_AFTER);
        }
        Ok(())
    }

    fn send_again(&mut self) -> Result<(), Error> {
        if C::MAY_LOSE && self.again_at.is_some_and(|at| Instant::now() >= at) {
            for (_, slot, bytes) in &self.kept {
                self.carrier.send(*slot, *bytes)?;
            }
            self.again_at = Some(Instant::now() + AGAIN_AFTER);
        }
        Ok(())
    }
}

impl<C: Carrier> Link for Packets<C> {
    fn memory(&mut self, bytes: usize) -> Result<Rc<Block>, Error> {
        Ok(Block::of_heap(bytes))
    }

    fn send(&mut self, from: &Span) -> Result<bool, Error> {
        loop {
            if self.given - self.taken_there >= WINDOW {
                return Ok(false);
            }
            let Some(slot) = self.carrier.take()? else { return Ok(false) };
            let bytes = (from.len() - self.offset).min(PAYLOAD_BYTES);
            self.given += 1;
            self.header(slot, DATA, self.given, from.len());
            from.read(self.offset, &mut self.carrier.fill(slot)[HEADER_BYTES..HEADER_BYTES + bytes]);
            self.carrier.send(slot, HEADER_BYTES + bytes)?;
            if self.acknowledges {
                self.kept.push_back((self.given, slot, HEADER_BYTES + bytes));
                self.again_at.get_or_insert_with(|| Instant::now() + AGAIN_AFTER);
            } else {
                self.carrier.free(slot);
            }
            self.offset += bytes;
            if self.offset == from.len() {
                (self.offset, self.sent) = (0, self.sent + 1);
                return Ok(true);
            }
        }
    }

    fn post(&mut self, to: &Span) -> Result<bool, Error> {
        self.receives.push_back(to.clone());
        self.deliver()?;
        Ok(true)
    }

    fn look(&mut self) -> Result<bool, Error> {
        if self.owes {
            self.tell()?;
        }
        let Some((slot, bytes)) = self.carrier.receive()? else {
            self.send_again()?;
            return Ok(false);
        };
        let packet = &self.carrier.came(slot)[..bytes];
        if bytes < HEADER_BYTES {
            return Err(Error::failed("a packet without a header"));
        }
        let (kind, number, taken) = (packet[0], word(packet, 4), word(packet, 8));
        self.acknowledged(taken)?;
        match kind {
            DATA if number == self.came + 1 && number - self.taken <= WINDOW => {
                self.came = number;
                self.held.push_back((slot, bytes));
                self.deliver()?;
            }
            // It came before, or after one that was lost.
            DATA => {
                self.carrier.give_back(slot)?;
                self.tell()?;
            }
            TAKEN => self.carrier.give_back(slot)?,
            _ => return Err(Error::failed("a packet of no kind")),
        }
        Ok(true)
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn sleep(&mut self) -> Result<(), Error> {
        self.carrier.sleep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::Wait;
    use crate::ladder::channel::Channel;
    use crate::ladder::udp::Datagrams;
    use std::net::UdpSocket;

    /// Loses, and sends twice, some of what is sent, by a seed.
    struct Faulty {
        inner: Datagrams,
        seed: u64,
        lost: u32,
    }

    impl Carrier for Faulty {
        const MAY_LOSE: bool = true;

        fn take(&mut self) -> Result<Option<usize>, Error> {
            self.inner.take()
        }
        fn fill(&mut self, slot: usize) -> &mut [u8] {
            self.inner.fill(slot)
        }
        fn send(&mut self, slot: usize, bytes: usize) -> Result<(), Error> {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let times = match self.seed >> 60 {
                0 => 0,
                1 => 2,
                _ => 1,
            };
            self.lost += u32::from(times == 0);
            (0..times).try_for_each(|_| self.inner.send(slot, bytes))
        }
        fn free(&mut self, slot: usize) {
            self.inner.free(slot);
        }
        fn receive(&mut self) -> Result<Option<(usize, usize)>, Error> {
            self.inner.receive()
        }
        fn came(&self, slot: usize) -> &[u8] {
            self.inner.came(slot)
        }
        fn give_back(&mut self, slot: usize) -> Result<(), Error> {
            self.inner.give_back(slot)
        }
        fn sleep(&mut self) -> Result<(), Error> {
            self.inner.sleep()
        }
    }

    const SIZES: [usize; 7] = [0, 1, 100, PAYLOAD_BYTES, PAYLOAD_BYTES + 1, 5 * PAYLOAD_BYTES, 20 * PAYLOAD_BYTES + 7];
    const MESSAGES: usize = 70;

    fn byte(message: usize, i: usize) -> u8 {
        (message * 7 + i + (i >> 8)) as u8
    }

    /// Sends all, receives as many, and goes on until both have ended.
    fn run<C: Carrier>(carrier: C, wait: Wait, ended: &std::sync::Barrier) -> Packets<C> {
        let mut link = Packets::new(carrier, true);
        let largest = SIZES.into_iter().max().unwrap();
        let spans: Vec<Span> = (0..2 * MESSAGES).map(|_| link.memory(largest).unwrap().whole()).collect();
        let mut channel = Channel::new(link, wait);
        let mut tokens = Vec::new();
        for (message, pair) in spans.chunks(2).enumerate() {
            let bytes = SIZES[message % SIZES.len()];
            tokens.push(channel.begin_receive(&pair[0]).unwrap());
            pair[1].write(0, &(0..bytes).map(|i| byte(message, i)).collect::<Vec<_>>());
            tokens.push(channel.begin_send(&pair[1].first(bytes)).unwrap());
        }
        for token in tokens {
            channel.wait(token).unwrap();
        }
        for (message, pair) in spans.chunks(2).enumerate() {
            let mut data = vec![0; SIZES[message % SIZES.len()]];
            pair[0].read(0, &mut data);
            assert!(data.iter().enumerate().all(|(i, b)| *b == byte(message, i)), "message {message}");
        }
        // What the other one still waits for may have got lost.
        std::thread::scope(|scope| {
            let both = scope.spawn(|| ended.wait());
            while !both.is_finished() {
                channel.progress().unwrap();
            }
        });
        channel.into_link()
    }

    fn pair() -> [UdpSocket; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
        sockets[1].connect(sockets[0].local_addr().unwrap()).unwrap();
        sockets
    }

    #[test]
    fn what_is_lost_or_doubled_arrives_once_and_in_order() {
        for (seed, wait) in [(1, Wait::Poll), (2, Wait::Sleep)] {
            let ended = std::sync::Barrier::new(2);
            let lost: u32 = std::thread::scope(|scope| {
                let ends = pair().map(|socket| {
                    let ended = &ended;
                    scope.spawn(move || run(Faulty { inner: Datagrams::new(socket).unwrap(), seed, lost: 0 }, wait, ended).carrier.lost)
                });
                ends.into_iter().map(|end| end.join().unwrap()).sum()
            });
            assert!(lost > 10, "{lost} lost");
        }
    }

    #[test]
    fn nonsense_of_a_peer_is_an_error() {
        let packet = |kind: u8, number: u32, taken: u32, total: u32, payload: usize| {
            let head = [u32::from(kind), number, taken, total].map(u32::to_le_bytes).concat();
            [head, vec![0; payload]].concat()
        };
        let nonsense =
            [vec![1; 3], packet(9, 1, 0, 4, 4), packet(DATA, 1, 1, 4, 4), packet(DATA, 1, 0, 400, 4), packet(DATA, 1, 0, 4, 5), packet(TAKEN, 0, 7, 0, 0)];
        for packet in nonsense {
            let [own, peer] = pair();
            let mut link = Packets::new(Datagrams::new(own).unwrap(), true);
            let span = link.memory(64).unwrap().whole();
            assert!(link.post(&span).unwrap());
            peer.send(&packet).unwrap();
            let outcome = loop {
                match link.look() {
                    Ok(false) => std::thread::yield_now(),
                    outcome => break outcome,
                }
            };
            assert!(outcome.is_err(), "{packet:?}");
        }
        // Out of turn: not taken, and no error.
        let [own, peer] = pair();
        let mut link = Packets::new(Datagrams::new(own).unwrap(), true);
        peer.send(&packet(DATA, 5, 0, 4, 4)).unwrap();
        while !link.look().unwrap() {
            std::thread::yield_now();
        }
        assert_eq!((link.came, link.received()), (0, 0));
    }
}
