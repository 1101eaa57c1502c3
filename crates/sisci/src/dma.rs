// SPDX-License-Identifier: MIT OR Apache-2.0
//! DMA queues and block transfers: copies between segments that go on beside the program.
//!
//! A transfer is copied by the library's mover thread, or by a thread that waits for it, whichever
//! comes first: a program that starts and waits pays no change of threads, and one that computes
//! meanwhile has its copy done by another processor. One thread at a time copies, front to back, so
//! that bytes arrive in order. Short transfers are copied at once, since waking the mover would
//! take longer.
//!
//! ```text
//! enqueue: IDLE -> GATHER -> post: POSTED -> DONE | ABORTED | ERROR -> reset: IDLE
//! start:   any but GATHER    -> POSTED -> DONE | ABORTED | ERROR
//! ```

use crate::error::Error;
use crate::events::{Action, Events};
use crate::far::Flight;
use crate::handles::Object;
use crate::library::{Descriptor, Library};
use crate::local::LocalSegment;
use crate::map::Map;
use crate::memory::Memory;
use crate::mover::Work;
use crate::place::{CHUNK, FAR_CHUNK, Piece, Place};
use crate::remote::RemoteSegment;
use crate::rendezvous::Deadline;
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_memory::bytes::SharedBytes;
use core::fmt;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Transfers up to this are copied by the call that starts them.
const AT_ONCE: usize = 32 << 10;
/// Entries that a queue may have, whatever it was created for.
pub const ENTRIES_MAX: usize = 1 << 16;

/// How a queue stands. The numbers are those of `sisci_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QueueState {
    /// Nothing in it.
    Idle = 0,
    /// Has entries that are not posted.
    Gather = 1,
    /// Transfers are under way.
    Posted = 2,
    /// All have arrived.
    Done = 3,
    /// The program has aborted them.
    Aborted = 4,
    /// The peer was lost.
    Error = 5,
}

/// A function of the program that runs at the end of a transfer.
pub type DoneCallback = Box<dyn FnMut(Result<(), Error>) -> Action + Send>;

/// Parts of memory, and their offsets in a segment.
type Parts<'a> = Vec<(SharedBytes<'a>, usize)>;

#[derive(Default)]
struct Progress {
    piece: usize,
    offset: usize,
    running: bool,
    /// Threads that wait for a change: without any, none need be told.
    waiting: u32,
    aborted: bool,
    result: Option<Result<(), Error>>,
    /// Told once, at the end.
    done: Option<Arc<Events<DoneEvent>>>,
    callback: Option<DoneCallback>,
}

type DoneEvent = (DoneCallback, Result<(), Error>);

/// Transfers that begin and end together.
pub(crate) struct Job {
    pieces: Vec<Piece>,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// If all pieces are writes to one segment of another host: they leave one behind the other.
    flight: Option<Mutex<Flight>>,
    /// Some of them have begun, which cannot be held back any more; they all have left.
    has_begun: AtomicBool,
    has_left: AtomicBool,
}

/// Pieces of a job that leave one behind the other, most.
const FLIGHT_PIECES_MAX: usize = 32;

impl Job {
    fn new(pieces: Vec<Piece>, callback: Option<DoneCallback>, done: Option<Arc<Events<DoneEvent>>>) -> Arc<Self> {
        let progress = Progress { done, callback, ..Progress::default() };
        let mut job = Self {
            pieces,
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            flight: None,
            has_begun: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
        };
        job.flight = job.parts().map(|_| Mutex::default());
        Arc::new(job)
    }

    /// The segment and the parts of a job that can be a flight.
    fn parts(&self) -> Option<(&Arc<RemoteSegment>, Parts<'_>)> {
        let pieces = || self.pieces.iter().filter(|piece| piece.len != 0);
        let (segment, ..) = pieces().next()?.to_far()?;
        let is_short = pieces().count() <= FLIGHT_PIECES_MAX && self.bytes() <= FAR_CHUNK;
        let parts = pieces().map(|piece| piece.to_far().filter(|(of, ..)| Arc::ptr_eq(of, segment)).map(|(_, bytes, offset)| (bytes, offset)));
        Some((segment, parts.collect::<Option<_>>().filter(|_| is_short)?))
    }

    /// Goes on with a flight; if it `waits`, to its end.
    fn fly(&self, waits: bool) -> Option<Result<(), Error>> {
        let (flight, (segment, parts)) = (self.flight.as_ref()?, self.parts()?);
        let mut flight = flight.lock().unwrap_or_else(PoisonError::into_inner);
        if flight.end(parts.len()).is_none() && segment.check().is_err() && !flight.has_begun() {
            return Some(Err(Error::TransferFailed));
        }
        // SAFETY: the pieces keep the memory, or the program does, until the job has ended; and a
        // job with parts that have begun is run to its end before it is dropped.
        if let Err(error) = unsafe { segment.fly(&parts, &mut flight, waits) } {
            return Some(Err(error));
        }
        // Relaxed, here and where they are read: first stored before others know the job, and they
        // only rise.
        self.has_begun.store(flight.has_begun(), Ordering::Relaxed);
        self.has_left.store(flight.has_left(parts.len()), Ordering::Relaxed);
        flight.end(parts.len())
    }

    /// Whether all that it writes has left, to a segment of this job's.
    fn has_left_to(&self, other: &Job) -> bool {
        let segment = |job: &Job| job.pieces.iter().find_map(|piece| piece.to_far().map(|(segment, ..)| Arc::as_ptr(segment)));
        // Relaxed: as in `fly`.
        self.has_left.load(Ordering::Relaxed) && segment(self) == segment(other)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_far(&self) -> bool {
        self.pieces.iter().any(|p| p.from.is_far() || p.to.is_far())
    }

    fn bytes(&self) -> usize {
        self.pieces.iter().fold(0, |sum, p| sum.saturating_add(p.len))
    }

    fn finish(&self, progress: &mut Progress, result: Result<(), Error>) {
        progress.result = Some(result);
        if let (Some(done), Some(callback)) = (progress.done.take(), progress.callback.take()) {
            done.post((callback, result));
        }
        self.has_changed(progress);
    }

    /// Wakes those that wait. A notification is a system call, whether or not anybody waits.
    fn has_changed(&self, progress: &Progress) {
        if progress.waiting != 0 {
            self.changed.notify_all();
        }
    }

    /// Waits for a change, or for so long.
    fn wait<'a>(&self, mut progress: MutexGuard<'a, Progress>, time: Option<Duration>) -> MutexGuard<'a, Progress> {
        progress.waiting += 1;
        let mut progress = match time {
            None => self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.changed.wait_timeout(progress, time).unwrap_or_else(PoisonError::into_inner).0,
        };
        progress.waiting -= 1;
        progress
    }

    /// Copies, or waits while another thread copies, until the end or the deadline.
    fn run(&self, deadline: Deadline) -> Option<Result<(), Error>> {
        let mut progress = self.lock();
        loop {
            if progress.result.is_some() {
                return progress.result;
            }
            if progress.running {
                let left = deadline.left();
                if left.is_some_and(|l| l.is_zero()) {
                    return None;
                }
                progress = self.wait(progress, left);
                continue;
            }
            // Relaxed: as in `fly`.
            if progress.aborted && !self.has_begun.load(Ordering::Relaxed) {
                self.finish(&mut progress, Err(Error::Cancelled));
                continue;
            }
            let Some(piece) = self.pieces.get(progress.piece) else {
                self.finish(&mut progress, Ok(()));
                continue;
            };
            if deadline.is_over() {
                return None;
            }
            let (offset, len) = (progress.offset, (piece.len - progress.offset).min(piece.chunk()));
            progress.running = true;
            drop(progress);
            let flown = self.fly(true);
            let copied = flown.unwrap_or_else(|| piece.copy(offset, len));
            progress = self.lock();
            progress.running = false;
            progress.offset += len;
            if flown.is_some() {
                progress.piece = self.pieces.len();
            } else if progress.offset >= piece.len {
                (progress.piece, progress.offset) = (progress.piece + 1, 0);
            }
            if let Err(error) = copied {
                self.finish(&mut progress, Err(error));
            }
            self.has_changed(&progress);
        }
    }

    fn abort(&self) {
        // Relaxed: as in `fly`.
        if self.has_begun.load(Ordering::Relaxed) {
            let _ = self.run(Deadline::after(None));
        }
        let mut progress = self.lock();
        progress.aborted = true;
        if !progress.running && progress.result.is_none() {
            self.finish(&mut progress, Err(Error::Cancelled));
        }
        // Nothing is written after an abort has returned.
        while progress.running {
            progress = self.wait(progress, None);
        }
    }

    fn result(&self) -> Option<Result<(), Error>> {
        self.lock().result
    }
}

impl Work for Job {
    fn work(&self) {
        self.run(Deadline::after(None));
    }
}

#[derive(Default)]
struct Queue {
    gathered: Vec<Piece>,
    jobs: VecDeque<Arc<Job>>,
    last: Option<Result<(), Error>>,
    done: Option<Arc<Events<DoneEvent>>>,
}

impl Queue {
    /// Forgets jobs that have ended, but for their result.
    fn settle(&mut self) {
        while let Some(result) = self.jobs.front().and_then(|j| j.result()) {
            self.jobs.pop_front();
            // An error stays until the next start.
            if !matches!(self.last, Some(Err(_))) {
                self.last = Some(result);
            }
        }
    }

    fn state(&self) -> QueueState {
        match self.last {
            _ if !self.jobs.is_empty() => QueueState::Posted,
            _ if !self.gathered.is_empty() => QueueState::Gather,
            None => QueueState::Idle,
            Some(Ok(())) => QueueState::Done,
            Some(Err(Error::Cancelled)) => QueueState::Aborted,
            Some(Err(_)) => QueueState::Error,
        }
    }

    fn events(&mut self) -> Result<Arc<Events<DoneEvent>>, Error> {
        if let Some(events) = &self.done {
            return Ok(Arc::clone(events));
        }
        let events = Arc::new(Events::new(Some(Box::new(|(mut callback, result): DoneEvent| {
            callback(result);
            Action::Continue
        })))?);
        self.done = Some(Arc::clone(&events));
        Ok(events)
    }
}

/// Where transfers of one start lie.
struct Ends {
    near: Place,
    remote: Arc<RemoteSegment>,
}

impl Ends {
    fn check(&self, part: Part) -> Result<(), Error> {
        self.near.check(part.local_offset, part.size)?;
        Place::of(&self.remote, 0).check(part.remote_offset, part.size)
    }

    /// Copies, within a host.
    fn copy(&self, memory: &Memory, part: Part, read: bool) -> Result<(), Error> {
        self.remote.check().map_err(|_| Error::TransferFailed)?;
        let (near, far) = (self.near.part(part.local_offset, part.size)?, memory.part(part.remote_offset, part.size)?);
        if read {
            near.copy_from(0, far)?
        } else {
            far.copy_from(0, near)?
        }
        Ok(())
    }

    fn piece(&self, part: Part, read: bool) -> Result<Piece, Error> {
        let far = Place::of(&self.remote, part.remote_offset);
        let near = self.near.clone().at(part.local_offset)?;
        let (from, to) = if read { (far, near) } else { (near, far) };
        Piece { from, to, len: part.size, remote: Some(Arc::clone(&self.remote)) }.check()
    }
}

/// A DMA queue.
pub struct DmaQueue {
    descriptor: Arc<Descriptor>,
    library: &'static Library,
    max: usize,
    queue: Mutex<Queue>,
}

impl fmt::Debug for DmaQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DmaQueue").field("max", &self.max).finish_non_exhaustive()
    }
}

/// One part of a vector of transfers.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Bytes.
    pub size: usize,
    /// Where it begins in the local segment.
    pub local_offset: usize,
    /// Where it begins in the remote segment.
    pub remote_offset: usize,
}

/// The local end of a transfer.
pub enum Local {
    /// A local segment.
    Segment(u64),
    /// Memory of the program, which stays until the transfer has ended.
    Program(SharedBytes<'static>),
}

impl Object for DmaQueue {
    const KIND: u8 = 6;
}

impl DmaQueue {
    /// Creates a queue for up to `max` entries.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] for no entries, or more than [`ENTRIES_MAX`].
    pub fn create(library: &'static Library, descriptor: u64, max: usize) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        if max == 0 || max > ENTRIES_MAX {
            return Err(Error::IllegalParameter);
        }
        descriptor.hold();
        library.insert(|_| Ok(Arc::new(Self { descriptor, library, max, queue: Mutex::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes it.
    ///
    /// # Errors
    /// [`Error::Busy`] while transfers are under way.
    pub fn remove(library: &'static Library, handle: u64) -> Result<(), Error> {
        let queue = library.get::<DmaQueue>(handle)?;
        if queue.state() == QueueState::Posted {
            return Err(Error::Busy);
        }
        library.remove::<DmaQueue>(handle)?;
        let done = queue.lock().done.take();
        if let Some(done) = done {
            done.close();
        }
        queue.descriptor.release();
        Ok(())
    }

    /// How it stands.
    pub fn state(&self) -> QueueState {
        let mut queue = self.lock();
        queue.settle();
        queue.state()
    }

    fn ends(&self, local: &Local, remote: u64) -> Result<Ends, Error> {
        let remote = self.library.get::<RemoteSegment>(remote)?;
        remote.check().map_err(|_| Error::SegmentNotConnected)?;
        let near = match local {
            Local::Segment(handle) => Place::Segment(self.library.get::<LocalSegment>(*handle)?.memory()?, 0),
            Local::Program(bytes) => Place::Program(*bytes),
        };
        Ok(Ends { near, remote })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`Error::MaxEntries`]; [`Error::OutOfRange`]; [`Error::SegmentNotConnected`];
    /// [`Error::IllegalOperation`] unless the state is `Idle` or `Gather`.
    pub fn enqueue(&self, local: u64, remote: u64, part: Part, read: bool) -> Result<QueueState, Error> {
        let piece = self.ends(&Local::Segment(local), remote)?.piece(part, read)?;
        let mut queue = self.lock();
        queue.settle();
        if !matches!(queue.state(), QueueState::Idle | QueueState::Gather) {
            return Err(Error::IllegalOperation);
        }
        if queue.gathered.len() >= self.max {
            return Err(Error::MaxEntries);
        }
        queue.gathered.push(piece);
        Ok(queue.state())
    }

    /// Starts what was enqueued; with `wait`, returns when it has ended.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`] unless the state is `Gather`; with `wait` how it ended.
    pub fn post(&self, callback: Option<DoneCallback>, wait: bool) -> Result<(), Error> {
        // Earlier stores arrive first.
        self.library.flush_stores();
        let mut queue = self.lock();
        queue.settle();
        if queue.state() != QueueState::Gather {
            return Err(Error::IllegalOperation);
        }
        let pieces = core::mem::take(&mut queue.gathered);
        self.begin(queue, pieces, callback, wait)
    }

    /// Starts a transfer of one or more parts; with `wait`, returns when it has ended.
    ///
    /// # Errors
    /// [`Error::MaxEntries`] with that many transfers under way; [`Error::OutOfRange`];
    /// [`Error::SegmentNotConnected`]; [`Error::IllegalOperation`] in state `Gather`; with `wait`
    /// how it ended.
    pub fn start(&self, local: &Local, remote: u64, parts: &[Part], read: bool, callback: Option<DoneCallback>, wait: bool) -> Result<(), Error> {
        let ends = self.ends(local, remote)?;
        parts.iter().try_for_each(|part| ends.check(*part))?;
        self.library.flush_stores();
        let mut queue = self.lock();
        queue.settle();
        if queue.state() == QueueState::Gather {
            return Err(Error::IllegalOperation);
        }
        if queue.jobs.len() >= self.max {
            return Err(Error::MaxEntries);
        }
        let bytes = parts.iter().fold(0usize, |sum, p| sum.saturating_add(p.size));
        if let Some(memory) = ends.remote.memory()
            && callback.is_none()
            && queue.jobs.is_empty()
            && bytes <= if wait { CHUNK } else { AT_ONCE }
        {
            // Done before anybody could look, so there is no job; others wait for the lock.
            let result = parts.iter().try_for_each(|part| ends.copy(memory, *part, read));
            queue.last = Some(result);
            return if wait { result } else { Ok(()) };
        }
        let pieces = parts.iter().map(|part| ends.piece(*part, read)).collect::<Result<_, _>>()?;
        self.begin(queue, pieces, callback, wait)
    }

    fn begin(&self, mut queue: MutexGuard<'_, Queue>, pieces: Vec<Piece>, callback: Option<DoneCallback>, wait: bool) -> Result<(), Error> {
        let done = if callback.is_some() { Some(queue.events()?) } else { None };
        let job = Job::new(pieces, callback, done);
        // In order: at once only if none is under way.
        let at_once = queue.jobs.is_empty() && (wait || (job.bytes() <= AT_ONCE && !job.is_far()));
        if queue.jobs.is_empty() {
            queue.last = None;
        }
        if !at_once && queue.jobs.iter().all(|before| before.has_left_to(&job)) {
            // Parts leave before the thread that waits for their end wakes.
            let _ = job.fly(false);
        }
        queue.jobs.push_back(Arc::clone(&job));
        drop(queue);
        if !at_once {
            self.library.mover.take(Arc::clone(&job) as Arc<dyn Work>).inspect_err(|_| job.abort())?;
        }
        if !at_once && !wait {
            return Ok(());
        }
        let ended = self.run_until(&job, Deadline::after(None));
        self.lock().settle();
        if wait { ended.unwrap_or(Err(Error::Timeout)) } else { Ok(()) }
    }

    /// Helps with the jobs in their order up to `last`.
    fn run_until(&self, last: &Arc<Job>, deadline: Deadline) -> Option<Result<(), Error>> {
        let before: Vec<_> = self.lock().jobs.iter().take_while(|j| !Arc::ptr_eq(j, last)).cloned().collect();
        for job in before {
            // How it ended, the queue tells.
            let _ = job.run(deadline)?;
        }
        last.run(deadline)
    }

    /// Waits until nothing is under way.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::IllegalOperation`] for a queue that was never started.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<QueueState, Error> {
        let deadline = Deadline::after(timeout);
        loop {
            let last = {
                let mut queue = self.lock();
                queue.settle();
                match queue.state() {
                    QueueState::Posted => queue.jobs.back().cloned(),
                    QueueState::Idle | QueueState::Gather => return Err(Error::IllegalOperation),
                    state => return Ok(state),
                }
            };
            if let Some(job) = last
                && self.run_until(&job, deadline).is_none()
            {
                return Err(Error::Timeout);
            }
        }
    }

    /// Ends what is under way; nothing is written after the return.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`] if nothing is under way.
    pub fn abort(&self) -> Result<(), Error> {
        let jobs: Vec<_> = {
            let mut queue = self.lock();
            queue.settle();
            if queue.state() != QueueState::Posted {
                return Err(Error::IllegalOperation);
            }
            queue.jobs.iter().cloned().collect()
        };
        jobs.iter().for_each(|j| j.abort());
        Ok(())
    }

    /// Makes it idle again.
    ///
    /// # Errors
    /// [`Error::Busy`] while transfers are under way.
    pub fn reset(&self) -> Result<(), Error> {
        let mut queue = self.lock();
        queue.settle();
        if queue.state() == QueueState::Posted {
            return Err(Error::Busy);
        }
        queue.gathered.clear();
        queue.last = None;
        Ok(())
    }
}

/// A copy from one map to another that goes on beside the program.
pub struct BlockTransfer {
    descriptor: Arc<Descriptor>,
    job: Arc<Job>,
    done: Option<Arc<Events<DoneEvent>>>,
}

/// From where to where a block goes.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The map to read.
    pub from: u64,
    /// Where it begins in it.
    pub from_offset: usize,
    /// The map to write.
    pub to: u64,
    /// Where it begins in it.
    pub to_offset: usize,
    /// Bytes.
    pub size: usize,
}

impl Object for BlockTransfer {
    const KIND: u8 = 7;
}

impl BlockTransfer {
    fn piece(library: &'static Library, block: Block) -> Result<(Piece, Arc<Descriptor>), Error> {
        let (from, to) = (library.get::<Map>(block.from)?, library.get::<Map>(block.to)?);
        from.check()?;
        to.check()?;
        let remote = to.remote().or(from.remote()).cloned();
        let descriptor = to.descriptor();
        let piece = Piece { from: Place::Map(from, block.from_offset), to: Place::Map(to, block.to_offset), len: block.size, remote };
        Ok((piece.check()?, descriptor))
    }

    /// Copies a block.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::Access`] for a map that is for reading;
    /// [`Error::TransferFailed`].
    pub fn copy(library: &'static Library, block: Block) -> Result<(), Error> {
        Self::piece(library, block)?.0.copy(0, block.size)
    }

    /// Starts to copy a block.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub fn start(library: &'static Library, block: Block, callback: impl FnOnce(u64) -> Option<DoneCallback>) -> Result<u64, Error> {
        let (piece, descriptor) = Self::piece(library, block)?;
        library.insert(|handle| {
            let callback = callback(handle);
            let done = match callback {
                Some(_) => Some(Queue::default().events()?),
                None => None,
            };
            let job = Job::new(vec![piece], callback, done.clone());
            library.mover.take(Arc::clone(&job) as Arc<dyn Work>)?;
            descriptor.hold();
            Ok(Arc::new(Self { descriptor, job, done }))
        })
    }

    /// Waits for the end, after which the handle names nothing.
    ///
    /// # Errors
    /// [`Error::Timeout`], after which one may wait again; else how it ended.
    pub fn wait(library: &'static Library, handle: u64, timeout: Option<Duration>) -> Result<(), Error> {
        let block = library.get::<BlockTransfer>(handle)?;
        let ended = block.job.run(Deadline::after(timeout)).ok_or(Error::Timeout)?;
        if library.remove::<BlockTransfer>(handle).is_ok() {
            if let Some(done) = &block.done {
                done.close();
            }
            block.descriptor.release();
        }
        ended
    }

    /// Ends it; nothing is written after the return. It still has to be waited for.
    pub fn abort(&self) {
        self.job.abort();
    }
}
