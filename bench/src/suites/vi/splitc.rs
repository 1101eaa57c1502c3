// SPDX-License-Identifier: MIT OR Apache-2.0
//! Split-C's memory operations on virtual interfaces: the layer of programs, `crates/gasvia`, in
//! both of its versions, between the two measuring processes, or between two NICs of the first one,
//! whose steps are marked.
//!
//! Invariant P1: the places of this process, those that the other one reaches and its own, are
//! static memory.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bellwire_gasvia::probe::Off;
use bellwire_gasvia::{Core, Failure, Kind, Memory, Nic, Station, Stop, There, Version};
use bellwire_memory::bytes;
use serde::{Deserialize, Serialize};

use crate::crowd::Crowd;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::job::{Request, Setup};
use crate::mapped::check_library;
use crate::patient::Patient;
use crate::shared::SharedMap;
use crate::spans::{POLLED, PROGRAM, REQUESTED, Trip, Watch, taken_apart};

/// How a pair of processes uses VIs: a [`Version`] that travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vis {
    /// One for everything: 8 credits, bulk data by gather.
    One,
    /// One for words with 64 credits, one for bulk data with 8, which is copied.
    Two,
}

/// An operation on the other's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A get that is waited for.
    Read,
    /// A put that is waited for.
    Write,
    /// Asks for bytes; many may be out.
    Get,
    /// Writes bytes, and hears of it; many may be out.
    Put,
    /// Writes bytes, of which the other alone hears.
    Store,
}

impl Operation {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Get, Self::Put, Self::Store];

    /// As programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Get => "get",
            Self::Put => "put",
            Self::Store => "store",
        }
    }
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitcJob {
    /// `[ns of an operation, GB/s]`, of words or bulk data; all are done at the end.
    Operations {
        /// Which.
        operation: Operation,
        /// Bytes of each.
        bytes: usize,
        /// Operations.
        count: u64,
    },
    /// As `Operations`, of words of 8 bytes, with so many credits in place of the version's.
    Credits {
        /// Which.
        operation: Operation,
        /// On the VI for words.
        credits: u16,
        /// Operations.
        count: u64,
    },
    /// As [`MappedJob::Steps`](crate::mapped::MappedJob::Steps), of a get of a word.
    Steps {
        /// Samples, at least.
        samples: u64,
    },
}

/// Bytes that the other process reaches; so many that it does not reach follow.
const REACHED: usize = 1 << 20;
/// Bytes of what a process tells the other: the length of its name, and that.
const NAME_BYTES: usize = 48;

/// Memory of this process (P1), which the other one names by offsets.
#[derive(Debug, Clone, Copy)]
struct Segment(*mut u8);

// SAFETY: P1: any thread may touch it; the layer keeps their accesses in order.
unsafe impl Send for Segment {}
// SAFETY: P1: any thread may look at it; the layer keeps their accesses in order.
unsafe impl Sync for Segment {}

static SEGMENT: LazyLock<Segment> = LazyLock::new(|| Segment(Box::leak(vec![0x5a5a_5a5a_5a5a_5a5a_u64; REACHED / 4].into_boxed_slice()).as_mut_ptr().cast()));

impl Segment {
    /// A place of this process's own.
    fn own(self) -> *mut u8 {
        self.0.wrapping_add(REACHED)
    }
}

impl Memory for Segment {
    fn find(&self, address: u64, bytes: usize) -> Option<*mut u8> {
        let at = usize::try_from(address).ok().filter(|at| *at <= REACHED && bytes <= REACHED - at)?;
        Some(self.0.wrapping_add(at))
    }

    unsafe fn read(&self, address: u64, to: *mut u8, bytes: usize) -> Result<(), u8> {
        let from = self.find(address, bytes).ok_or(1)?;
        // SAFETY: P1: so many bytes are there; `to` is the caller's.
        unsafe { copy(to, from, bytes) };
        Ok(())
    }

    unsafe fn write(&self, address: u64, from: *const u8, bytes: usize) -> Result<(), u8> {
        let to = self.find(address, bytes).ok_or(1)?;
        // SAFETY: P1: so many bytes are there; `from` is the caller's.
        unsafe { copy(to, from, bytes) };
        Ok(())
    }
}

/// # Safety
/// Readable and writable for `length` bytes, which do not overlap.
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the caller's.
    unsafe { if length <= bytes::SMALL_MAX { bytes::copy_small(to, from, length) } else { bytes::copy(to, from, length) } };
}

fn failed(failure: Failure) -> Error {
    Error::failed(format!("Split-C on VIs: {failure:?}"))
}

fn open(setup: &Setup, vis: Vis, credits: Option<u16>, rank: u32) -> Result<Core<Segment>, Error> {
    check_library(setup)?;
    let nic = Nic::open(std::env::current_exe().ok().as_deref()).map_err(Error::failed)?;
    let version = match vis {
        Vis::One => Version::One,
        Vis::Two => Version::Two,
    };
    Core::with_credits(Arc::new(nic), version, credits, (rank, 2), *SEGMENT).map_err(failed)
}

/// Runs a job: its figures.
///
/// # Errors
/// If the library fails, or the other process does not come.
pub fn run(setup: &Setup, request: &Request, map: &SharedMap, vis: Vis, job: SplitcJob) -> Result<Vec<f64>, Error> {
    let (operation, bytes, count, credits) = match job {
        SplitcJob::Operations { operation, bytes, count } => (operation, bytes, count, None),
        SplitcJob::Credits { operation, credits, count } => (operation, 8, count, Some(credits)),
        SplitcJob::Steps { .. } if !setup.first => return Ok(Vec::new()),
        SplitcJob::Steps { samples } => return steps(setup, vis, samples),
    };
    if bytes > REACHED {
        return Err(Error::unsupported(format!("{bytes} bytes; the most is {REACHED}")));
    }
    let mut crowd = Crowd::new(setup, request, map, 1);
    let mut core = open(setup, vis, credits, u32::from(!setup.first))?;
    let own = core.name();
    let mut told = [&[own.len() as u8], &own[..]].concat();
    told.resize(NAME_BYTES, 0);
    let other = crowd.exchange(&told)?;
    let other = other.get(1..=usize::from(other[0])).unwrap_or_default().to_vec();
    core.meet(&if setup.first { [own, other] } else { [other, own] }).map_err(failed)?;
    let side = Side { station: Station::new(core)?, end: Instant::now() + PATIENCE };
    crowd.meet()?;
    let figures = if setup.first { side.measure(operation, bytes, count)? } else { Vec::new() };
    crowd.look_until_both(|| side.station.with(|core| core.poll::<Off>()).map(|_| true).map_err(failed))?;
    Ok(figures)
}

/// One process of the two.
struct Side {
    station: Station<Segment>,
    /// Until when the other one may take.
    end: Instant,
}

impl Side {
    fn beside(&self) -> impl Fn(Option<u32>) -> Result<(), ()> {
        let end = self.end;
        move |_| if Instant::now() < end { Ok(()) } else { Err(()) }
    }

    /// Waits until all is answered; `of_stores`: stores too.
    fn settle(&self, of_stores: bool) -> Result<(), Stop<()>> {
        self.station.until(Some(1), self.beside(), |core| Ok(core.try_flush::<Off>(Some(1), of_stores)?.then_some(())))
    }

    fn get(&self, from: There, bytes: usize) -> Result<(), Stop<()>> {
        let (to, mut done) = (SEGMENT.own(), 0);
        // SAFETY: P1: a place of this process's own.
        self.station.until(Some(1), self.beside(), |core| Ok(unsafe { core.try_get::<Off>(from, (to, bytes), &mut done)? }.then_some(())))
    }

    fn send(&self, kind: Kind, to: There, bytes: usize) -> Result<(), Stop<()>> {
        // SAFETY: P1: a place of this process's own.
        unsafe { self.station.send(kind, to, (SEGMENT.own(), bytes), self.beside()) }
    }

    fn one(&self, operation: Operation, place: There, bytes: usize) -> Result<(), Stop<()>> {
        match operation {
            Operation::Read => self.get(place, bytes).and_then(|()| self.settle(false)),
            Operation::Write => self.send(Kind::Put, place, bytes).and_then(|()| self.settle(false)),
            Operation::Get => self.get(place, bytes),
            Operation::Put => self.send(Kind::Put, place, bytes),
            Operation::Store => self.send(Kind::Store, place, bytes),
        }
    }

    fn measure(&self, operation: Operation, bytes: usize, count: u64) -> Result<Vec<f64>, Error> {
        let warm_up = count / 8 + 1;
        let run = || {
            let mut start = Instant::now();
            for number in 0..warm_up + count {
                if number == warm_up {
                    self.settle(true)?;
                    start = Instant::now();
                }
                // Words lie beside each other; bulk data lies at the beginning.
                let address = if bytes <= 8 { number * 8 % REACHED as u64 } else { 0 };
                self.one(operation, There { rank: 1, address }, bytes)?;
            }
            self.settle(true)?;
            Ok(start.elapsed())
        };
        let time = run().map_err(|stop| match stop {
            Stop::Failure(failure) => failed(failure),
            Stop::Beside(()) => Error::failed("the other process does not answer"),
        })?;
        let each = time.as_nanos() as f64 / count as f64;
        Ok(vec![each, bytes as f64 / each])
    }
}

/// Two NICs of this process by turns on one thread: a get, the poll that serves it, the poll that
/// takes its value.
struct Both {
    client: Core<Segment>,
    server: Core<Segment>,
    gets: u64,
}

fn steps(setup: &Setup, vis: Vis, samples: u64) -> Result<Vec<f64>, Error> {
    let (mut client, mut server) = (open(setup, vis, None, 0)?, open(setup, vis, None, 1)?);
    let names = [client.name(), server.name()];
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| server.meet(&names));
        client.meet(&names).and(asks.join().expect("no panic")).map_err(failed)
    })?;
    taken_apart(samples, &mut Both { client, server, gets: 0 })
}

impl Trip for Both {
    #[inline]
    fn make<W: Watch>(&mut self) -> Result<(), Error> {
        W::step(PROGRAM);
        let (place, mut done) = (There { rank: 1, address: self.gets * 8 % REACHED as u64 }, 0);
        // SAFETY: P1: a place of this process's own.
        let has_left = unsafe { self.client.try_get::<W>(place, (SEGMENT.own(), 8), &mut done) }.map_err(failed)?;
        W::step(REQUESTED);
        if !has_left {
            return Err(Error::failed("no credit for the only get"));
        }
        self.gets += 1;
        let gets = self.gets;
        poll_until::<W>(&mut self.server, |core| Ok(core.served() >= gets))?;
        poll_until::<W>(&mut self.client, |core| core.try_flush::<W>(Some(1), false))
    }
}

#[inline]
fn poll_until<W: Watch>(core: &mut Core<Segment>, mut is_so: impl FnMut(&mut Core<Segment>) -> Result<bool, Failure>) -> Result<(), Error> {
    let mut patience = Patient::default();
    while !is_so(core).map_err(failed)? {
        W::step(PROGRAM);
        let found = core.poll::<W>().map_err(failed)?;
        W::step(POLLED);
        if !found {
            patience.tick()?;
        }
    }
    Ok(())
}
