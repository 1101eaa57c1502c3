// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control area, which the processes of a host share besides their memory: a barrier, slots for
//! exchanges, counts of stores, and the processes that have left.
//!
//! Every word has one writer, except the barrier's three. A wait looks for a while (not at all
//! where processes outnumber processors), then lets others run, then sleeps; it wakes now and then
//! to see whether the one it waits for has left the job.
//!
//! Invariant G1 (lib.rs): the control area is mapped as long as this lives, and `layout::File`
//! keeps every place inside it, aligned.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bellwire_memory::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use bellwire_memory::pause::pause;
use bellwire_memory::processors;
use rustix::thread::futex;

use crate::call::Lock;
use crate::error::Left;
use crate::layout::{File, LINE, PART_BYTES};
use crate::window::Window;

/// Looks at a word before others are let run.
const LOOKS: u32 = 4000;
/// Times that others are let run before this process sleeps.
const YIELDS: u32 = 200;
/// The longest sleep between two looks for processes that have left.
const NAP: Duration = Duration::from_millis(20);

/// Words of the barrier, in the first line.
const ARRIVED: u64 = 0;
const TURN: u64 = 4;
const SLEEPERS: u64 = 8;
/// Words of a process's line: 0, or its exit status with bit 32; then its process id and six bounds
/// of its window.
const LEFT: u64 = 0;
const PID: u64 = 8;
const BOUNDS: u64 = 16;
/// The lock of calls on this process's places.
const LOCK: u64 = 64;

/// The control area as one process uses it.
#[derive(Debug)]
pub struct Control {
    base: *mut u8,
    file: File,
    process: u32,
    processes: u32,
    /// Exchanges and parts of broadcasts so far.
    turns: u64,
    parts: u64,
    looks: u32,
}

impl Control {
    /// # Safety
    /// `base` is a mapping of a control area of `file` that stays (G1); this process is number
    /// `process` of `processes`.
    pub unsafe fn new(base: *mut u8, file: File, process: u32, processes: u32) -> Self {
        static CROWDED: OnceLock<usize> = OnceLock::new();
        let processors = *CROWDED.get_or_init(|| processors::allowed().len().max(1));
        let looks = if processes as usize > processors { 0 } else { LOOKS };
        Self { base, file, process, processes, turns: 0, parts: 0, looks }
    }

    fn word32(&self, offset: u64) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= self.file.control_bytes());
        // SAFETY: G1; words are only used as atomics.
        unsafe { AtomicU32::from_ptr(self.base.add(offset as usize).cast()) }
    }

    fn word64(&self, offset: u64) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.file.control_bytes());
        // SAFETY: G1; words are only used as atomics.
        unsafe { AtomicU64::from_ptr(self.base.add(offset as usize).cast()) }
    }

    /// The place where this process counts what it stores at `to`.
    pub fn arrived_at(&self, to: u32) -> *mut u64 {
        self.word64(self.file.arrived(to, self.process)).as_ptr()
    }

    /// The lock of calls on places of a process.
    pub fn lock(&self, process: u32) -> Lock {
        // SAFETY: G1.
        unsafe { Lock::new(self.word32(self.file.line(process) + LOCK)) }
    }

    /// Says where this process's memory is; seen by the others after a barrier.
    pub fn publish(&self, pid: u32, window: &Window) {
        let line = self.file.line(self.process);
        // Relaxed: the barrier that follows orders them before the readers.
        self.word64(line + PID).store(u64::from(pid), Ordering::Relaxed);
        for (i, bound) in window.parts().into_iter().flat_map(|part| [part.0, part.1]).enumerate() {
            // Relaxed: as above.
            self.word64(line + BOUNDS + 8 * i as u64).store(bound, Ordering::Relaxed);
        }
    }

    /// What a process has published. To be checked.
    pub fn published(&self, process: u32) -> (u32, Window) {
        let line = self.file.line(process);
        // Relaxed: after a barrier.
        let get = |offset| self.word64(line + offset).load(Ordering::Relaxed);
        let part = |i: u64| (get(BOUNDS + 16 * i), get(BOUNDS + 16 * i + 8));
        (get(PID) as u32, Window { statics: part(0), heap: part(1), symmetric: part(2) })
    }

    /// Says that this process leaves.
    pub fn leave(&self, status: i32) {
        // Release: what this process did before; pairs with `left`.
        self.word64(self.file.line(self.process) + LEFT).store(1 << 32 | u64::from(status.cast_unsigned()), Ordering::Release);
        self.wake();
    }

    fn left(&self) -> Option<Left> {
        (0..self.processes).filter(|&process| process != self.process).find_map(|process| {
            // Acquire: pairs with `leave`.
            let word = self.word64(self.file.line(process) + LEFT).load(Ordering::Acquire);
            (word != 0).then_some(Left { process, status: (word as u32).cast_signed() })
        })
    }

    fn wake(&self) {
        // The waiters of other processes: not private.
        let _ = futex::wake(self.word32(TURN), futex::Flags::empty(), i32::MAX.cast_unsigned());
    }

    /// Waits until every process has come here.
    ///
    /// # Errors
    /// [`Left`]: one has left the job instead.
    pub fn barrier(&self) -> Result<(), Left> {
        if self.processes == 1 {
            return Ok(());
        }
        let turn = self.word32(TURN);
        // Relaxed: it changes only when this process has arrived, too.
        let now = turn.load(Ordering::Relaxed);
        // AcqRel: takes over what the ones before did, hands on what this one did; pairs with
        // itself in the others.
        if self.word32(ARRIVED).fetch_add(1, Ordering::AcqRel) + 1 == self.processes {
            // Relaxed: nobody arrives again before the turn, which is stored behind it.
            self.word32(ARRIVED).store(0, Ordering::Relaxed);
            // Release: everything before the barrier; pairs with the loads of `turn` below.
            turn.store(now.wrapping_add(1), Ordering::Release);
            // SeqCst: the turn before the look for sleepers; pairs with the sleeper's fence.
            fence(Ordering::SeqCst);
            // Relaxed: ordered by the fence.
            if self.word32(SLEEPERS).load(Ordering::Relaxed) != 0 {
                self.wake();
            }
            return Ok(());
        }
        // Acquire: pairs with the store of the turn.
        self.wait(|| turn.load(Ordering::Acquire) != now, Some(now))
    }

    /// Looks, lets others run, sleeps. `turn`: sleep until the barrier's word is another; else nap.
    fn wait(&self, is_over: impl Fn() -> bool, turn: Option<u32>) -> Result<(), Left> {
        for _ in 0..self.looks {
            if is_over() {
                return Ok(());
            }
            pause();
        }
        for _ in 0..YIELDS {
            if is_over() {
                return Ok(());
            }
            std::thread::yield_now();
        }
        let begin = Instant::now();
        loop {
            self.sleep(&is_over, turn, begin);
            if is_over() {
                return Ok(());
            }
            if let Some(left) = self.left() {
                // It may have finished the barrier before it left.
                return if is_over() { Ok(()) } else { Err(left) };
            }
        }
    }

    fn sleep(&self, is_over: &impl Fn() -> bool, turn: Option<u32>, begin: Instant) {
        let Some(turn) = turn else {
            // Nobody rings for counts of stores: a nap that grows with the time already waited.
            std::thread::sleep((begin.elapsed() / 8).clamp(Duration::from_micros(20), Duration::from_millis(1)));
            return;
        };
        // Relaxed: ordered by the fence.
        self.word32(SLEEPERS).fetch_add(1, Ordering::Relaxed);
        // SeqCst: the announcement before the look at the turn; pairs with the fence of the process
        // that ends the barrier.
        fence(Ordering::SeqCst);
        if !is_over() {
            let nap = rustix::time::Timespec { tv_sec: 0, tv_nsec: NAP.subsec_nanos().into() };
            // Woken, timed out, or the turn is another already: looked at again in any case.
            let _ = futex::wait(self.word32(TURN), futex::Flags::empty(), turn, Some(&nap));
        }
        // Relaxed: a count.
        self.word32(SLEEPERS).fetch_sub(1, Ordering::Relaxed);
    }

    /// Bytes that all processes have stored here so far.
    pub fn stored(&self) -> u64 {
        // Acquire: bytes stored before they were counted; pairs with the release of `gas_store`.
        (0..self.processes).map(|from| self.word64(self.file.arrived(self.process, from)).load(Ordering::Acquire)).fold(0, u64::wrapping_add)
    }

    /// Waits until at least so many bytes have been stored here.
    ///
    /// # Errors
    /// [`Left`]: another process has left the job before.
    pub fn wait_stored(&self, bytes: u64) -> Result<(), Left> {
        self.wait(|| self.stored().wrapping_sub(bytes).cast_signed() >= 0, None)
    }

    /// Everybody's bytes to everybody: `all` has room for one after another.
    ///
    /// # Errors
    /// As for [`Control::barrier`].
    ///
    /// # Panics
    /// If `mine` is longer than a line, or `all` does not fit.
    pub fn exchange(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), Left> {
        assert!(mine.len() <= LINE as usize && all.len() == mine.len() * self.processes as usize, "an exchange of words");
        // Two sets of slots by turns: a process that is one exchange ahead writes to the other set,
        // and cannot be two ahead.
        self.turns += 1;
        self.copy_in(self.file.slot(self.turns, self.process), mine);
        self.barrier()?;
        for (process, bytes) in (0..self.processes).zip(all.chunks_exact_mut(mine.len().max(1))) {
            self.copy_out(self.file.slot(self.turns, process), bytes);
        }
        Ok(())
    }

    /// The bytes of one process to all.
    ///
    /// # Errors
    /// As for [`Control::barrier`].
    pub fn broadcast(&mut self, data: &mut [u8], root: u32) -> Result<(), Left> {
        for part in data.chunks_mut(PART_BYTES as usize) {
            // By turns, as in `exchange`.
            self.parts += 1;
            if self.process == root {
                self.copy_in(self.file.part(self.parts), part);
            }
            self.barrier()?;
            if self.process != root {
                self.copy_out(self.file.part(self.parts), part);
            }
        }
        Ok(())
    }

    fn copy_in(&self, offset: u64, from: &[u8]) {
        assert!(offset + from.len() as u64 <= self.file.control_bytes());
        // SAFETY: inside the control area (G1); nobody else touches this place until the barrier.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.base.add(offset as usize), from.len()) }
    }

    fn copy_out(&self, offset: u64, to: &mut [u8]) {
        assert!(offset + to.len() as u64 <= self.file.control_bytes());
        // SAFETY: inside the control area (G1); nobody writes to this place between this barrier
        // and the next.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(offset as usize), to.as_mut_ptr(), to.len()) }
    }
}

#[cfg(test)]
mod tests;
