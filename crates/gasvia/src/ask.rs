// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's requests: each call here does what can be done now, and says whether that was all.

use bellwire_memory::bytes;
use bellwire_vipl_calls::Segment;
use bellwire_vipl_calls::probe::{Probe, Stage};

use crate::core::Core;
use crate::failure::Failure;
use crate::head::{Head, Kind as Message};
use crate::lane::{Held, Pending};
use crate::memory::Memory;
use crate::serve::GATHERED_MIN;
use crate::version::{FRAGMENT, WORD_BYTES_MAX};

/// A place of another process.
#[derive(Clone, Copy, Debug)]
pub struct There {
    /// Which process.
    pub rank: u32,
    /// The address there.
    pub address: u64,
}

/// How bytes are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// This process hears that they are there.
    Put,
    /// The other one counts them.
    Store,
}

impl<M: Memory> Core<M> {
    /// Asks for bytes of a place, in as many requests as it takes, from `done` on, which it moves.
    /// `false`: not all has left.
    ///
    /// # Errors
    /// The failure that ends the job; [`Failure::Gone`].
    ///
    /// # Safety
    /// L4: `length` bytes at `to` are writable until they have come or [`Core::abandon`] was
    /// called.
    #[inline]
    pub unsafe fn try_get<P: Probe<Stage>>(&mut self, from: There, (to, length): (*mut u8, usize), done: &mut usize) -> Result<bool, Failure> {
        let at = self.version.lane_for(length);
        let kind = if length <= WORD_BYTES_MAX { Message::Get } else { Message::GetBulk };
        while *done < length {
            self.check(from.rank)?;
            let lane = &mut self.peers[from.rank as usize].lanes[at];
            if !lane.is_ready() {
                return Ok(false);
            }
            P::mark(Stage::Allowed);
            let n = (length - *done).min(FRAGMENT);
            let head = Head::new(kind, n, from.address.wrapping_add(*done as u64), 0);
            // SAFETY: nothing is gathered.
            if unsafe { lane.post::<P>(head, 0, None, Held::Nothing) } {
                lane.credits -= 1;
                lane.pending.push_back(Pending { to: to.wrapping_add(*done), bytes: n, is_flush: false });
                *done += n;
            } else {
                self.ended(from.rank, at);
            }
        }
        Ok(true)
    }

    /// Sends bytes to a place, as [`try_get`](Self::try_get) asks. `lent`: the registration by
    /// which they may be sent from where they lie.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// `length` bytes at `from` are readable during the call; lent memory until [`Core::lent`] is
    /// 0, or [`Core::end_with`] was called.
    #[inline]
    pub unsafe fn try_send<P: Probe<Stage>>(
        &mut self,
        kind: Kind,
        to: There,
        (from, length): (*const u8, usize),
        lent: Option<u32>,
        done: &mut usize,
    ) -> Result<bool, Failure> {
        let at = self.version.lane_for(length);
        while *done < length {
            self.check(to.rank)?;
            let lane = &mut self.peers[to.rank as usize].lanes[at];
            let Some(room) = lane.room().filter(|_| lane.is_ready()) else { return Ok(false) };
            P::mark(Stage::Allowed);
            let (n, from) = ((length - *done).min(FRAGMENT), from.wrapping_add(*done));
            let address = to.address.wrapping_add(*done as u64);
            let is_posted = if length <= WORD_BYTES_MAX {
                let mut word = [0u8; WORD_BYTES_MAX];
                // SAFETY: the caller's promise; at most a word.
                unsafe { bytes::copy_small(word.as_mut_ptr(), from, n) };
                let message = if kind == Kind::Put { Message::Put } else { Message::Store };
                // SAFETY: nothing is gathered.
                unsafe { lane.post::<P>(Head::new(message, n, address, u64::from_le_bytes(word)), 0, None, Held::Nothing) }
            } else {
                let message = if kind == Kind::Put { Message::PutBulk } else { Message::StoreBulk };
                let head = Head::new(message, n, address, 0);
                if let Some(handle) = lent {
                    let data = Segment { address: from.expose_provenance() as u64, handle, length: n as u32 };
                    // SAFETY: L3, the caller's promise.
                    let is_posted = unsafe { lane.post::<P>(head, 0, Some(data), Held::Lent) };
                    self.lent += usize::from(is_posted);
                    is_posted
                } else {
                    // SAFETY: the caller's promise; L2: a free buffer has room for a fragment.
                    unsafe { bytes::copy(room, from, n) };
                    // SAFETY: nothing is gathered; the fragment lies in its room.
                    unsafe { lane.post::<P>(head, n, None, Held::Nothing) }
                }
            };
            if !is_posted {
                self.ended(to.rank, at);
                continue;
            }
            lane.credits -= 1;
            if kind == Kind::Put {
                lane.pending.push_back(Pending { to: std::ptr::null_mut(), bytes: 0, is_flush: false });
            } else {
                lane.stores += 1;
            }
            *done += n;
        }
        Ok(true)
    }

    /// Registers bytes of the program to be sent from where they lie, if that pays;
    /// [`unlend`](Self::unlend) gives the registration back.
    ///
    /// # Safety
    /// The bytes stay mapped until then.
    pub unsafe fn lend(&self, from: *const u8, length: usize) -> Option<u32> {
        if !self.gathers() || length < GATHERED_MIN {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { self.nic.register_cached(from.expose_provenance() as u64, length, self.ptag) }.ok()
    }

    /// Gives back a registration of [`lend`](Self::lend).
    pub fn unlend(&self, from: *const u8, handle: u32) {
        self.nic.release_cached(from.addr() as u64, handle);
    }

    /// Whether all gets and puts of this process to another one, or to all, are answered;
    /// `of_stores`: and its stores are acknowledged, for which those are asked who have not done
    /// so.
    ///
    /// # Errors
    /// As of [`try_get`](Self::try_get), of those that have not answered.
    pub fn try_flush<P: Probe<Stage>>(&mut self, of: Option<u32>, of_stores: bool) -> Result<bool, Failure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let ranks = of.map_or(0..self.peers.len() as u32, |rank| rank..rank + 1);
        let mut is_done = true;
        for rank in ranks {
            let Some(peer) = self.peers.get_mut(rank as usize) else { continue };
            let is_out = |lane: &crate::lane::Lane| !lane.pending.is_empty() || (of_stores && lane.stores > 0);
            if !peer.lanes.iter().any(is_out) {
                continue;
            }
            is_done = false;
            let mut has_ended = None;
            for (lane, at) in peer.lanes.iter_mut().zip(0..) {
                if !of_stores || lane.stores == 0 || lane.is_flushing || !lane.is_ready() || peer.end.is_some() {
                    continue;
                }
                // SAFETY: nothing is gathered.
                if unsafe { lane.post::<P>(Head::new(Message::Flush, 0, 0, 0), 0, None, Held::Nothing) } {
                    lane.credits -= 1;
                    lane.is_flushing = true;
                    lane.pending.push_back(Pending { to: std::ptr::null_mut(), bytes: 0, is_flush: true });
                } else {
                    has_ended = Some(at);
                }
            }
            if let Some(at) = has_ended {
                self.ended(rank, at);
            }
            self.check(rank)?;
        }
        Ok(is_done)
    }

    /// A process that has not answered all that it was asked.
    pub fn waits_for(&self) -> Option<u32> {
        let is_awaited = |peer: &crate::core::Peer| peer.lanes.iter().any(|lane| !lane.pending.is_empty());
        self.peers.iter().position(is_awaited).map(|rank| rank as u32)
    }
}
