// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process in global memory: how it begins and ends.

use std::cell::RefCell;
use std::time::Duration;

use bellwire_gas::{Error, PeerEntry, Process};
use bellwire_job::Job;

/// Process numbers have 16 bits: an entry for each, so that none has to be checked before the table is looked into. Untouched pages of it cost nothing.
const ENTRIES: usize = 1 << 16;

/// What accesses to words know of each process ([`PeerEntry`]), field by field: an index then needs no scaling of its own.
#[repr(C)]
pub(crate) struct Table {
    /// The first global pointer of its window.
    pub origin: [u64; ENTRIES],
    /// Bytes of the window at which a word may begin; 0: it is not mapped here.
    pub limit: [u64; ENTRIES],
    /// Where the window is mapped here.
    pub base: [*mut u8; ENTRIES],
    /// Where this process counts what it stores there.
    pub arrived: [*mut u64; ENTRIES],
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}

impl Table {
    /// Of these processes; nothing of others.
    fn new(entries: impl Iterator<Item = PeerEntry>) -> Box<Self> {
        let layout = std::alloc::Layout::new::<Self>();
        // SAFETY: not of size 0; zeros are a table of numbers and null pointers.
        let mut table = unsafe {
            let memory = std::alloc::alloc_zeroed(layout);
            if memory.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            Box::from_raw(memory.cast::<Self>())
        };
        for (i, entry) in entries.enumerate() {
            (table.origin[i], table.limit[i], table.base[i], table.arrived[i]) = (entry.origin, entry.limit, entry.base, entry.arrived);
        }
        table
    }
}

/// This process in global memory. Once in a process, and of one thread.
///
/// ```compile_fail
/// fn crosses_threads<T: Send>() {}
/// crosses_threads::<bellwire_global::Global>();
/// ```
#[derive(Debug)]
pub struct Global {
    pub(crate) table: Box<Table>,
    pub(crate) me: u32,
    pub(crate) size: u32,
    pub(crate) process: RefCell<Process>,
    has_left: bool,
}

impl Global {
    /// Joins the job that this process was started in, and shares memory or connects with all its processes. Collective.
    ///
    /// # Errors
    /// Whatever keeps global memory from being there; [`Error::Twice`].
    pub fn start() -> Result<Self, Error> {
        Self::start_in(Job::join()?)
    }

    /// The same in a job that the program has joined already, for Active Messages for instance.
    ///
    /// # Errors
    /// As for [`Global::start`].
    pub fn start_in(job: Job) -> Result<Self, Error> {
        let process = Process::join(job)?;
        let (me, size) = (process.process(), process.processes());
        let table = Table::new((0..size).map(|number| process.entry(number)));
        Ok(Self { table, me, size, process: RefCell::new(process), has_left: false })
    }

    /// This process's number, from 0.
    #[inline]
    pub fn process(&self) -> u32 {
        self.me
    }

    /// How many processes there are.
    #[inline]
    pub fn processes(&self) -> u32 {
        self.size
    }

    /// Time since the machine's start.
    pub fn now() -> Duration {
        Process::now()
    }

    /// Ends well: completes what this process has begun, and waits for all others to come so far. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn finish(mut self) -> Result<(), Error> {
        self.sync()?;
        self.barrier()?;
        self.has_left = true;
        self.process.borrow_mut().leave(0);
        Ok(())
    }

    /// Ends the whole job with a status from 0 to 255, and this process at once.
    pub fn exit(&self, status: i32) -> ! {
        self.process.borrow_mut().exit(status)
    }
}

impl Drop for Global {
    /// Who ends without [`finish`](Global::finish) leaves without waiting: with success, or as a panic's status if this is one.
    fn drop(&mut self) {
        if !self.has_left {
            let status = if std::thread::panicking() { 101 } else { 0 };
            self.process.borrow_mut().leave(status);
        }
    }
}
