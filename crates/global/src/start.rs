// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process in global memory: how it begins and ends.

use std::cell::{RefCell, UnsafeCell};
use std::ptr::null_mut;
use std::time::Duration;

use bellwire_gas::layout::{self, SYMMETRIC_BASE};
use bellwire_gas::{Error, PeerEntry, Process};
use bellwire_job::Job;

/// Process numbers have 16 bits: an entry for each, so that none has to be checked before the table is looked into. Untouched pages of it cost nothing.
const ENTRIES: usize = 1 << 16;

/// What accesses to words know of each process, field by field: an index then needs no scaling of its own. Everything counts from the beginning of symmetric memory, which all processes have at the same address:
/// a pointer less [`layout::SYMMETRIC_BASE`] is its *distance*. A pointer below symmetric memory thereby falls to the end of the process before it, where nothing is, so that one comparison finds both ends.
pub(crate) struct Table {
    /// The first distance at which no word may begin; 0: nothing is mapped here.
    pub end: [u64; ENTRIES],
    /// Where the pointer with all bits 0 would be mapped here, if it were the process's own.
    pub base: [*mut u8; ENTRIES],
    /// Where this process counts what it stores there.
    pub arrived: [*mut u64; ENTRIES],
}

/// The one table of the process. An object of the program itself and no part of [`Global`]: its address is known when the program is linked, and no access has to load it first.
struct TheTable(UnsafeCell<Table>);

// SAFETY: T3.
unsafe impl Sync for TheTable {}

static TABLE: TheTable = TheTable(UnsafeCell::new(Table { end: [0; ENTRIES], base: [null_mut(); ENTRIES], arrived: [null_mut(); ENTRIES] }));

impl Table {
    /// Notes where the symmetric memory of a process is mapped, if it is.
    fn note(&mut self, process: u32, entry: &PeerEntry) {
        let begin = layout::address_of(entry.origin);
        let Some(words) = (begin + entry.limit).checked_sub(SYMMETRIC_BASE).filter(|words| entry.limit != 0 && *words != 0) else { return };
        let (i, first) = (process as usize, layout::pointer_of(process, 0));
        self.end[i] = first + words;
        self.base[i] = entry.base.wrapping_sub(entry.origin as usize);
        self.arrived[i] = entry.arrived;
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
        // SAFETY: T3: the only writer, before there is a `Global`.
        let table = unsafe { &mut *TABLE.0.get() };
        (0..size).for_each(|number| table.note(number, &process.entry(number)));
        Ok(Self { me, size, process: RefCell::new(process), has_left: false })
    }

    /// What is known of all processes.
    #[inline(always)]
    pub(crate) fn table(&self) -> &'static Table {
        // SAFETY: T3: there is a `Global`, so it is written no more.
        unsafe { &*TABLE.0.get() }
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
