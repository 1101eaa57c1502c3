// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's requests to a peer: each call here tries once, and says whether the request could
//! leave now. Called by `net.rs`, which tries again.

use bellwire_via::Engine;
use bellwire_via::wire::Wire;

use super::core::{Core, GET_BYTES_MAX};
use super::header::{Head, Kind, TELL};
use super::memory::Atomic;
use super::pack::{PACKED_BYTES_MAX, Record};
use super::parts::{UNFLUSHED_BYTES_MAX, part_of};
use super::peer::{Left, State};
use crate::error::{Error, Trouble};
use crate::probe::{Off, Probe, Stage};

/// How far a request of several messages has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub done: usize,
}

/// A place of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct There {
    pub rank: u32,
    pub address: u64,
}

impl Core {
    /// The peer, if it is there to be asked.
    fn check_peer(&self, rank: u32) -> Result<(), Error> {
        self.check()?;
        self.check_left(|left, _| left == rank)?;
        match self.peers[rank as usize].state {
            State::Open => Ok(()),
            State::Gone(death) => Err(Error::Trouble(Trouble::Gone(rank, death))),
            State::Own | State::Connecting => Err(Error::NoSuchProcess(u64::from(rank))),
        }
    }

    /// Sends bytes to a place, in as many messages as it takes, from where `progress` stands.
    /// `is_last_told`: the peer is to say at once when it has taken the last one. `false`: not all
    /// has left.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline]
    pub(super) unsafe fn try_send<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        (kind, is_last_told): (Kind, bool),
        to: There,
        (from, length): (*const u8, usize),
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        self.check_peer(to.rank)?;
        let peer = &mut self.peers[to.rank as usize];
        let part = part_of(length, peer.part_bytes);
        // The first request leaves at once; later parts and requests share a system call.
        let is_first = length > PACKED_BYTES_MAX && peer.is_first_long(self.looks);
        while progress.done < length {
            let n = (length - progress.done).min(part);
            let is_told = is_last_told && progress.done + n == length;
            let address = to.address.wrapping_add(progress.done as u64);
            // SAFETY: within what the caller gives.
            let left = unsafe {
                let from = from.add(progress.done);
                if length <= PACKED_BYTES_MAX && !is_told {
                    peer.join::<Off, W>(engine, &Record { kind, address, bytes: n }, from, self.looks)
                } else {
                    let head = Head { flags: if is_told { TELL } else { 0 }, ..Head::new(kind, [address, 0, 0]) };
                    peer.request_later::<Off, W>(engine, &head, (from, n))
                }
            };
            if left != Left::Yes {
                self.is_full |= left == Left::NoRoom;
                return Ok(false);
            }
            if peer.channel.queued() >= UNFLUSHED_BYTES_MAX {
                peer.flush(engine);
            }
            if kind == Kind::Put {
                peer.put_mark = peer.mark();
            }
            progress.done += n;
        }
        if is_first || is_last_told {
            peer.flush(engine);
        }
        self.note_pack(to.rank);
        Ok(true)
    }

    /// A request may have begun to wait for company.
    #[inline]
    fn note_pack(&mut self, rank: u32) {
        if self.peers[rank as usize].is_waiting() && !self.packing.contains(&rank) {
            self.packing.push(rank);
        }
    }

    /// Asks for bytes of a place, as [`try_send`](Self::try_send) sends.
    #[inline]
    pub(super) fn try_get<P: Probe<Stage>, W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        from: There,
        (to, length): (*mut u8, usize),
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        self.check_peer(from.rank)?;
        let peer = &mut self.peers[from.rank as usize];
        while progress.done < length {
            let n = (length - progress.done).min(GET_BYTES_MAX as usize);
            let record = Record { kind: Kind::Get, address: from.address.wrapping_add(progress.done as u64), bytes: n };
            if !peer.has_room(n) {
                return Ok(false);
            }
            // SAFETY: no payload.
            let left = unsafe { peer.join::<P, W>(engine, &record, std::ptr::null(), self.looks) };
            if left != Left::Yes {
                self.is_full |= left == Left::NoRoom;
                return Ok(false);
            }
            peer.expect(to.wrapping_add(progress.done), n);
            progress.done += n;
        }
        self.note_pack(from.rank);
        Ok(true)
    }

    /// Asks for a word that a peer makes up: an atomic's former value, what a probe has found.
    fn try_word<W: Wire>(&mut self, engine: &mut Engine<W>, rank: u32, head: &Head, to: &mut u64) -> Result<bool, Error> {
        self.check_peer(rank)?;
        let peer = &mut self.peers[rank as usize];
        if !peer.has_room(8) {
            return Ok(false);
        }
        // SAFETY: no payload.
        let left = unsafe { peer.request(engine, head, (std::ptr::null(), 0)) };
        if left == Left::Yes {
            peer.expect(std::ptr::from_mut(to).cast(), 8);
        }
        self.is_full |= left == Left::NoRoom;
        Ok(left == Left::Yes)
    }

    /// An atomic operation on a word of `bytes` bytes.
    pub(super) fn try_atomic<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        at: There,
        (operation, bytes): (Atomic, usize),
        (operand, expected): (u64, u64),
        to: &mut u64,
    ) -> Result<bool, Error> {
        let head = Head { what: operation.to_bits(bytes), ..Head::new(Kind::Atomic, [at.address, operand, expected]) };
        self.try_word(engine, at.rank, &head, to)
    }

    /// A function of the program on a place.
    pub(super) fn try_call<W: Wire>(&mut self, engine: &mut Engine<W>, at: There, (function, argument): (u64, i64), to: &mut u64) -> Result<bool, Error> {
        self.try_word(engine, at.rank, &Head::new(Kind::Call, [at.address, function, argument.cast_unsigned()]), to)
    }

    /// Whether so many bytes are at a place.
    pub(super) fn try_probe<W: Wire>(&mut self, engine: &mut Engine<W>, at: There, bytes: u64, to: &mut u64) -> Result<bool, Error> {
        self.try_word(engine, at.rank, &Head::new(Kind::Probe, [at.address, bytes, 0]), to)
    }

    /// A part of a round of the collective call that is under way.
    pub(super) fn try_round<W: Wire>(&mut self, engine: &mut Engine<W>, to: u32, round: u32, part: &[u8], is_last: bool) -> Result<bool, Error> {
        self.check()?;
        let call = self.rounds.call;
        let peer = &mut self.peers[to as usize];
        // It has made this call and left: it needs nothing of ours.
        if peer.farewell.is_some_and(|farewell| farewell.calls > call) {
            return Ok(true);
        }
        let head = Head { what: u16::from(is_last), ..Head::new(Kind::Round, [call, u64::from(round), 0]) };
        // SAFETY: a slice of ours.
        let left = unsafe { peer.request(engine, &head, (part.as_ptr(), part.len())) };
        if left != Left::Yes {
            self.is_full |= left == Left::NoRoom;
            self.check_left(|_, farewell| farewell.calls <= call)?;
        }
        Ok(left == Left::Yes)
    }

    /// Whether peers have taken all messages; those that have not are asked to say so, once.
    /// `of_puts`: only up to the last put, and all answers have come.
    pub(super) fn try_flush<W: Wire>(&mut self, engine: &mut Engine<W>, of_puts: bool) -> Result<bool, Error> {
        self.check()?;
        self.send_packs(engine, TELL);
        let mut is_done = true;
        let mut gone = None;
        for (peer, rank) in self.peers.iter_mut().zip(0..) {
            let mark = if of_puts { peer.put_mark } else { peer.mark() };
            let has_taken = peer.has_taken(mark);
            if (has_taken && peer.pending.is_empty()) || peer.state == State::Own {
                continue;
            }
            if peer.farewell.is_some() {
                gone = gone.or(Some(rank));
                continue;
            }
            is_done = false;
            let is_asked = has_taken || peer.asked.wrapping_sub(mark).cast_signed() >= 0;
            let flush = Head { flags: TELL, ..Head::new(Kind::Flush, [0; 3]) };
            if is_asked {
                continue;
            }
            // SAFETY: no payload.
            match unsafe { peer.request(engine, &flush, (std::ptr::null(), 0)) } {
                Left::Yes => peer.asked = peer.credits.sent(),
                left => self.is_full |= left == Left::NoRoom,
            }
        }
        // What it has not taken before it left, it never will.
        self.check_left(|rank, _| gone == Some(rank))?;
        Ok(is_done)
    }

    /// Says good-bye to those who do not know yet. Whether they all know, or have gone themselves.
    pub(super) fn try_farewell<W: Wire>(&mut self, engine: &mut Engine<W>, status: i32) -> bool {
        let calls = self.rounds.call;
        let mut is_done = true;
        for peer in self.peers.iter_mut().filter(|peer| peer.state == State::Open) {
            let head = Head { flags: TELL, ..Head::new(Kind::Leave, [u64::from(status.cast_unsigned()), calls, 0]) };
            // SAFETY: no payload.
            if !peer.is_told_farewell && unsafe { peer.request(engine, &head, (std::ptr::null(), 0)) } == Left::Yes {
                peer.is_told_farewell = true;
            }
            is_done &= peer.is_told_farewell && (peer.farewell.is_some() || peer.has_taken(peer.credits.sent()));
        }
        is_done
    }
}
