// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages that come: requests of peers, which are done and answered at once, and answers.

use bellwire_memory::bytes;
use bellwire_vipl_calls::Segment;
use bellwire_vipl_calls::probe::{Probe, Stage};

use crate::core::Core;
use crate::failure::{Access, Failure};
use crate::head::{Head, Kind};
use crate::lane::{Held, Lane, Pending};
use crate::memory::Memory;
use crate::version::FRAGMENT;

/// Bytes from which on data is gathered: a copy of less costs less than a second segment.
pub(crate) const GATHERED_MIN: usize = 512;

impl<M: Memory> Core<M> {
    /// Does what a message says. Its VI has a buffer for a reply.
    ///
    /// # Safety
    /// As many bytes as the head says, if they follow it, are readable at `data`.
    #[inline]
    pub(crate) unsafe fn handle<P: Probe<Stage>>(&mut self, of: (u32, usize), head: Head, data: *const u8) {
        if head.kind.is_request() {
            P::mark(Stage::Sorted);
        }
        let is_well = match head.kind {
            Kind::Get => self.get::<P>(of, head),
            Kind::GetBulk => self.get_bulk::<P>(of, head),
            Kind::Put | Kind::Store => {
                let word = head.word.to_le_bytes();
                // SAFETY: a word of ours, whose bytes the head's check bounds.
                unsafe { self.write::<P>(of, head, word.as_ptr()) }
            }
            // SAFETY: the caller's promise.
            Kind::PutBulk | Kind::StoreBulk => unsafe { self.write::<P>(of, head, data) },
            Kind::Flush => {
                let count = std::mem::take(&mut self.lane(of).unacknowledged);
                self.reply::<P>(of, Head::new(Kind::Done, 0, 0, count as u64))
            }
            // SAFETY: the caller's promise.
            Kind::Got | Kind::GotBulk => unsafe { self.got::<P>(of, head, data) },
            Kind::Done => self.done(of, head.word),
            Kind::Ack => self.acknowledged(of, head.word),
            Kind::Refused => self.refused(of.0, head),
        };
        if !is_well {
            self.fail(Failure::Misbehaved(of.0));
        }
    }

    /// The VI of which something has come, which is there.
    #[inline]
    fn lane(&mut self, (rank, at): (u32, usize)) -> &mut Lane {
        &mut self.peers[rank as usize].lanes[at]
    }

    /// Sends a reply without data.
    #[inline]
    fn reply<P: Probe<Stage>>(&mut self, of: (u32, usize), head: Head) -> bool {
        P::mark(Stage::Allowed);
        // SAFETY: nothing is gathered.
        if !unsafe { self.lane(of).post::<P>(head, 0, None, Held::Nothing) } {
            self.ended(of.0, of.1);
        }
        true
    }

    fn refuse<P: Probe<Stage>>(&mut self, of: (u32, usize), head: Head, access: Access, why: u8) -> bool {
        self.reply::<P>(of, Head { what: u16::from(why) << 8 | access as u16, ..Head::new(Kind::Refused, head.bytes as usize, head.address, 0) })
    }

    #[inline]
    fn get<P: Probe<Stage>>(&mut self, of: (u32, usize), head: Head) -> bool {
        let mut word = [0u8; 8];
        self.served += 1;
        // SAFETY: a word of ours, whose bytes the head's check bounds.
        let read = unsafe { self.memory.read(head.address, word.as_mut_ptr(), head.bytes as usize) };
        P::mark(Stage::Acted);
        match read {
            Ok(()) => self.reply::<P>(of, Head::new(Kind::Got, head.bytes as usize, 0, u64::from_le_bytes(word))),
            Err(why) => self.refuse::<P>(of, head, Access::Get, why),
        }
    }

    fn get_bulk<P: Probe<Stage>>(&mut self, of: (u32, usize), head: Head) -> bool {
        let bytes = head.bytes as usize;
        if bytes > FRAGMENT || of.1 + 1 != self.version.shapes().len() {
            return false;
        }
        self.served += 1;
        let answer = Head::new(Kind::GotBulk, bytes, 0, 0);
        if self.gathers()
            && bytes >= GATHERED_MIN
            && let Some(data) = self.gathered(head.address, bytes)
        {
            P::mark(Stage::Acted);
            P::mark(Stage::Allowed);
            // SAFETY: L3: memory that stays, and whose registration is released when the send has
            // completed.
            if !unsafe { self.lane(of).post::<P>(answer, 0, Some(data), Held::Cached(data.address, data.handle)) } {
                self.ended(of.0, of.1);
            }
            return true;
        }
        // None: the VI has ended.
        let Some(room) = self.lane(of).room() else { return true };
        // SAFETY: L2: the buffer is free, and has room for a fragment.
        if let Err(why) = unsafe { self.memory.read(head.address, room, bytes) } {
            return self.refuse::<P>(of, head, Access::Get, why);
        }
        P::mark(Stage::Acted);
        P::mark(Stage::Allowed);
        // SAFETY: nothing is gathered; a fragment has room, and lies there.
        if !unsafe { self.lane(of).post::<P>(answer, bytes, None, Held::Nothing) } {
            self.ended(of.0, of.1);
        }
        true
    }

    /// Memory of this process, registered to be sent from; `None`: it is to be copied.
    fn gathered(&self, address: u64, bytes: usize) -> Option<Segment> {
        let address = self.memory.find(address, bytes)?.addr() as u64;
        // SAFETY: it stays mapped until the process ends.
        let handle = unsafe { self.nic.register_cached(address, bytes, self.ptag) }.ok()?;
        Some(Segment { address, handle, length: bytes as u32 })
    }

    /// A put or store.
    ///
    /// # Safety
    /// As many bytes as the head says are readable at `data`.
    #[inline]
    unsafe fn write<P: Probe<Stage>>(&mut self, of: (u32, usize), head: Head, data: *const u8) -> bool {
        let is_store = matches!(head.kind, Kind::Store | Kind::StoreBulk);
        let bytes = head.bytes as usize;
        // SAFETY: the caller's promise.
        let written = unsafe { self.memory.write(head.address, data, bytes) };
        P::mark(Stage::Acted);
        if let Err(why) = written {
            return self.refuse::<P>(of, head, if is_store { Access::Store } else { Access::Put }, why);
        }
        if !is_store {
            return self.reply::<P>(of, Head::new(Kind::Done, 0, 0, 0));
        }
        self.stored = self.stored.wrapping_add(bytes as u64);
        let lane = self.lane(of);
        lane.unacknowledged += 1;
        if lane.unacknowledged < lane.acknowledge_after() {
            return true;
        }
        let count = std::mem::take(&mut lane.unacknowledged);
        self.reply::<P>(of, Head::new(Kind::Ack, 0, 0, count as u64))
    }

    /// What the oldest get on a VI has asked for.
    ///
    /// # Safety
    /// As many bytes as the head says, if they follow it, are readable at `data`.
    #[inline]
    unsafe fn got<P: Probe<Stage>>(&mut self, of: (u32, usize), head: Head, data: *const u8) -> bool {
        let (is_abandoned, n, word) = (self.is_abandoned, head.bytes as usize, head.word.to_le_bytes());
        let from = if head.kind == Kind::Got { word.as_ptr() } else { data };
        let lane = self.lane(of);
        let Some(Pending { to, bytes, .. }) = lane.pending.pop_front() else { return false };
        lane.credits += 1;
        P::mark(Stage::Sorted);
        if is_abandoned {
            return true;
        }
        if bytes != n || n == 0 {
            return false;
        }
        // SAFETY: L4: `to` has room for so many bytes; `from` has them.
        unsafe { if n <= bytes::SMALL_MAX { bytes::copy_small(to, from, n) } else { bytes::copy(to, from, n) } };
        P::mark(Stage::Acted);
        true
    }

    /// The oldest put or flush on a VI is done.
    #[inline]
    fn done(&mut self, of: (u32, usize), stores: u64) -> bool {
        let lane = self.lane(of);
        let Some(pending) = lane.pending.pop_front() else { return false };
        lane.credits += 1;
        if pending.is_flush {
            lane.is_flushing = false;
        }
        pending.bytes == 0 && (stores == 0 || pending.is_flush) && self.acknowledged(of, stores)
    }

    fn acknowledged(&mut self, of: (u32, usize), count: u64) -> bool {
        let lane = self.lane(of);
        let Some(left) = usize::try_from(count).ok().and_then(|count| lane.stores.checked_sub(count)) else { return false };
        lane.credits += lane.stores - left;
        lane.stores = left;
        true
    }

    fn refused(&mut self, process: u32, head: Head) -> bool {
        let Some(access) = Access::from_bits(head.what as u8) else { return false };
        self.fail(Failure::Refused { process, access, why: (head.what >> 8) as u8, address: head.address, bytes: u64::from(head.bytes) });
        true
    }
}
