// SPDX-License-Identifier: MIT OR Apache-2.0
//! The map of a segment of another host: nothing can be mapped there, so the program has a shadow.
//! Its stores leave with a flush, by RDMA write; stores of others come with a fetch.
//!
//! A twin keeps what both sides last had in common. A byte that differs from its twin was stored
//! here. A flush sends exactly these bytes, by rising address; so a store of the value that is
//! there already does not leave, and stores between two flushes have no order but that.
//!
//! Invariant: the twin's lock is held while bytes travel, so that flushes and fetches of a map
//! follow one another. The NIC's token is taken under it, never the other way round.

use crate::error::Error;
use crate::library::Stores;
use crate::memory::Memory;
use crate::remote::RemoteSegment;
use bellwire_memory::bytes::SharedBytes;
use bellwire_memory::region::Access;
use bellwire_memory::view::{At, View};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are compared at a time.
const BLOCK: usize = 4096;

/// The shadow of a part of a segment.
pub(crate) struct Shadow {
    pub segment: Arc<RemoteSegment>,
    memory: Memory,
    /// Where the part begins in `memory`: as in its page as at the owner.
    inside: usize,
    offset: usize,
    len: usize,
    twin: Mutex<Vec<u8>>,
}

/// A run of bytes of a shadow.
type Run = core::ops::Range<usize>;

impl Shadow {
    /// A shadow with what the segment holds now.
    pub fn new(segment: Arc<RemoteSegment>, offset: usize, len: usize) -> Result<Self, Error> {
        let inside = offset % rustix::param::page_size();
        let memory = Memory::create(inside + len)?;
        segment.transfer(memory.part(inside, len)?, offset, true)?;
        let mut twin = vec![0; len];
        memory.part(inside, len)?.copy_out(0, &mut twin)?;
        Ok(Self { segment, memory, inside, offset, len, twin: Mutex::new(twin) })
    }

    /// The program's view of it.
    pub fn view(&self, access: Access, at: At) -> Result<View, Error> {
        Ok(View::map(self.memory.fd(), self.inside, self.len, access, at)?)
    }

    fn all(&self) -> Result<SharedBytes<'_>, Error> {
        self.memory.part(self.inside, self.len)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.twin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush_into(&self, twin: &mut [u8]) -> Result<(), Error> {
        let all = self.all()?;
        let mut runs = Vec::new();
        let mut now = [0; BLOCK];
        for begin in (0..self.len).step_by(BLOCK) {
            let now = &mut now[..BLOCK.min(self.len - begin)];
            all.copy_out(begin, now)?;
            let then = &mut twin[begin..begin + now.len()];
            if now != then {
                differing(begin, now, then, &mut runs);
                then.copy_from_slice(now);
            }
        }
        if runs.is_empty() {
            return Ok(());
        }
        // SAFETY: B1: the twin, which is borrowed; only copied from meanwhile.
        let source = unsafe { SharedBytes::new_read_only(twin.as_ptr(), twin.len()) };
        let parts = runs.into_iter().map(|run| Ok((source.part(run.start, run.len())?, self.offset + run.start)));
        self.segment.write_all(parts.collect::<Result<Vec<_>, Error>>()?)
    }

    /// Fetches what the segment holds, after a flush.
    ///
    /// # Errors
    /// [`Error::TransferFailed`].
    pub fn fetch(&self) -> Result<(), Error> {
        let mut twin = self.lock();
        self.flush_into(&mut twin)?;
        let mut fresh = vec![0; self.len];
        // SAFETY: B1: the vector, which nobody else has, until the transfer has ended.
        self.segment.transfer(unsafe { SharedBytes::new(fresh.as_mut_ptr(), self.len) }, self.offset, true)?;
        self.adopt(&mut twin, 0, &fresh)
    }

    /// The segment holds `fresh` from `at` on. What the program has stored since the last flush
    /// stays in the shadow, and leaves with the next one.
    fn adopt(&self, twin: &mut [u8], at: usize, fresh: &[u8]) -> Result<(), Error> {
        let all = self.all()?;
        let mut runs = Vec::new();
        for begin in (0..fresh.len()).step_by(BLOCK) {
            let new = &fresh[begin..fresh.len().min(begin + BLOCK)];
            let then = &mut twin[at + begin..at + begin + new.len()];
            if new == then {
                continue;
            }
            runs.clear();
            differing(0, new, then, &mut runs);
            for run in runs.drain(..) {
                let mut now = vec![0; run.len()];
                all.copy_out(at + begin + run.start, &mut now)?;
                for (i, byte) in now.iter().enumerate() {
                    let place = run.start + i;
                    if *byte == then[place] {
                        all.copy_in(at + begin + place, &new[place..=place])?;
                    }
                    then[place] = new[place];
                }
            }
        }
        Ok(())
    }

    /// Copies `memory` to (or, if `read`, from) the segment at `at` of this map, and the map shows
    /// it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::TransferFailed`].
    pub fn copy(&self, memory: SharedBytes<'_>, at: usize, read: bool) -> Result<(), Error> {
        self.all()?.part(at, memory.len())?;
        let mut twin = self.lock();
        self.flush_into(&mut twin)?;
        self.segment.transfer(memory, self.offset + at, read)?;
        let mut bytes = vec![0; memory.len()];
        memory.copy_out(0, &mut bytes)?;
        self.adopt(&mut twin, at, &bytes)
    }
}

impl Stores for Shadow {
    /// It has arrived when this returns; or [`Error::TransferFailed`].
    fn flush(&self) -> Result<(), Error> {
        self.flush_into(&mut self.lock())
    }
}

/// Adds the runs in which `now` and `then` differ; both begin at `begin`.
fn differing(begin: usize, now: &[u8], then: &[u8], runs: &mut Vec<Run>) {
    let mut start = None;
    for (at, differs) in now.iter().zip(then).map(|(a, b)| a != b).chain([false]).enumerate() {
        match (start, differs) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                match runs.last_mut() {
                    // Goes on from the block before.
                    Some(last) if last.end == begin + from => last.end = begin + at,
                    _ => runs.push(begin + from..begin + at),
                }
                start = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_exactly_the_bytes_that_differ() {
        let mut runs = Vec::new();
        differing(0, b"abcdef", b"abXdeX", &mut runs);
        assert_eq!(runs, [2..3, 5..6]);
        differing(6, b"XY-", b"---", &mut runs);
        assert_eq!(runs, [2..3, 5..8]);
        differing(9, b"--Z", b"---", &mut runs);
        assert_eq!(runs, [2..3, 5..8, 11..12]);
        differing(12, b"same", b"same", &mut runs);
        assert_eq!(runs.len(), 3);
    }
}
