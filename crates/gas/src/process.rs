// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process's global memory: start and end, and who the others are. Accesses are in `access.rs`,
//! what all do together in `together.rs`.

use std::time::Duration;

use bellwire_job::Job;
use bellwire_memory::atomic::{AtomicBool, Ordering};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use crate::control::Control;
use crate::error::Error;
use crate::group::Group;
use crate::layout::{self, File, SYMMETRIC_BASE, WINDOW_END, WORD_MAX};
use crate::net::{self, Net};
use crate::probe::{Probe, Stage};
use crate::symmetric::Symmetric;
use crate::window::{self, Range, Window};
use crate::{far, fault, host};

/// MiB of heap that are shared, unless `BELLWIRE_GAS_HEAP_MIB` says another number.
const HEAP_MIB: u64 = 1024;
/// MiB of symmetric memory, unless `BELLWIRE_GAS_SYMMETRIC_MIB` says another number. Taken when
/// touched.
const SYMMETRIC_MIB: u64 = 4096;

/// Where inline word accesses find the memory of a process; the layout of `struct gas_peer`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PeerEntry {
    /// The first global pointer of its window.
    pub origin: u64,
    /// Bytes of the window at which a word may begin; 0: it is not mapped here.
    pub limit: u64,
    /// Where the window is mapped here.
    pub base: *mut u8,
    /// Where this process counts what it stores there.
    pub arrived: *mut u64,
}

/// A process as this one knows it.
#[derive(Debug)]
pub(crate) enum Peer {
    /// Its memory is mapped here.
    Mapped { pid: u32, window: Window, entry: PeerEntry },
    /// It is reached by messages.
    Far,
    /// It is reached by VIs of libvipl.
    Vi,
}

/// This process in global memory.
#[derive(Debug)]
pub struct Process {
    pub(crate) job: Job,
    pub(crate) control: Control,
    pub(crate) group: Group,
    pub(crate) peers: Vec<Peer>,
    /// To the processes outside of the group, and for what all do together; `None` if there are
    /// none.
    pub(crate) net: Option<Net>,
    pub(crate) symmetric: Symmetric,
    /// Where symmetric memory is, in every process.
    own: Range,
    /// What this process alone takes of symmetric memory: every process keeps this range free for
    /// it.
    pub(crate) arena: Symmetric,
    /// Stored bytes that are counted off.
    pub(crate) taken: u64,
    /// The only addresses that accesses may name, in any process; `None`: all.
    pub(crate) limits: Option<Range>,
}

/// Whether this process has global memory already, or has had it: its addresses are taken once.
static STARTED: AtomicBool = AtomicBool::new(false);

impl Process {
    /// Joins the job (through the job library if that is installed, since the program may use other
    /// libraries that join it), moves this process's statics (from first to last address) and heap
    /// into shared memory, maps the memory of those on this host, and connects to the others.
    /// Collective.
    ///
    /// # Errors
    /// Whatever keeps global memory from being there.
    ///
    /// # Safety
    /// This process has one thread, and `statics` is its own writable data (G2). Nothing else uses
    /// the addresses of [`layout`].
    pub unsafe fn start(statics: Range) -> Result<Self, Error> {
        let heap = setting("BELLWIRE_GAS_HEAP_MIB", HEAP_MIB, SYMMETRIC_BASE)?;
        // SAFETY: G2, the caller's promise.
        Self::begin(Job::join_installed()?, |memfd, file, symmetric| unsafe { window::take_over(memfd, file, statics, heap, symmetric) })
    }

    /// As [`Process::start`], but of symmetric memory alone: nothing of the program moves, and
    /// accesses to anything else are errors. Other threads may be there. Collective: the processes
    /// of a job start in the same way.
    ///
    /// # Errors
    /// As there; [`Error::Twice`].
    pub fn join(job: Job) -> Result<Self, Error> {
        let mut process = Self::begin(job, window::share_symmetric)?;
        process.limits = Some(process.own);
        Ok(process)
    }

    fn begin(job: Job, share: impl FnOnce(BorrowedFd<'_>, u64, u64) -> Result<Window, Error>) -> Result<Self, Error> {
        // Relaxed: only who is first matters.
        if STARTED.swap(true, Ordering::Relaxed) {
            return Err(Error::Twice);
        }
        let symmetric = setting("BELLWIRE_GAS_SYMMETRIC_MIB", SYMMETRIC_MIB, WINDOW_END - SYMMETRIC_BASE)?;
        let vi = net::version()?;
        let config = if job.size() > 1 { Some(net::config(job.local_size() < job.size(), vi.is_some())?) } else { None };
        let apart = config.as_ref().and_then(|config| vi.map(|(name, _)| name).or((!config.shm).then_some("off")));
        let group = Group::find(&job, apart)?;
        if group.size() > layout::PROCESSES_MAX {
            return Err(Error::TooMany(group.size()));
        }
        let file = File::new(group.size());
        let memfd = host::share(&job, &group, file.bytes())?;
        // SAFETY: a new mapping, wherever the kernel likes it.
        let base = unsafe { mmap(std::ptr::null_mut(), file.control_bytes() as usize, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, memfd.as_fd(), 0) }
            .map_err(Error::from_call("mmap"))?;
        // SAFETY: the whole control area; it is never unmapped (G1).
        let control = unsafe { Control::new(base.cast(), file, group.index, group.size()) };
        let window = share(memfd.as_fd(), file.window(group.index), symmetric)?;
        far::permit();
        control.publish(std::process::id(), &window);
        // The launcher's barrier: it knows when a process dies on the way.
        job.barrier()?;
        reserve_aliases(group.size())?;
        let far = || if vi.is_some() { Peer::Vi } else { Peer::Far };
        let peers = (0..job.size()).map(|rank| Peer::find(&control, memfd.as_fd(), file, &group, rank, far)).collect::<Result<Vec<_>, _>>()?;
        fault::watch(job.rank(), &group.members);
        // Threads only now: nothing may have been allocated while the heap moved.
        let config = config.filter(|_| group.size() < job.size());
        let (of, gather) = ((job.rank(), job.size()), |block: &[u8]| Ok(job.all_gather(block)?));
        let memory = || (window, control.lock(group.index));
        let mut net = config.map(|config| Net::open(of, config, memory(), gather)).transpose()?;
        if let (Some(net), Some((_, version))) = (&mut net, vi) {
            net.open_vis(version, of, memory(), gather)?;
        }
        let (together, each) = layout::arenas(symmetric, job.size());
        let arena = Symmetric::new(SYMMETRIC_BASE + together + u64::from(job.rank()) * each, each);
        Ok(Self { job, control, group, peers, net, symmetric: Symmetric::new(SYMMETRIC_BASE, together), arena, taken: 0, own: window.symmetric, limits: None })
    }

    /// This process's number.
    pub fn process(&self) -> u32 {
        self.job.rank()
    }

    /// How many processes there are.
    pub fn processes(&self) -> u32 {
        self.job.size()
    }

    /// Where word accesses find the memory of a process; nothing for one that does not exist.
    pub fn entry(&self, process: u32) -> PeerEntry {
        match self.peers.get(process as usize) {
            Some(Peer::Mapped { entry, .. }) => *entry,
            Some(Peer::Far | Peer::Vi) | None => PeerEntry { origin: 0, limit: 0, base: std::ptr::null_mut(), arrived: std::ptr::null_mut() },
        }
    }

    /// Ends the job.
    pub fn exit(&mut self, status: i32) -> ! {
        self.leave(status);
        self.job.exit(status)
    }

    /// Says that this process leaves by itself. After it nobody of another host is reached.
    pub fn leave(&mut self, status: i32) {
        self.control.leave(status);
        if let Some(net) = self.net.take() {
            net.leave(status);
        }
    }

    /// Time since the machine's start.
    pub fn now() -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    }
}

impl Peer {
    fn find(control: &Control, memfd: BorrowedFd<'_>, file: File, group: &Group, rank: u32, far: impl Fn() -> Self) -> Result<Self, Error> {
        let Some(index) = group.index_of(rank) else { return Ok(far()) };
        let (pid, window) = control.published(index);
        if !window.is_sound() {
            return Err(Error::Misfit(rank));
        }
        let alias = layout::alias_of(index);
        for (begin, end) in window.parts().into_iter().filter(|part| *part != (0, 0)) {
            // SAFETY: a part of the addresses that `reserve_aliases` has reserved for this peer.
            unsafe { window::map_at(memfd, file.window(index) + begin, alias + begin, end - begin) }?;
        }
        let (begin, end) = window.whole();
        let base = std::ptr::with_exposed_provenance_mut((alias + begin) as usize);
        let entry = PeerEntry { origin: layout::pointer_of(rank, begin), limit: end - begin - WORD_MAX, base, arrived: control.arrived_at(index) };
        Ok(Self::Mapped { pid, window, entry })
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

/// The calls with a probe; else as those without. Of places that are mapped here, and where all
/// memory is, nothing is marked, nor of accesses by VIs.
impl Process {
    /// As [`sync`](Self::sync).
    ///
    /// # Errors
    /// As there.
    pub fn sync_probed<P: Probe<Stage>>(&self) -> Result<(), Error> {
        self.net.as_ref().map_or(Ok(()), |net| if net.is_by_vis() { net.sync_all() } else { net.sync_probed::<P>() })
    }

    /// Answers another process until it has got from here `gets` times in all. Nothing to do if its
    /// memory is mapped here.
    ///
    /// # Errors
    /// As for [`sync`](Self::sync).
    pub fn answer_probed<P: Probe<Stage>>(&self, process: u32, gets: u32) -> Result<(), Error> {
        self.net.as_ref().map_or(Ok(()), |net| if net.is_by_vis() { net.vi_serve(gets) } else { net.answer_probed::<P>(process, gets) })
    }
}
