// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending half of a session: packets written, in flight, and not yet released. Frames go
//! straight into the ring, behind a header that is complete except for what is only known when the
//! packet leaves. Each packet has a slot in a table indexed by its number.
//!
//! ```text
//!     una              next             end
//!      | in flight, ..  | written only   |
//! ```
//!
//! How packets leave is in `tx_window/leave.rs`, what acknowledgements do to it in `tx_acks.rs`,
//! losses and timeouts in `tx_window/losses.rs`.

pub(crate) mod joining;
pub(crate) mod leave;
pub(crate) mod losses;

use crate::config::{Config, DATA_HEADER, FRAME_HEADER, HEAD_WORDS_MAX};
use crate::event::{Refusal, Sent};
use crate::packet::auth;
use crate::packet::data::DataHeader;
use crate::packet::header::{AUTH, Header, Kind, ORDERED};
use crate::sequence::PacketSet;
use crate::tx_ring::Ring;
use bellwire_seal::Association;
use bellwire_time::Instant;
use joining::Joining;
use losses::Losses;
use zerocopy::FromBytes;

const LANE_BITS: u32 = 10;
/// Packets that the table of slots is for at first; a power of two.
const SLOTS_INITIAL: usize = 64;

/// What a packet is waiting for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// For leaving.
    #[default]
    Written,
    /// For an acknowledgement.
    Flying,
    /// It has arrived; for being accepted.
    Arrived,
    /// For leaving again.
    Lost,
    /// It was refused; for its time to leave again.
    Refused,
}

/// A packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// When it left last, in ns.
    pub(crate) sent: u64,
    /// Refused: when it may leave again. Arrived: when that became known.
    pub(crate) due: u64,
    /// Its place in the ring.
    pub(crate) start: u32,
    pub(crate) length: u32,
    /// Frames at its beginning that the peer accepted when it refused the rest.
    pub(crate) consumed: u16,
    pub(crate) refusals: u16,
    pub(crate) state: State,
    /// Transmissions but the first, saturating.
    pub(crate) tries: u8,
    /// Whether the last retransmission was because later packets had arrived.
    pub(crate) fast: bool,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Tx {
    /// The peer's id for the session, for headers.
    peer: u64,
    /// Bytes of a packet beside its frames; and those behind them, for which its length has room.
    pub(crate) overhead: usize,
    trailer: usize,
    pub(crate) una: u32,
    pub(crate) next: u32,
    pub(crate) end: u32,
    pub(crate) slots: Vec<Slot>,
    pub(crate) ring: Ring,
    /// The last packet of each lane: streams are hashed to lanes, and those that share one are
    /// ordered among each other.
    lanes: Vec<u32>,
    /// The lane of the last packet, which may take more frames if it has not left; whether it waits
    /// for all earlier ones.
    open_lane: u32,
    open_ordered: bool,
    pub(crate) arrived: PacketSet,
    pub(crate) lost: PacketSet,
    pub(crate) refused: PacketSet,
    pub(crate) refused_due: Instant,
    pub(crate) flying: u32,
    pub(crate) flying_bytes: u32,
    /// Packets that may leave although the windows are full: a probe, or what a timeout found.
    pub(crate) forced: u32,
    /// The last frame written is not the end of what its sender has begun.
    pub(crate) more: bool,
    pub(crate) joining: Joining,
    pub(crate) losses: Losses,
    pub(crate) sent_total: u64,
    pub(crate) again_total: u64,
    pub(crate) lost_total: u64,
}

impl Tx {
    pub(crate) fn new(peer: u64, first: u32, trailer: usize) -> Self {
        Self {
            peer,
            overhead: DATA_HEADER + trailer,
            trailer,
            una: first,
            next: first,
            end: first,
            slots: Vec::new(),
            ring: Ring::default(),
            lanes: Vec::new(),
            open_lane: 0,
            open_ordered: false,
            arrived: PacketSet::default(),
            lost: PacketSet::default(),
            refused: PacketSet::default(),
            refused_due: Instant::NEVER,
            flying: 0,
            flying_bytes: 0,
            forced: 0,
            more: false,
            joining: Joining::default(),
            losses: Losses::default(),
            sent_total: 0,
            again_total: 0,
            lost_total: 0,
        }
    }

    #[inline]
    pub(crate) fn slot(&mut self, psn: u32) -> &mut Slot {
        let mask = self.slots.len() - 1;
        &mut self.slots[psn as usize & mask]
    }

    /// Packets written and not released.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.end.wrapping_sub(self.una)
    }

    /// Whether packets have left that are not released.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.una != self.next
    }

    #[inline]
    pub(crate) fn lane(stream: u32) -> u32 {
        stream.wrapping_mul(0x9e37_79b1) >> (32 - LANE_BITS)
    }

    /// Writes a frame. See [`Transport::send`](crate::Transport::send).
    #[inline]
    pub(crate) fn write(&mut self, config: &Config, datagram: usize, stream: u32, head: &[u64], payload: usize, fill: impl FnOnce(&mut [u8]) -> bool) -> Sent {
        assert!(!head.is_empty() && head.len() <= HEAD_WORDS_MAX, "a head has one to eight words");
        debug_assert!(head[0] != 0, "a head of zeros is that of a void frame");
        let need = FRAME_HEADER + head.len() * 8 + payload;
        if payload > usize::from(u16::MAX) || self.overhead + need > datagram {
            return Sent::TooLong;
        }
        if self.next != self.end && self.unsent() > config.unsent_bytes_max << u32::from(need <= config.coalesce_bytes_max) {
            return Sent::NoRoom;
        }
        if self.more || need > config.coalesce_bytes_max {
            self.joining.lengthen();
        }
        let lane = Self::lane(stream);
        let at = match self.join(need, datagram, lane, config.coalesce_bytes_max) {
            Some(at) => at,
            None => match self.begin(config, need, lane) {
                Some(at) => at,
                None => return Sent::NoRoom,
            },
        };
        let bytes = self.ring.get_mut(at, need);
        //= P-FRAME-1
        let length = (payload as u16).to_le_bytes();
        bytes[..FRAME_HEADER].copy_from_slice(&[head.len() as u8, 0, length[0], length[1]]);
        let (words, payload_bytes) = bytes[FRAME_HEADER..].split_at_mut(head.len() * 8);
        for (place, word) in words.as_chunks_mut::<8>().0.iter_mut().zip(head) {
            *place = word.to_le_bytes();
        }
        if fill(payload_bytes) {
            return Sent::Yes;
        }
        //= P-FRAME-3
        words.fill(0);
        payload_bytes.fill(0);
        Sent::Unfilled
    }

    /// Bytes that are written and have not left, about; there are some.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        let oldest = self.slots[self.next as usize & (self.slots.len() - 1)].start as usize;
        self.ring.behind(oldest)
    }

    /// Bytes that the next frame of `stream` may have if it is to end a packet that has been begun;
    /// `None`: it begins one.
    #[inline]
    pub(crate) fn begun(&self, datagram: usize, stream: u32) -> Option<usize> {
        if self.end == self.next || self.losses.by_channels || self.open_ordered || self.open_lane != Self::lane(stream) {
            return None;
        }
        let last = self.slots.get(self.end.wrapping_sub(1) as usize & (self.slots.len() - 1))?;
        datagram.checked_sub(last.length as usize)
    }

    /// Room in the last packet, if it has not left, and may be shared.
    #[inline]
    fn join(&mut self, need: usize, datagram: usize, lane: u32, coalesce: usize) -> Option<usize> {
        // The stop-and-wait channels have one frame in each packet.
        if self.end == self.next || self.losses.by_channels {
            return None;
        }
        let psn = self.end.wrapping_sub(1);
        let same = lane == self.open_lane && !self.open_ordered;
        let slot = *self.slot(psn);
        if slot.length as usize + need > datagram || (!same && need > coalesce) {
            return None;
        }
        let at = self.ring.extend(need)?;
        self.slot(psn).length += need as u32;
        if !same {
            //= P-DATA-4
            if !self.open_ordered {
                self.open_ordered = true;
                let header = self.header(slot.start as usize);
                header.header.flags = ORDERED;
                header.header.short = 0.into();
            }
            self.lanes[lane as usize] = psn;
        }
        // Over the place of the trailer, which moves on.
        Some(at - self.trailer)
    }

    /// Room in a new packet.
    #[inline]
    pub(crate) fn begin(&mut self, config: &Config, need: usize, lane: u32) -> Option<usize> {
        let outstanding = self.outstanding() as usize;
        if outstanding >= self.slots.len() {
            if outstanding >= config.window_packets {
                return None;
            }
            self.grow_tables(config);
        }
        let length = self.overhead + need;
        let at = match self.ring.place(length) {
            Some(at) => at,
            None => self.grow(config, length)?,
        };
        self.ring.take(at, length);
        let psn = self.end;
        //= P-DATA-1
        self.end = psn.wrapping_add(1);
        //= P-DATA-2
        let back = psn.wrapping_sub(self.lanes[lane as usize]);
        let back = if back <= psn.wrapping_sub(self.una) { back as u16 } else { 0 };
        self.lanes[lane as usize] = psn;
        (self.open_lane, self.open_ordered) = (lane, false);
        *self.slot(psn) = Slot { start: at as u32, length: length as u32, ..Slot::default() };
        let peer = self.peer;
        let header = Header::new(Kind::Data, 0, back, psn, peer);
        *self.header(at) = DataHeader { header, ack: 0.into(), timestamp: 0.into(), echo: 0.into(), echo_delay: 0.into(), zero: 0.into() };
        Some(at + DATA_HEADER)
    }

    /// The tables at the first packet, for few; for twice as many when they are full. A NIC with
    /// many sessions that have little outstanding each has them in its caches.
    #[cold]
    #[inline(never)]
    fn grow_tables(&mut self, config: &Config) {
        if self.slots.is_empty() {
            self.lanes = vec![self.una.wrapping_sub(1); 1 << LANE_BITS];
        }
        let size = (2 * self.slots.len()).max(SLOTS_INITIAL).min(config.window_packets);
        let mut slots = vec![Slot::default(); size];
        for i in 0..self.outstanding() {
            let psn = self.una.wrapping_add(i);
            slots[psn as usize & (size - 1)] = *self.slot(psn);
        }
        self.slots = slots;
    }

    /// The small ring at the first packet, and the large one when that is full.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, config: &Config, length: usize) -> Option<usize> {
        while self.ring.capacity() < config.ring_bytes {
            let capacity = if self.ring.capacity() == 0 { config.ring_bytes_initial } else { config.ring_bytes };
            let mask = self.slots.len() - 1;
            let (una, count) = (self.una as usize & mask, self.outstanding() as usize);
            let (front, back) = self.slots.split_at_mut(una);
            let mut packets = back.iter_mut().chain(front).take(count).map(|s| (&mut s.start, s.length));
            self.ring.regrow(capacity, &mut packets);
            if let Some(at) = self.ring.place(length) {
                return Some(at);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn header(&mut self, start: usize) -> &mut DataHeader {
        match DataHeader::mut_from_bytes(self.ring.get_mut(start, DATA_HEADER)) {
            Ok(header) => header,
            // The layout has no alignment and exactly this size.
            Err(_) => unreachable!(),
        }
    }

    /// The packet is not in flight any more.
    #[inline]
    pub(crate) fn land(&mut self, length: u32) {
        debug_assert!(self.flying > 0 && self.flying_bytes >= length);
        self.flying -= 1;
        self.flying_bytes -= length;
    }

    /// The bytes of a packet, as it was written.
    pub(crate) fn packet(&mut self, psn: u32, seal: Option<&Association>) -> &[u8] {
        self.unseal(psn, seal);
        let slot = *self.slot(psn);
        self.ring.get(slot.start as usize, slot.length as usize - self.trailer)
    }

    /// A packet lies in the ring as it was written from now on, whether it has left or not.
    #[inline]
    pub(crate) fn unseal(&mut self, psn: u32, seal: Option<&Association>) {
        if let Some(seal) = seal {
            let slot = *self.slot(psn);
            auth::unseal(seal, self.ring.get_mut(slot.start as usize, slot.length as usize));
        }
    }

    /// All of them do: the key that they were sealed with is about to go.
    //= P-AUTH-9
    pub(crate) fn unseal_all(&mut self, seal: &Association) {
        let mut psn = self.una;
        while psn != self.next {
            self.unseal(psn, Some(seal));
            psn = psn.wrapping_add(1);
        }
    }

    /// Seals the packets that leave now: they lie from `start` on, each of `segment` bytes but the
    /// last. If the key is worn, the next one comes first.
    //= P-AUTH-9
    pub(crate) fn seal(&mut self, seal: &mut Association, now: Instant, start: usize, length: usize, segment: usize) {
        self.renew(seal, now);
        for packet in self.ring.get_mut(start, length).chunks_mut(segment) {
            auth::seal(seal, packet);
        }
    }

    /// Goes on with the next key, if it is time to.
    //= P-AUTH-8
    #[inline]
    pub(crate) fn renew(&mut self, seal: &mut Association, now: Instant) {
        if seal.is_update_due(now) {
            self.unseal_all(seal);
            seal.update(now);
        }
    }

    /// Whether a packet has no frames.
    pub(crate) fn is_empty(&self, slot: &Slot) -> bool {
        slot.length as usize == self.overhead
    }

    /// Takes the frames out of a refused packet: an empty packet with the same number and order
    /// remains, which the peer will pass over.
    //= P-NACK-4
    pub(crate) fn empty(&mut self, psn: u32) {
        debug_assert!(self.slot(psn).state == State::Refused);
        let start = self.slot(psn).start as usize;
        // If it is sealed, nothing of what was is needed any more.
        let header = self.header(start);
        header.header.flags &= !AUTH;
        header.zero = 0.into();
        self.slot(psn).length = self.overhead as u32;
    }

    /// A refused packet waits no longer.
    pub(crate) fn hasten(&mut self, psn: u32, now: Instant) {
        debug_assert!(self.slot(psn).state == State::Refused);
        self.slot(psn).due = now.0;
        self.refused_due = self.refused_due.min(now);
    }

    /// How long a refused packet waits, by how often it was refused.
    pub(crate) fn refusal_wait(config: &Config, refusals: u16) -> u64 {
        let doubled = config.refusal_wait_min.0.saturating_mul(1 << refusals.saturating_sub(1).min(30));
        doubled.min(config.refusal_wait_max.0)
    }

    /// Refused packets whose time has come are lost ones from now on.
    pub(crate) fn wake_refused(&mut self, now: Instant) {
        if now < self.refused_due {
            return;
        }
        let mut earliest = Instant::NEVER;
        let mut from = self.una;
        while let Some(psn) = self.refused.first(from, self.next.wrapping_sub(from)) {
            let due = self.slot(psn).due;
            if due <= now.0 {
                self.refused.remove(psn);
                self.slot(psn).state = State::Lost;
                self.slot(psn).fast = false;
                self.lost.insert(psn);
            } else {
                earliest = earliest.min(Instant(due));
            }
            from = psn.wrapping_add(1);
        }
        self.refused_due = earliest;
    }
}

/// Whether a refusal ends a packet's life.
pub(crate) fn is_final(config: &Config, reason: Refusal, refusals: u16) -> bool {
    !reason.is_passing() || u32::from(refusals) > config.refusals_max
}
