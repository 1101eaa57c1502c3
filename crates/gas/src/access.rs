// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses to global places: by the mapping where there is one, by the kernel within the host, by
//! messages elsewhere. What the header does inline never comes here.

use bellwire_memory::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::far::{self, Direction};
use crate::layout;
use crate::net::{Atomic, Net};
use crate::probe::{Off, Probe, Stage};
use crate::process::{Peer, PeerEntry, Process};
use crate::window::Window;

/// Bytes that are written at a time to fill a place that is not mapped.
const FILL_BYTES: usize = 4096;

/// How a global place is reached.
enum Way<'a> {
    Mapped { pid: u32, window: &'a Window, entry: &'a PeerEntry },
    Messages { net: &'a Net, rank: u32 },
    Vi { net: &'a Net, rank: u32 },
}

/// What a copy has come to.
enum Copied<'a> {
    Done,
    /// Nothing is done: the place is reached by messages.
    Messages(&'a Net, u32),
    /// Nothing is done: the place is reached by VIs.
    Vi(&'a Net, u32),
}

impl Way<'_> {
    /// Where so many bytes from an address are mapped here.
    fn mapped(&self, address: u64, bytes: u64) -> Option<*mut u8> {
        let Self::Mapped { window, entry, .. } = self else { return None };
        let end = address.checked_add(bytes)?;
        let is_in = window.parts().into_iter().any(|part| address >= part.0 && end <= part.1);
        is_in.then(|| entry.base.wrapping_add((address - window.whole().0) as usize))
    }
}

impl Process {
    /// How `bytes` bytes at a place are reached, if the program may name them.
    fn way(&self, pointer: u64, bytes: usize) -> Result<Way<'_>, Error> {
        if let Some((begin, end)) = self.limits {
            let address = layout::address_of(pointer);
            let is_in = address >= begin && address.checked_add(bytes as u64).is_some_and(|last| last <= end);
            if !is_in {
                return Err(Error::NoMemoryThere);
            }
        }
        self.way_to(pointer)
    }

    fn way_to(&self, pointer: u64) -> Result<Way<'_>, Error> {
        let process = layout::process_of(pointer);
        match (self.peers.get(process as usize), &self.net) {
            (Some(Peer::Mapped { pid, window, entry }), _) => Ok(Way::Mapped { pid: *pid, window, entry }),
            (Some(Peer::Far), Some(net)) => Ok(Way::Messages { net, rank: process as u32 }),
            (Some(Peer::Vi), Some(net)) => Ok(Way::Vi { net, rank: process as u32 }),
            (Some(Peer::Far | Peer::Vi), None) | (None, _) => Err(Error::NoSuchProcess(process)),
        }
    }

    /// Copies between memory of this process and a global place on this host, whole or in part with
    /// an error, unless it is elsewhere.
    ///
    /// # Safety
    /// The `bytes` bytes at `here` may be read or, for [`Direction::In`], written.
    unsafe fn copy(&self, direction: Direction, pointer: u64, here: *mut u8, bytes: usize) -> Result<Copied<'_>, Error> {
        // SAFETY: the caller's promise.
        unsafe { Self::copy_by(self.way(pointer, bytes)?, direction, pointer, here, bytes) }
    }

    /// The same by a way.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    unsafe fn copy_by<'a>(way: Way<'a>, direction: Direction, pointer: u64, here: *mut u8, bytes: usize) -> Result<Copied<'a>, Error> {
        let address = layout::address_of(pointer);
        if bytes == 0 {
            return Ok(Copied::Done);
        }
        let Some(there) = way.mapped(address, bytes as u64) else {
            return match way {
                Way::Messages { net, rank } => Ok(Copied::Messages(net, rank)),
                Way::Vi { net, rank } => Ok(Copied::Vi(net, rank)),
                // SAFETY: the caller's promise.
                Way::Mapped { pid, .. } => unsafe { far::copy(direction, pid, address, here, bytes) }.map(|()| Copied::Done),
            };
        };
        let (from, to) = if direction == Direction::In { (there.cast_const(), here) } else { (here.cast_const(), there) };
        // SAFETY: `there` is mapped for so many bytes (G1), `here` by the caller's promise. They
        // may overlap: a program may copy onto itself.
        unsafe { bellwire_memory::bytes::copy_any(to, from, bytes) };
        Ok(Copied::Done)
    }

    /// Reads: the bytes are there when it returns.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`], [`Error::NoMemoryThere`], [`Error::Refused`]; of other hosts
    /// [`Error::Trouble`], [`Error::Left`]. A part may have been copied.
    ///
    /// # Safety
    /// The `bytes` bytes at `to` may be written.
    pub unsafe fn read(&self, to: *mut u8, pointer: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        match unsafe { self.copy(Direction::In, pointer, to, bytes)? } {
            // SAFETY: the caller's promise, which is C1 of the messages.
            Copied::Messages(net, rank) => unsafe { net.read(rank, layout::address_of(pointer), to, bytes) },
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Vi(net, rank) => unsafe { net.vi_read(rank, layout::address_of(pointer), to, bytes) },
            Copied::Done => Ok(()),
        }
    }

    /// Reads what another process has named itself, wherever it lies.
    ///
    /// # Errors
    /// As for [`Process::read`].
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn read_anywhere(&self, to: *mut u8, pointer: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        match unsafe { Self::copy_by(self.way_to(pointer)?, Direction::In, pointer, to, bytes)? } {
            // SAFETY: the caller's promise, which is C1 of the messages.
            Copied::Messages(net, rank) => unsafe { net.read(rank, layout::address_of(pointer), to, bytes) },
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Vi(net, rank) => unsafe { net.vi_read(rank, layout::address_of(pointer), to, bytes) },
            Copied::Done => Ok(()),
        }
    }

    /// Gets: the bytes are there after [`Process::sync`].
    ///
    /// # Errors
    /// As for [`Process::read`]; those of other hosts may also come later.
    ///
    /// # Safety
    /// The `bytes` bytes at `to` may be written until then.
    pub unsafe fn get(&self, to: *mut u8, pointer: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.get_probed::<Off>(to, pointer, bytes) }
    }

    /// As [`get`](Self::get), its steps marked.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn get_probed<P: Probe<Stage>>(&self, to: *mut u8, pointer: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        match unsafe { self.copy(Direction::In, pointer, to, bytes)? } {
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Messages(net, rank) => unsafe { net.get_probed::<P>(rank, layout::address_of(pointer), to, bytes) },
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Vi(net, rank) => unsafe { net.vi_get(rank, layout::address_of(pointer), to, bytes) },
            Copied::Done => Ok(()),
        }
    }

    /// Writes: the bytes are at the place when it returns.
    ///
    /// # Errors
    /// As for [`Process::read`].
    ///
    /// # Safety
    /// The `bytes` bytes at `from` may be read; G3 for the place.
    pub unsafe fn write(&self, pointer: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        match unsafe { self.copy(Direction::Out, pointer, from.cast_mut(), bytes)? } {
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Messages(net, rank) => unsafe { net.write(rank, layout::address_of(pointer), from, bytes) },
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Vi(net, rank) => unsafe { net.vi_write(rank, layout::address_of(pointer), from, bytes) },
            Copied::Done => Ok(()),
        }
    }

    /// Puts: the bytes are at the place after [`Process::sync`]; the memory at `from` is the
    /// caller's again at once.
    ///
    /// # Errors
    /// As for [`Process::get`].
    ///
    /// # Safety
    /// The `bytes` bytes at `from` may be read; G3 for the place.
    pub unsafe fn put(&self, pointer: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        match unsafe { self.copy(Direction::Out, pointer, from.cast_mut(), bytes)? } {
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Messages(net, rank) => unsafe { net.put(rank, layout::address_of(pointer), from, bytes) },
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Vi(net, rank) => unsafe { net.vi_put(rank, layout::address_of(pointer), from, bytes) },
            Copied::Done => Ok(()),
        }
    }

    /// Stores: the bytes are counted where they arrive. The memory at `from` is the caller's again
    /// at once.
    ///
    /// # Errors
    /// As for [`Process::get`].
    ///
    /// # Safety
    /// The `bytes` bytes at `from` may be read; G3 for the place.
    pub unsafe fn store(&self, pointer: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        match unsafe { self.copy(Direction::Out, pointer, from.cast_mut(), bytes)? } {
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Messages(net, rank) => return unsafe { net.store(rank, layout::address_of(pointer), from, bytes) },
            // SAFETY: the caller's promise, which is C1 of the messages; G3 where it writes.
            Copied::Vi(net, rank) => return unsafe { net.vi_store(rank, layout::address_of(pointer), from, bytes) },
            Copied::Done => {}
        }
        if let Way::Mapped { entry, .. } = self.way(pointer, bytes)? {
            // SAFETY: a word of the control area that this process alone writes (G1).
            let arrived = unsafe { AtomicU64::from_ptr(entry.arrived) };
            // Relaxed: our own word. Release: bytes stored before the count; pairs with
            // `Control::stored`.
            arrived.store(arrived.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Release);
        }
        Ok(())
    }

    /// Fills a global place.
    ///
    /// # Errors
    /// As for [`Process::read`].
    ///
    /// # Safety
    /// G3.
    pub unsafe fn fill(&self, pointer: u64, value: u8, bytes: usize) -> Result<(), Error> {
        let way = self.way(pointer, bytes)?;
        let address = layout::address_of(pointer);
        if let Some(there) = way.mapped(address, bytes as u64) {
            // SAFETY: mapped for so many bytes (G1); the caller's promise (G3).
            unsafe { std::ptr::write_bytes(there, value, bytes) };
            return Ok(());
        }
        let part = [value; FILL_BYTES];
        for at in (0..bytes).step_by(FILL_BYTES) {
            // SAFETY: reads from `part`; the caller's promise (G3).
            unsafe { self.write(layout::pointer_of(layout::process_of(pointer) as u32, address + at as u64), part.as_ptr(), FILL_BYTES.min(bytes - at))? };
        }
        Ok(())
    }

    /// Whether so many bytes are at a global place.
    ///
    /// # Errors
    /// As for [`Process::read`].
    pub fn check(&self, pointer: u64, bytes: usize) -> Result<(), Error> {
        let way = self.way(pointer, bytes)?;
        let address = layout::address_of(pointer);
        if bytes == 0 || way.mapped(address, bytes as u64).is_some() {
            return Ok(());
        }
        match way {
            Way::Messages { net, rank } => net.probe(rank, address, bytes),
            Way::Vi { net, rank } => net.vi_settle(rank).and_then(|()| net.probe(rank, address, bytes)),
            Way::Mapped { pid, .. } => [0, bytes as u64 - 1].into_iter().try_for_each(|at| {
                let mut byte = 0u8;
                // SAFETY: one byte of ours.
                unsafe { far::copy(Direction::In, pid, address.wrapping_add(at), &raw mut byte, 1) }
            }),
        }
    }

    /// Calls a function of the program's table on a place, with an argument: one at a time on all
    /// places of a process. Returns its result.
    ///
    /// # Errors
    /// As for [`Process::atomic`]; [`Error::NoSuchFunction`].
    ///
    /// # Safety
    /// G3.
    pub unsafe fn call(&self, pointer: u64, function: u64, argument: i64) -> Result<i64, Error> {
        let way = self.way(pointer, 1)?;
        let address = layout::address_of(pointer);
        match way {
            Way::Messages { net, rank } => return net.call(rank, address, function, argument),
            Way::Vi { net, rank } => return net.vi_settle(rank).and_then(|()| net.call(rank, address, function, argument)),
            Way::Mapped { .. } => {}
        }
        let place = way.mapped(address, 1).ok_or(Error::NoMemoryThere)?;
        let owner = self.group.index_of(layout::process_of(pointer) as u32).ok_or(Error::NoMemoryThere)?;
        // SAFETY: mapped (G1); the caller's promise (G3).
        unsafe { self.control.lock(owner).call(function, place, argument) }
    }

    /// Applies an atomic operation to an aligned word of `bytes` bytes, 4 or 8; returns what was
    /// there.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`]; [`Error::NoMemoryThere`] if it is not aligned or not in shared
    /// memory; of other hosts [`Error::Trouble`], [`Error::Left`].
    ///
    /// # Safety
    /// G3.
    pub unsafe fn atomic(&self, pointer: u64, operation: Atomic, bytes: usize, operand: u64, expected: u64) -> Result<u64, Error> {
        let way = self.way(pointer, bytes)?;
        let address = layout::address_of(pointer);
        if !matches!(bytes, 4 | 8) || !address.is_multiple_of(bytes as u64) {
            return Err(Error::NoMemoryThere);
        }
        match way {
            Way::Messages { net, rank } => net.atomic(rank, address, (operation, bytes), (operand, expected)),
            Way::Vi { net, rank } => net.vi_settle(rank).and_then(|()| net.atomic(rank, address, (operation, bytes), (operand, expected))),
            Way::Mapped { .. } => {
                let word = way.mapped(address, bytes as u64).ok_or(Error::NoMemoryThere)?;
                // SAFETY: aligned and mapped (G1); the caller's promise (G3).
                Ok(unsafe { operation.apply(word, bytes, operand, expected) })
            }
        }
    }
}
