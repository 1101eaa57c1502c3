// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a program on another process's memory: tried (`ask.rs`) until they have left, or
//! are done.

use bellwire_via::Engine;
use bellwire_via::wire::host::HostWire;

use super::Net;
use super::ask::{Progress, There};
use super::core::Core;
use super::header::{Kind, TELL};
use super::memory::Atomic;
use crate::error::{Error, Why};
use crate::probe::{Off, Probe, Stage};

impl Net {
    /// Reads, waiting.
    ///
    /// # Errors
    /// [`Error::Trouble`], [`Error::Left`].
    ///
    /// # Safety
    /// C1.
    pub unsafe fn read(&self, rank: u32, address: u64, to: *mut u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.get(rank, address, to, bytes)? };
        self.until(true, |core, _| {
            core.check()?;
            core.check_left(|left, _| left == rank)?;
            Ok(core.peers[rank as usize].pending.is_empty().then_some(()))
        })
    }

    /// Asks for bytes, which are there after [`sync`](Self::sync).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Safety
    /// C1.
    pub unsafe fn get(&self, rank: u32, address: u64, to: *mut u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.get_probed::<Off>(rank, address, to, bytes) }
    }

    /// As [`get`](Self::get), its steps marked.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// C1.
    pub unsafe fn get_probed<P: Probe<Stage>>(&self, rank: u32, address: u64, to: *mut u8, bytes: usize) -> Result<(), Error> {
        let mut progress = Progress::default();
        self.until_probed::<P, _>(true, |core, engine| {
            P::mark(Stage::Entered);
            Ok(core.try_get::<P, _>(engine, There { rank, address }, (to, bytes), &mut progress)?.then_some(()))
        })
    }

    /// Writes, waiting until it is done.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Safety
    /// C1.
    pub unsafe fn write(&self, rank: u32, address: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        let mut progress = Progress::default();
        let mark = self.until(true, |core, engine| {
            // SAFETY: the caller's.
            let has_left = unsafe { core.try_send(engine, (Kind::Put, true), There { rank, address }, (from, bytes), &mut progress)? };
            Ok(has_left.then(|| core.peers[rank as usize].mark()))
        })?;
        self.until(true, |core, _| {
            core.check()?;
            core.check_left(|left, _| left == rank)?;
            Ok(core.peers[rank as usize].has_taken(mark).then_some(()))
        })
    }

    /// Sends bytes, which are there after [`sync`](Self::sync). The memory at `from` is the
    /// caller's again.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Safety
    /// C1.
    pub unsafe fn put(&self, rank: u32, address: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.send(Kind::Put, rank, address, from, bytes) }
    }

    /// Sends bytes, which are counted where they arrive.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Safety
    /// C1.
    pub unsafe fn store(&self, rank: u32, address: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.send(Kind::Store, rank, address, from, bytes) }
    }

    /// # Safety
    /// C1.
    unsafe fn send(&self, kind: Kind, rank: u32, address: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        let mut progress = Progress::default();
        self.until(true, |core, engine| {
            // SAFETY: the caller's.
            let has_left = unsafe { core.try_send(engine, (kind, false), There { rank, address }, (from, bytes), &mut progress)? };
            Ok(has_left.then_some(()))
        })
    }

    /// Asks for a word by `attempt`, and waits for it.
    fn word(&self, rank: u32, mut attempt: impl FnMut(&mut Core, &mut Engine<HostWire>, &mut u64) -> Result<bool, Error>) -> Result<u64, Error> {
        // On the heap: the answer is written to it, which a value on the stack would not survive if
        // it were moved.
        let mut word = Box::new(0u64);
        self.until(true, |core, engine| Ok(attempt(core, engine, &mut word)?.then_some(())))?;
        self.until(true, |core, _| {
            core.check()?;
            core.check_left(|left, _| left == rank)?;
            Ok(core.peers[rank as usize].pending.is_empty().then_some(()))
        })?;
        Ok(u64::from_le(std::hint::black_box(*word)))
    }

    /// An atomic operation on an aligned word of 4 or 8 bytes; returns the word that was there.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn atomic(&self, rank: u32, address: u64, operation: (Atomic, usize), operands: (u64, u64)) -> Result<u64, Error> {
        self.word(rank, |core, engine, to| core.try_atomic(engine, There { rank, address }, operation, operands, to))
    }

    /// Calls a function of the program on a place, in the process that owns it.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn call(&self, rank: u32, address: u64, function: u64, argument: i64) -> Result<i64, Error> {
        Ok(self.word(rank, |core, engine, to| core.try_call(engine, There { rank, address }, (function, argument), to))?.cast_signed())
    }

    /// Whether so many bytes are at a place.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`Error::NoMemoryThere`], [`Error::Refused`].
    pub fn probe(&self, rank: u32, address: u64, bytes: usize) -> Result<(), Error> {
        match self.word(rank, |core, engine, to| core.try_probe(engine, There { rank, address }, bytes as u64, to))? {
            0 => Ok(()),
            why => Err(Why::from_bits(why as u8).into()),
        }
    }

    /// Waits until this process's gets and puts are done.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn sync(&self) -> Result<(), Error> {
        self.sync_probed::<Off>()
    }

    /// As [`sync`](Self::sync), the steps of what comes marked.
    ///
    /// # Errors
    /// As there.
    pub fn sync_probed<P: Probe<Stage>>(&self) -> Result<(), Error> {
        self.until_probed::<P, _>(true, |core, engine| Ok(core.try_flush(engine, true)?.then_some(())))
    }

    /// Answers until a peer has got from here `gets` times in all.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn answer_probed<P: Probe<Stage>>(&self, rank: u32, gets: u32) -> Result<(), Error> {
        self.until_probed::<P, _>(true, |core, _| {
            core.check()?;
            core.check_left(|left, _| left == rank)?;
            Ok((core.peers[rank as usize].gets >= gets).then_some(()))
        })
    }

    /// Whether they are.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn is_sync(&self) -> Result<bool, Error> {
        // A look, so that the helper knows that the program polls.
        self.station.poll(|core, engine| {
            core.send_packs(engine, TELL);
            core.step(engine);
            core.try_flush(engine, true).inspect_err(|_| core.abandon())
        })
    }

    /// Waits until all that this process has sent is done, stores included.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn flush(&self) -> Result<(), Error> {
        self.until(true, |core, engine| Ok(core.try_flush(engine, false)?.then_some(())))
    }

    /// Bytes that others have stored here by messages so far.
    pub fn stored(&self) -> u64 {
        let _ = self.station.poll(|core, engine| Ok::<_, Error>(core.step(engine)));
        self.core().stored
    }

    /// Waits until `is_enough` of what [`stored`](Self::stored) says. `is_rung`: it looks at
    /// nothing else.
    ///
    /// # Errors
    /// [`Error::Trouble`]; [`Error::Left`]: somebody has left the job before.
    pub fn wait_stored(&self, is_rung: bool, is_enough: impl Fn(u64) -> bool) -> Result<(), Error> {
        self.until(is_rung, |core, _| {
            if is_enough(core.stored) {
                return Ok(Some(()));
            }
            core.check()?;
            core.check_left(|_, _| true)?;
            Ok(None)
        })
    }
}
