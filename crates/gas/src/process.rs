// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process's global memory: start, and all that is not a word access.

use std::time::Duration;

use bellwire_job::Job;
use bellwire_memory::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use crate::control::{Control, Left};
use crate::error::Error;
use crate::far::{self, Direction};
use crate::layout::{self, File, SYMMETRIC_BASE, WINDOW_END, WORD_MAX};
use crate::symmetric::Symmetric;
use crate::window::{self, Range, Window};
use crate::{fault, host};

/// MiB of heap that are shared, unless `BELLWIRE_GAS_HEAP_MIB` says another number.
const HEAP_MIB: u64 = 1024;
/// MiB of symmetric memory, unless `BELLWIRE_GAS_SYMMETRIC_MIB` says another number. Taken when touched.
const SYMMETRIC_MIB: u64 = 4096;

/// What inline word accesses know of a process; the layout of `struct gas_peer`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PeerEntry {
    /// The first global pointer of its window.
    pub origin: u64,
    /// Bytes of the window at which a word may begin.
    pub limit: u64,
    /// Where the window is mapped here.
    pub base: *mut u8,
    /// Where this process counts what it stores there.
    pub arrived: *mut u64,
}

/// A process as this one knows it.
#[derive(Debug)]
struct Peer {
    pid: u32,
    window: Window,
    entry: PeerEntry,
}

/// This process in global memory.
#[derive(Debug)]
pub struct Process {
    job: Job,
    control: Control,
    peers: Vec<Peer>,
    symmetric: Symmetric,
    /// Stored bytes that are counted off.
    taken: u64,
}

impl Process {
    /// Joins the job, moves this process's statics (from first to last address) and heap into shared memory, and maps everybody's. Collective.
    ///
    /// # Errors
    /// Whatever keeps global memory from being there.
    ///
    /// # Safety
    /// This process has one thread, and `statics` is its own writable data (G2). Nothing else uses the addresses of [`layout`].
    pub unsafe fn start(statics: Range) -> Result<Self, Error> {
        let job = Job::join()?;
        let (process, processes) = (job.rank(), job.size());
        if job.local_size() != processes {
            return Err(Error::OtherHosts { processes, here: job.local_size() });
        }
        if processes > layout::PROCESSES_MAX {
            return Err(Error::TooMany(processes));
        }
        let heap = setting("BELLWIRE_GAS_HEAP_MIB", HEAP_MIB, SYMMETRIC_BASE)?;
        let symmetric = setting("BELLWIRE_GAS_SYMMETRIC_MIB", SYMMETRIC_MIB, WINDOW_END - SYMMETRIC_BASE)?;
        let file = File::new(processes);
        let memfd = host::share(&job, file.bytes())?;
        // SAFETY: a new mapping, wherever the kernel likes it.
        let base = unsafe { mmap(std::ptr::null_mut(), file.control_bytes() as usize, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, memfd.as_fd(), 0) }
            .map_err(Error::from_call("mmap"))?;
        // SAFETY: the whole control area; it is never unmapped (G1).
        let control = unsafe { Control::new(base.cast(), file, process, processes) };
        let window = window::take_over(memfd.as_fd(), file.window(process), statics, heap, symmetric)?;
        far::permit();
        control.publish(std::process::id(), &window);
        // The launcher's barrier: it knows when a process dies on the way.
        job.barrier()?;
        reserve_aliases(processes)?;
        let peers = (0..processes).map(|peer| Peer::map(&control, memfd.as_fd(), file, peer)).collect::<Result<Vec<_>, _>>()?;
        fault::watch(process, processes);
        Ok(Self { job, control, peers, symmetric: Symmetric::new(SYMMETRIC_BASE, symmetric), taken: 0 })
    }

    /// This process's number.
    pub fn process(&self) -> u32 {
        self.job.rank()
    }

    /// How many processes there are.
    pub fn processes(&self) -> u32 {
        self.job.size()
    }

    /// What word accesses need to know of a process.
    pub fn entry(&self, process: u32) -> Option<PeerEntry> {
        self.peers.get(process as usize).map(|peer| peer.entry)
    }

    /// Ends the job.
    pub fn exit(&self, status: i32) -> ! {
        self.control.leave(status);
        self.job.exit(status)
    }

    /// Says that this process leaves by itself.
    pub fn leave(&self, status: i32) {
        self.control.leave(status);
    }

    fn peer(&self, pointer: u64) -> Result<&Peer, Error> {
        let process = layout::process_of(pointer);
        self.peers.get(process as usize).ok_or(Error::NoSuchProcess(process))
    }

    /// Copies between memory of this process and a global place, whole or in part with an error.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`], [`Error::NoMemoryThere`], [`Error::Refused`].
    ///
    /// # Safety
    /// The `bytes` bytes at `here` may be read or, for [`Direction::In`], written.
    pub unsafe fn copy(&self, direction: Direction, pointer: u64, here: *mut u8, bytes: usize) -> Result<(), Error> {
        let peer = self.peer(pointer)?;
        if bytes == 0 {
            return Ok(());
        }
        let address = layout::address_of(pointer);
        let Some(there) = peer.mapped(address, bytes as u64) else {
            // SAFETY: the caller's promise.
            return unsafe { far::copy(direction, peer.pid, address, here, bytes) };
        };
        let (from, to) = if direction == Direction::In { (there.cast_const(), here) } else { (here.cast_const(), there) };
        // SAFETY: `there` is mapped for so many bytes (G1), `here` by the caller's promise. They may overlap: a program may copy onto itself.
        unsafe { std::ptr::copy(from, to, bytes) };
        Ok(())
    }

    /// Fills a global place.
    ///
    /// # Errors
    /// As for [`Process::copy`].
    pub fn fill(&self, pointer: u64, value: u8, bytes: usize) -> Result<(), Error> {
        let peer = self.peer(pointer)?;
        let address = layout::address_of(pointer);
        if let Some(there) = peer.mapped(address, bytes as u64) {
            // SAFETY: mapped for so many bytes (G1).
            unsafe { std::ptr::write_bytes(there, value, bytes) };
            return Ok(());
        }
        let part = [value; 4096];
        for at in (0..bytes).step_by(part.len()) {
            // SAFETY: reads from `part`.
            unsafe { far::copy(Direction::Out, peer.pid, address + at as u64, part.as_ptr().cast_mut(), part.len().min(bytes - at))? };
        }
        Ok(())
    }

    /// Counts bytes that this process has stored at a place.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`].
    pub fn count_store(&self, pointer: u64, bytes: usize) -> Result<(), Error> {
        let entry = self.peer(pointer)?.entry;
        // SAFETY: a word of the control area that this process alone writes (G1).
        let arrived = unsafe { AtomicU64::from_ptr(entry.arrived) };
        // Relaxed: our own word. Release: what was stored before it is counted; pairs with `Control::stored`.
        arrived.store(arrived.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Release);
        Ok(())
    }

    /// Whether so many bytes are at a global place.
    ///
    /// # Errors
    /// As for [`Process::copy`].
    pub fn check(&self, pointer: u64, bytes: usize) -> Result<(), Error> {
        let peer = self.peer(pointer)?;
        let address = layout::address_of(pointer);
        if bytes == 0 || peer.mapped(address, bytes as u64).is_some() {
            return Ok(());
        }
        let mut byte = 0u8;
        for at in [0, bytes as u64 - 1] {
            // SAFETY: one byte of ours.
            unsafe { far::copy(Direction::In, peer.pid, address.wrapping_add(at), &raw mut byte, 1)? };
        }
        Ok(())
    }

    /// An aligned word of 4 or 8 bytes that is mapped here.
    fn shared_word(&self, pointer: u64, bytes: u64) -> Result<*mut u8, Error> {
        let there = self.peer(pointer)?.mapped(layout::address_of(pointer), bytes);
        there.filter(|_| pointer.is_multiple_of(bytes)).ok_or(Error::NoMemoryThere)
    }

    /// Applies an atomic operation to an aligned word of 4 bytes.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`]; [`Error::NoMemoryThere`] if it is not aligned or not in shared memory.
    pub fn atomic32<R>(&self, pointer: u64, operation: impl FnOnce(&AtomicU32) -> R) -> Result<R, Error> {
        // SAFETY: aligned and mapped (G1).
        Ok(operation(unsafe { AtomicU32::from_ptr(self.shared_word(pointer, 4)?.cast()) }))
    }

    /// Applies an atomic operation to an aligned word of 8 bytes.
    ///
    /// # Errors
    /// As for [`Process::atomic32`].
    pub fn atomic64<R>(&self, pointer: u64, operation: impl FnOnce(&AtomicU64) -> R) -> Result<R, Error> {
        // SAFETY: aligned and mapped (G1).
        Ok(operation(unsafe { AtomicU64::from_ptr(self.shared_word(pointer, 8)?.cast()) }))
    }

    /// Completes this process's gets and puts: over shared memory they are complete, and now in order with everything.
    pub fn sync(&self) {
        // SeqCst: puts before whatever this process reads next; pairs with the same in the others.
        fence(Ordering::SeqCst);
    }

    /// Waits for all processes.
    ///
    /// # Errors
    /// [`Left`].
    pub fn barrier(&self) -> Result<(), Left> {
        // SeqCst: as in `sync`; the barrier itself orders the rest.
        fence(Ordering::SeqCst);
        self.control.barrier()
    }

    /// Waits for stored bytes and takes them off the count.
    ///
    /// # Errors
    /// [`Left`].
    pub fn store_sync(&mut self, bytes: u64) -> Result<(), Left> {
        self.control.wait_stored(self.taken.wrapping_add(bytes))?;
        self.taken = self.taken.wrapping_add(bytes);
        Ok(())
    }

    /// Bytes stored here that are not taken off the count.
    pub fn store_count(&self) -> u64 {
        self.control.stored().wrapping_sub(self.taken)
    }

    /// Sets the count to 0.
    pub fn reset_store_sync(&mut self) {
        self.taken = self.control.stored();
    }

    /// Waits until all stores of all have arrived. Collective. Nobody stores again before everybody has set its count to 0.
    ///
    /// # Errors
    /// [`Left`].
    pub fn all_store_sync(&mut self) -> Result<(), Left> {
        self.barrier()?;
        self.reset_store_sync();
        self.barrier()
    }

    /// Spread memory: a pointer to the first block, in process 0, or 0. Collective. If `is_automatic`, waits until all are here: what was freed before may be in use elsewhere till then.
    ///
    /// # Errors
    /// [`Left`].
    pub fn spread_make(&mut self, blocks: u64, block_bytes: u64) -> Result<u64, Left> {
        let rows = blocks.div_ceil(u64::from(self.processes()));
        // Behind the last byte a word may not begin: the window's limit is shorter than the window.
        let made = rows.checked_mul(block_bytes).and_then(|bytes| self.symmetric.take(bytes.checked_add(WORD_MAX)?));
        self.barrier()?;
        Ok(made.map_or(0, |address| layout::pointer_of(0, address)))
    }

    /// Gives spread memory back; false if it is none.
    pub fn spread_end(&mut self, pointer: u64) -> bool {
        self.symmetric.give(layout::address_of(pointer))
    }

    /// Everybody's bytes to everybody, in order.
    ///
    /// # Errors
    /// [`Left`].
    pub fn exchange(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), Left> {
        self.control.exchange(mine, all)
    }

    /// One process's bytes to all.
    ///
    /// # Errors
    /// [`Left`].
    pub fn broadcast(&mut self, data: &mut [u8], root: u32) -> Result<(), Left> {
        self.control.broadcast(data, root)
    }

    /// Time since the machine's start.
    pub fn now() -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    }
}

impl Peer {
    fn map(control: &Control, memfd: rustix::fd::BorrowedFd<'_>, file: File, process: u32) -> Result<Self, Error> {
        let (pid, window) = control.published(process);
        if !window.is_sound() {
            return Err(Error::Misfit(process));
        }
        let alias = layout::alias_of(process);
        for (begin, end) in window.parts().into_iter().filter(|part| *part != (0, 0)) {
            window::map_at(memfd, file.window(process) + begin, alias + begin, end - begin)?;
        }
        let (begin, end) = window.whole();
        let base = std::ptr::with_exposed_provenance_mut((alias + begin) as usize);
        let entry = PeerEntry { origin: layout::pointer_of(process, begin), limit: end - begin - WORD_MAX, base, arrived: control.arrived_at(process) };
        Ok(Self { pid, window, entry })
    }

    /// Where so many bytes from an address of that process are mapped here.
    fn mapped(&self, address: u64, bytes: u64) -> Option<*mut u8> {
        let end = address.checked_add(bytes)?;
        let is_in = self.window.parts().into_iter().any(|part| address >= part.0 && end <= part.1);
        is_in.then(|| self.entry.base.wrapping_add((address - self.window.whole().0) as usize))
    }
}

/// Takes the addresses of all aliases, so that nothing else is put there and holes stay holes.
fn reserve_aliases(processes: u32) -> Result<(), Error> {
    let at = std::ptr::without_provenance_mut(layout::ALIAS_BASE as usize);
    let bytes = u64::from(processes) * layout::ALIAS_STRIDE;
    // SAFETY: without FIXED_REPLACE nothing that is there is lost.
    unsafe { mmap_anonymous(at, bytes as usize, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE) }
        .map_err(Error::from_call("mmap"))?;
    Ok(())
}

/// A number of MiB from the environment, in bytes.
fn setting(name: &'static str, default_mib: u64, bytes_max: u64) -> Result<u64, Error> {
    let mib = match std::env::var(name) {
        Ok(text) => text.parse::<u64>().map_err(|_| Error::BadSetting(name))?,
        Err(_) => default_mib,
    };
    mib.checked_mul(1 << 20).filter(|bytes| (1..=bytes_max).contains(bytes)).ok_or(Error::BadSetting(name))
}
