// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hears from the kernel when memory of this process is unmapped or moved, by any thread and any
//! call, without hooks in an allocator: `userfaultfd` with its events.
//!
//! Ranges are watched in the mode of write protection, of which nothing is ever protected. So no
//! page fault is held up, and since no fault of the kernel's has to be, any user may have the
//! descriptor (`UFFD_USER_MODE_ONLY`, Linux 5.11). Where it cannot be had (an older kernel, a
//! seccomp filter such as a container's, a range that another descriptor watches) the answer is
//! no, and the caller looks at the mapping itself.
//!
//! The thread that unmaps watched memory waits in the kernel until the event is read, by a thread
//! of this module. That thread takes no lock and no memory and runs no signal handler: it can
//! always go on. One descriptor serves the process, for the kernel allows one for a mapping.
//!
//! Invariant W1: once a range is watched the reading thread runs for the life of the process;
//! otherwise those that unmap would wait for ever. The child of a `fork` has neither thread nor
//! watched ranges, and begins anew.

use crate::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::fork_mark::ForkMark;
use crate::own_thread;
use crate::unmap_log::{BATCH, Cursor, Missed, UnmapLog};
use crate::userfault::{Faults, Message, Mode, Userfault, feature};
use core::ops::Range;
use rustix::event::{PollFd, PollFlags, poll};

/// Ranges kept for readers that lag.
const RANGES: usize = 1024;

/// Without these there is nothing to hear.
const NEEDED: u64 = feature::PAGEFAULT_FLAG_WP | feature::EVENT_REMAP | feature::EVENT_UNMAP;
/// With these, memory other than private anonymous can be watched too: shared memory and files.
const WANTED: u64 = feature::WP_HUGETLBFS_SHMEM | feature::WP_ASYNC;

const STARTING: u32 = 0;
const RUNS: u32 = 1;
const FAILED: u32 = 2;

/// The process's watch over its mappings.
#[derive(Debug)]
pub struct UnmapWatch {
    fd: Userfault,
    log: UnmapLog<RANGES>,
    state: AtomicU32,
    mark: ForkMark,
}

static WATCH: AtomicPtr<UnmapWatch> = AtomicPtr::new(core::ptr::null_mut());

/// The watch of this process; begins it if there is none. `None`: it cannot be had.
pub fn shared() -> Option<&'static UnmapWatch> {
    // Acquire: pairs with the exchange below; the watch is whole.
    let mut found = WATCH.load(Ordering::Acquire);
    loop {
        // SAFETY: a pointer in WATCH is of a leaked box, never freed.
        if let Some(watch) = unsafe { found.as_ref() }
            && !watch.mark.is_elsewhere()
        {
            return watch.is_ready().then_some(watch);
        }
        let new = Box::into_raw(Box::new(UnmapWatch::new()?));
        // AcqRel: publishes the new watch, and sees that of another thread.
        match WATCH.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: a leaked box.
                let watch: &'static UnmapWatch = unsafe { &*new };
                watch.start();
                return watch.is_ready().then_some(watch);
            }
            Err(theirs) => {
                // SAFETY: the box of just now, which nobody else has seen.
                drop(unsafe { Box::from_raw(new) });
                found = theirs;
            }
        }
    }
}

impl UnmapWatch {
    fn new() -> Option<Self> {
        let features = Userfault::features(Faults::OfUserMode)? & (NEEDED | WANTED);
        if features & NEEDED != NEEDED {
            return None;
        }
        let fd = Userfault::open(Faults::OfUserMode, features)?;
        Some(Self { fd, log: UnmapLog::new(), state: AtomicU32::new(STARTING), mark: ForkMark::new() })
    }

    /// Starts the reading thread, with all signals blocked: a handler that unmapped memory would
    /// wait for its own thread.
    fn start(&'static self) {
        let thread = own_thread::spawn(c"bellwire-unmap", move || self.read_on());
        // Release: pairs with `is_ready`.
        self.state.store(if thread.is_ok() { RUNS } else { FAILED }, Ordering::Release);
    }

    fn is_ready(&self) -> bool {
        loop {
            // Acquire: pairs with the store in `start`.
            match self.state.load(Ordering::Acquire) {
                STARTING => std::thread::yield_now(),
                state => return state == RUNS,
            }
        }
    }

    /// The reading thread. It never ends (W1).
    fn read_on(&self) {
        let mut messages = [Message::default(); BATCH];
        loop {
            let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None);
            self.log.begin();
            let got = self.fd.read(&mut messages);
            let mut ranges = [const { Range { start: 0, end: 0 } }; BATCH];
            let mut count = 0;
            for range in messages[..got].iter().filter_map(Message::range) {
                ranges[count] = range;
                count += 1;
            }
            self.log.finish(&ranges[..count]);
        }
    }

    /// Watches the pages of a range, from now on and until they are unmapped. `false`: they cannot
    /// be watched, or not all of them.
    pub fn watch(&self, pages: &Range<u64>) -> bool {
        // It changes nothing that the program could see but the time that unmapping takes: nothing
        // is ever write-protected.
        self.fd.register(pages, &[Mode::WriteProtected])
    }

    /// Where a reader begins.
    pub fn cursor(&self) -> Cursor {
        self.log.cursor()
    }

    /// Whether memory that is watched was unmapped since the reader last called
    /// [`drain`](Self::drain).
    #[inline(always)]
    pub fn has_news(&self, cursor: Cursor) -> bool {
        self.log.has_news(cursor)
    }

    /// Gives the ranges that were unmapped since.
    pub fn drain(&self, cursor: &mut Cursor, each: impl FnMut(Range<u64>)) -> Missed {
        self.log.drain(cursor, each)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use core::ffi::c_void;
    use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap};

    const PAGE: usize = 4096;

    fn map(pages: usize) -> *mut c_void {
        // SAFETY: a new mapping.
        unsafe { mmap_anonymous(core::ptr::null_mut(), pages * PAGE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }.unwrap()
    }

    fn range(at: *mut c_void, from: usize, to: usize) -> Range<u64> {
        let at = at.addr();
        (at + from * PAGE) as u64..(at + to * PAGE) as u64
    }

    fn seen(watch: &UnmapWatch, cursor: &mut Cursor) -> Vec<Range<u64>> {
        let mut seen = Vec::new();
        assert!(watch.drain(cursor, |r| seen.push(r)) == Missed::Nothing);
        seen
    }

    /// The ranges that the call unmaps, which is over when it is asked.
    #[test]
    fn what_is_unmapped_is_known_when_the_call_returns() {
        let Some(watch) = shared() else {
            eprintln!("SKIPPED: no userfaultfd");
            return;
        };
        let mut cursor = watch.cursor();
        for _ in 0..50 {
            let at = map(16);
            assert!(watch.watch(&range(at, 0, 16)));
            assert!(watch.watch(&range(at, 2, 5)), "again, a part");
            // SAFETY: memory of this test, that nothing refers to.
            unsafe { madvise(at, PAGE, Advice::LinuxDontNeed) }.unwrap();
            assert!(seen(watch, &mut cursor).is_empty(), "memory that was emptied is still mapped");
            // SAFETY: pages that this test mapped, to which nothing refers.
            unsafe { munmap(at.wrapping_byte_add(2 * PAGE), PAGE) }.unwrap();
            assert!(watch.has_news(cursor));
            assert_eq!(seen(watch, &mut cursor), [range(at, 2, 3)]);
            // SAFETY: pages that this test mapped, to which nothing refers.
            unsafe { mmap_anonymous(at.wrapping_byte_add(4 * PAGE), PAGE, ProtFlags::READ, MapFlags::PRIVATE | MapFlags::FIXED) }.unwrap();
            assert_eq!(seen(watch, &mut cursor), [range(at, 4, 5)]);
            // SAFETY: pages that this test mapped, to which nothing refers.
            let moved = unsafe { mremap(at.wrapping_byte_add(8 * PAGE), 4 * PAGE, 8 * PAGE, MremapFlags::MAYMOVE) }.unwrap();
            assert!(seen(watch, &mut cursor).contains(&range(at, 8, 12)));
            // SAFETY: pages that this test mapped, to which nothing refers. Another test may have
            // mapped something in the two holes by now.
            unsafe {
                munmap(moved, 8 * PAGE).unwrap();
                for rest in [0..2, 3..8, 12..16] {
                    munmap(at.wrapping_byte_add(rest.start * PAGE), rest.len() * PAGE).unwrap();
                }
            }
            let _ = seen(watch, &mut cursor);
        }
    }

    /// A handler that unmaps runs on other threads than the one that reads.
    #[test]
    fn the_reading_thread_takes_no_signals() {
        if shared().is_none() {
            eprintln!("SKIPPED: no userfaultfd");
            return;
        }
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let blocked = tasks.filter_map(|t| {
            let status = std::fs::read_to_string(t.path().join("status")).ok()?;
            (status.contains("bellwire-unmap")).then(|| status.lines().find_map(|l| l.strip_prefix("SigBlk:\t").map(str::to_owned)))?
        });
        let masks: Vec<u64> = blocked.map(|m| u64::from_str_radix(&m, 16).unwrap()).collect();
        // All but SIGKILL, SIGSTOP, and the two that the C library keeps to itself.
        let unblockable: u64 = 1 << 8 | 1 << 18 | 3 << 31;
        // While the thread starts, the C library blocks its own two as well.
        assert_eq!(masks.iter().map(|mask| mask | unblockable).collect::<Vec<_>>(), [u64::MAX]);
    }
}
