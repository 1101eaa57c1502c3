// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adoption: whole pages of registered memory of the program are exchanged, in place, for pages of
//! the engine's allocator with the same content, which peers of the same user can map. Then a
//! peer's write is a store into the program's own buffer, and the program may wait for it by
//! looking there, as it does with hardware; nobody has to run for it.
//!
//! | part | what it does |
//! |---|---|
//! | this file | which pages may be exchanged, and which have been |
//! | `exchange.rs`, `freeze.rs` | the exchange itself; with all threads stopped |
//! | `tracing.rs` | whether this process may stop its threads |
//! | `forks.rs` | copies for the child of a fork |
//!
//! Only what nobody can notice is exchanged (A1), and what cannot be is reached in other ways. When
//! the registration ends, the pages stay where they are; the child of a fork gets copies of its
//! own.
//!
//! Invariant A1: the pages are private, anonymous, readable and writable, hold nothing but the
//! region, nothing of this process is pinned for the kernel or a device, and no thread of the
//! program sees them half exchanged: there is only the one that registers, or the others are
//! stopped when they touch them (`exchange.rs`), or all of them are (`freeze.rs`).

use crate::atomic::{AtomicU32, Ordering};
use crate::mappings::{Mapping, list};
use crate::own_thread;
use crate::userfault::Userfault;
use exchange::{PAGE, exchange, exchange_alone, stopper};
use freeze::{exchange_frozen, may_freeze};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::{Status, may_trace};

mod exchange;
mod forks;
mod freeze;
mod tracing;

/// Most bytes of one region that are copied for it.
const BYTES_MAX: usize = 1 << 30;
/// Lists of threads that are read, while some of them end.
const LISTS: u32 = 3;

/// How memory of the program may be made mappable by peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// By every way that the system allows.
    #[default]
    Auto,
    /// Without a helper process that stops the program's threads by `ptrace`.
    WithoutTracing,
    /// Not at all.
    Never,
}

/// The adopted memory of this process, by its address in the program.
#[derive(Debug)]
struct Place {
    pages: Range<usize>,
    /// Regions that use it; afterwards it matters for forks, and for those that register it again.
    users: u32,
    /// As the kernel numbers the engine's memory; 0: not known.
    inode: u64,
    /// The engine's memory, and whose device's it is.
    base: usize,
    owner: usize,
}

impl Place {
    fn overlaps(&self, pages: &Range<usize>) -> bool {
        self.pages.start < pages.end && pages.start < self.pages.end
    }
}

static PLACES: Mutex<Vec<Place>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn places() -> MutexGuard<'static, Vec<Place>> {
    lock(&PLACES)
}

/// Whether somebody has adopted some of these pages.
fn are_in_use(places: &[Place], pages: &Range<usize>) -> bool {
    places.iter().any(|p| p.users != 0 && p.overlaps(pages))
}

/// The whole pages of a range.
pub fn pages_of(address: u64, length: u64) -> Option<Range<usize>> {
    let start = (address as usize).checked_next_multiple_of(PAGE)?;
    let end = (address.checked_add(length)? as usize) & !(PAGE - 1);
    (start < end && end - start <= BYTES_MAX).then_some(start..end)
}

/// The engine's memory for pages that have been adopted already, for one region more of the same
/// owner.
pub fn share(pages: &Range<usize>, owner: usize) -> Option<(usize, Range<usize>)> {
    let mut places = places();
    let place = places.iter_mut().find(|p| p.users != 0 && p.owner == owner && p.pages.start <= pages.start && pages.end <= p.pages.end)?;
    place.users += 1;
    Some((place.base, place.pages.clone()))
}

/// How pages are exchanged.
#[derive(Debug)]
pub enum How {
    /// By the only thread of the program.
    Alone,
    /// While those who touch them are stopped.
    Stopping(Userfault),
    /// While all are stopped.
    Frozen,
}

/// How pages may be exchanged (A1), as things stand; `None`: not at all.
pub fn may_adopt(pages: &Range<usize>, adoption: Adoption) -> Option<How> {
    if adoption == Adoption::Never {
        return None;
    }
    let released = {
        let places = places();
        if are_in_use(&places, pages) {
            return None;
        }
        places.iter().filter(|p| p.overlaps(pages)).map(|p| (p.pages.clone(), p.inode)).collect::<Vec<_>>()
    };
    let status = Status::read()?;
    // The kernel, or a device, would go on using the pages of before; and new ones are not locked.
    if status.pinned_kib != 0 || status.locked_kib != 0 && !are_unlocked(pages) {
        return None;
    }
    let how = if is_only_thread() {
        Some(How::Alone)
    } else {
        let may_trace = || adoption == Adoption::Auto && may_freeze(pages) && may_trace(&status);
        stopper().map(How::Stopping).or_else(|| may_trace().then_some(How::Frozen))
    };
    // A thread that touches pages adopted earlier is not stopped by the kernel.
    let list = list().ok()?;
    how.filter(|how| {
        let ours = if matches!(how, How::Stopping(_)) { &[][..] } else { &released };
        mappings(&list).is_some_and(|maps| is_plain(&maps, pages, ours))
    })
}

/// Puts the engine's memory at `base` in the place of the pages, with their content. `false`:
/// everything is as it was.
///
/// # Safety
/// A1; `base` is the engine's, for as many bytes, and nobody uses it yet.
pub unsafe fn adopt(pages: &Range<usize>, base: usize, owner: usize, how: How) -> bool {
    // Held until the place is listed: a fork meanwhile would share the pages with the child.
    let mut places = places();
    // Somebody else may have adopted pages of these since it was looked whether they may be.
    if forks::are_under_way() || !forks::are_watched() || are_in_use(&places, pages) {
        return false;
    }
    let done = match how {
        // SAFETY: the caller's.
        How::Alone => unsafe { exchange_alone(pages, base) },
        // SAFETY: the caller's; no thread that touches the pages holds one of the two locks.
        How::Stopping(stopper) => unsafe { exchange(stopper, pages, base) },
        // SAFETY: the caller's.
        How::Frozen => unsafe { exchange_frozen(pages, base) },
    };
    if done {
        places.retain(|p| p.users != 0 || !p.overlaps(pages));
        places.push(Place { pages: pages.clone(), users: 1, inode: inode_at(pages.start).unwrap_or(0), base, owner });
    }
    done
}

/// A region less uses adopted pages; their place in the engine, if it was the last.
pub fn release(pages_start: u64, owner: usize) -> Option<usize> {
    let mut places = places();
    let place = places.iter_mut().find(|p| p.users != 0 && p.owner == owner && p.pages.contains(&(pages_start as usize)))?;
    place.users -= 1;
    (place.users == 0).then_some(place.base)
}

/// Adoptions for which a process has room, each a descriptor: one that ends takes its room with it
/// unless it lasted for [`WORTHWHILE`]. So a program that registers memory for each request pays
/// for exchanges some times, and then no more.
const ROOM: u32 = 256;
/// How long an adoption must last to be worth its price.
const WORTHWHILE: Duration = Duration::from_secs(1);

static ROOM_LEFT: AtomicU32 = AtomicU32::new(ROOM);

/// Takes room for an adoption. `None`: there is none.
fn take_room() -> Option<u32> {
    // Relaxed: a count.
    ROOM_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()
}

/// As [`may_adopt`], for an adoption that takes room ([`AdoptedPages`]). A refusal takes some, too:
/// to look has its price, and a program in which pages never may be exchanged is asked no more
/// after a while.
pub fn may_adopt_in_room(pages: &Range<usize>, adoption: Adoption) -> Option<How> {
    // Relaxed: a count, which is taken by `AdoptedPages::new`.
    if ROOM_LEFT.load(Ordering::Relaxed) == 0 || are_in_use(&places(), pages) {
        return None;
    }
    let how = may_adopt(pages, adoption);
    if how.is_none() {
        take_room();
    }
    how
}

/// Pages that are adopted for one owner, until it is dropped. They stay where they are.
#[derive(Debug)]
pub struct AdoptedPages {
    start: usize,
    owner: usize,
    since: Instant,
}

impl AdoptedPages {
    /// Puts the engine's memory at `base` in the place of the pages, with their content. `None`:
    /// everything is as it was.
    ///
    /// # Safety
    /// As [`adopt`].
    pub unsafe fn new(pages: &Range<usize>, base: usize, how: How) -> Option<Self> {
        take_room()?;
        // SAFETY: the caller's.
        if unsafe { adopt(pages, base, base, how) } {
            return Some(Self { start: pages.start, owner: base, since: Instant::now() });
        }
        // Relaxed: a count.
        ROOM_LEFT.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Their first byte, for the program.
    pub fn start(&self) -> u64 {
        self.start as u64
    }
}

impl Drop for AdoptedPages {
    fn drop(&mut self) {
        release(self.start as u64, self.owner);
        if self.since.elapsed() >= WORTHWHILE {
            // Relaxed: a count.
            ROOM_LEFT.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Threads of ours that copy from and to memory of the program.
static COPIERS: AtomicU32 = AtomicU32::new(0);

/// Lives as long as a thread of ours that copies from and to memory of the program on its own. One
/// may be there while the only thread of a program exchanges pages, for it is kept out meanwhile
/// (A1: the NIC's token is held); a second one belongs to another NIC, and nobody keeps it out.
#[derive(Debug)]
pub struct Copier(());

impl Copier {
    /// To be made before the thread.
    #[expect(clippy::new_without_default, reason = "it counts")]
    pub fn new() -> Self {
        // Relaxed: a count; a thread that is being made has nothing to copy yet.
        COPIERS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        // Relaxed: a count.
        COPIERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the program has one thread, and none of ours is a danger to what it does.
fn is_only_thread() -> bool {
    // Relaxed: a count.
    COPIERS.load(Ordering::Relaxed) <= 1 && (0..LISTS).find_map(|_| programs_threads()).is_some_and(|threads| threads <= 1)
}

/// The threads that are not ours; none, if one ended while they were counted.
fn programs_threads() -> Option<u32> {
    let mut threads = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let name = std::fs::read_to_string(task.ok()?.path().join("comm")).ok()?;
        threads += u32::from(!name.starts_with(own_thread::NAME));
    }
    Some(threads)
}

/// The mappings of a list.
fn mappings(list: &str) -> Option<Vec<Mapping<'_>>> {
    list.lines().map(Mapping::parse).collect()
}

/// Whether no page is locked in memory, as the kernel's long list of mappings has it.
fn are_unlocked(pages: &Range<usize>) -> bool {
    let Ok(list) = std::fs::read_to_string("/proc/self/smaps") else { return false };
    let mut is_here = false;
    for line in list.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if is_here && flags.split_ascii_whitespace().any(|flag| flag == "lo") {
                return false;
            }
        } else if let Some(mapping) = Mapping::parse(line) {
            is_here = mapping.range.start < pages.end && pages.start < mapping.range.end;
        }
    }
    true
}

/// The number of the file that is mapped at an address.
fn inode_at(address: usize) -> Option<u64> {
    let list = list().ok()?;
    mappings(&list)?.iter().find(|m| m.range.contains(&address)).map(|m| m.inode)
}

/// Whether pages are private and anonymous memory, readable and writable, or were adopted earlier
/// and released (`ours`: where, and the number of the memory). The number tells, since the program
/// may have unmapped such pages, and memory of another owner may lie there now.
fn is_plain(maps: &[Mapping<'_>], pages: &Range<usize>, ours: &[(Range<usize>, u64)]) -> bool {
    let mut at = pages.start;
    for Mapping { range, rights, name, inode, .. } in maps {
        if at >= pages.end || range.end <= at {
            continue;
        }
        let is_private = *rights == "rw-p" && (name.is_empty() || *name == "[heap]" || name.starts_with("[anon:"));
        let is_ours =
            || *rights == "rw-s" && *inode != 0 && ours.iter().any(|(was, number)| number == inode && was.start <= at && range.end.min(pages.end) <= was.end);
        if range.start > at || !(is_private || is_ours()) {
            return false;
        }
        at = range.end;
    }
    at >= pages.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    #[test]
    fn whole_pages() {
        assert_eq!(pages_of(4096, 4096), Some(4096..8192));
        assert_eq!(pages_of(4097, 8190), None);
        assert_eq!(pages_of(4095, 4098), Some(4096..8192));
        assert_eq!(pages_of(4096, u64::MAX), None);
    }

    #[test]
    fn what_is_plain() {
        let map = |from: usize, to: usize, rights, name| Mapping { range: from..to, rights, offset: 0, device: "00:00", inode: 0, name };
        let mut maps =
            [map(4096, 8192, "rw-p", ""), map(8192, 12288, "rw-p", "[heap]"), map(12288, 16384, "rw-s", "/dev/shm/x"), map(20480, 24576, "rw-p", "[stack]")];
        assert!(is_plain(&maps, &(4096..12288), &[]));
        assert!(!is_plain(&maps, &(4096..16384), &[]), "shared memory of the program's own");
        assert!(!is_plain(&maps, &(16384..20480), &[]), "nothing there");
        assert!(!is_plain(&maps, &(20480..24576), &[]), "a stack");
        maps[2].inode = 7;
        assert!(is_plain(&maps, &(4096..16384), &[(8192..16384, 7)]), "adopted earlier");
        assert!(!is_plain(&maps, &(4096..16384), &[(8192..16384, 6)]), "adopted earlier, and something else by now");
        assert!(!is_plain(&maps, &(4096..16384), &[(8192..12288, 7)]), "adopted earlier, but for a part");
    }

    /// Locked memory stays locked: it is left alone, and other memory of the same program is not.
    #[test]
    fn locked_memory_is_left_alone() {
        let length = 16 * PAGE;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new mappings.
        let [locked, other] = [(); 2].map(|()| unsafe { mmap_anonymous(core::ptr::null_mut(), 2 * length, rights, MapFlags::PRIVATE) }.unwrap());
        // SAFETY: this test's own mapping.
        if unsafe { libc::mlock(locked, length) } != 0 {
            eprintln!("SKIPPED: this user may not lock memory");
            return;
        }
        assert!(may_adopt(&(locked.addr()..locked.addr() + 2 * length), Adoption::Auto).is_none());
        let pages = other.addr()..other.addr() + length;
        assert!(are_unlocked(&pages) && !are_unlocked(&(locked.addr() + length - PAGE..locked.addr() + length)));
        // SAFETY: this test's own mappings.
        unsafe {
            munmap(locked, 2 * length).unwrap();
            munmap(other, 2 * length).unwrap();
        }
    }

    /// Memory that the kernel has pinned for itself is left alone: it would go on reading and
    /// writing the pages of before.
    #[test]
    fn pinned_memory_is_left_alone() {
        const REGISTER_BUFFERS: libc::c_long = 0;
        let length = 16 * PAGE;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let at = unsafe { mmap_anonymous(core::ptr::null_mut(), length, rights, MapFlags::PRIVATE) }.unwrap();
        let pages = at.addr()..at.addr() + length;
        let mut parameters = [0_u32; 30];
        // SAFETY: room for the parameters, which have 120 bytes.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
        if ring < 0 {
            eprintln!("SKIPPED: no io_uring");
            return;
        }
        let buffer = libc::iovec { iov_base: at, iov_len: length };
        // SAFETY: one buffer, which is mapped.
        if unsafe { libc::syscall(libc::SYS_io_uring_register, ring, REGISTER_BUFFERS, &raw const buffer, 1) } != 0 {
            eprintln!("SKIPPED: no buffers of io_uring");
            return;
        }
        assert!(Status::read().unwrap().pinned_kib >= (length / 1024) as u64);
        assert!(may_adopt(&pages, Adoption::Auto).is_none());
        // SAFETY: this test's own descriptor and mapping.
        unsafe {
            libc::close(ring as i32);
            munmap(at, length).unwrap();
        }
    }
}
