// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's own memory moves into the shared window, at the addresses where it is: statics,
//! and the heap of the C library.
//!
//! The heap grows at the kernel's break, by steps. So it is grown once, to its full size, and then
//! its pages are exchanged for the window's. What the program allocates beyond that is memory like
//! any other: reached by the long way.
//!
//! Called once, before `main`, by one thread (G2): between copy and exchange nothing else may write
//! to these pages, nor allocate.

use std::fs;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::pwrite;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};

use bellwire_memory::mappings::{self, Mapping};

use crate::error::Error;
use crate::layout::{PAGE, SYMMETRIC_BASE, WINDOW_END, page_down, page_up};

/// A part of a process's memory: first address, and the one behind the last.
pub type Range = (u64, u64);

/// What a process shows to the others. Each part may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// `.data` and `.bss`.
    pub statics: Range,
    /// The memory that `malloc` gives out.
    pub heap: Range,
    /// The same in every process.
    pub symmetric: Range,
}

impl Window {
    /// Its parts.
    pub fn parts(&self) -> [Range; 3] {
        [self.statics, self.heap, self.symmetric]
    }

    /// Whether it can be what a process shows: in order, on pages, below the windows' end.
    pub fn is_sound(&self) -> bool {
        let mut last = 0;
        self.parts().into_iter().filter(|part| *part != (0, 0)).all(|(begin, end)| {
            let is_good = begin >= last && begin < end && end <= WINDOW_END && begin % PAGE == 0 && end % PAGE == 0;
            last = end;
            is_good
        })
    }

    /// The first address, and the one behind the last.
    pub fn whole(&self) -> Range {
        let parts = self.parts();
        let begin = parts.iter().filter(|part| **part != (0, 0)).map(|part| part.0).min().unwrap_or(0);
        (begin, parts.iter().map(|part| part.1).max().unwrap_or(0))
    }
}

/// Moves statics and a heap of `heap_bytes` into the memfd at `file`, and maps symmetric memory.
///
/// # Errors
/// [`Error::NotFixed`] if the statics are not at low addresses; what the system says.
///
/// # Safety
/// G2: there is one thread, and `statics` is this process's own writable data.
pub unsafe fn take_over(memfd: BorrowedFd<'_>, file: u64, statics: Range, heap_bytes: u64, symmetric_bytes: u64) -> Result<Window, Error> {
    let statics = (page_down(statics.0), page_up(statics.1));
    if statics.0 == 0 || statics.0 >= statics.1 || statics.1 > SYMMETRIC_BASE {
        return Err(Error::NotFixed);
    }
    let symmetric = share_symmetric(memfd, file, symmetric_bytes)?.symmetric;
    grow_heap(heap_bytes);
    // Whatever is allocated for the work is allocated here.
    let is_in_window = |heap: &Range| heap.0 >= statics.1 && heap.1 + PAGE <= SYMMETRIC_BASE;
    let heap = find_heap().filter(is_in_window).ok_or(Error::Os("brk", rustix::io::Errno::NOMEM))?;
    // The break cannot pass this page: what the C library needs beyond it, it maps elsewhere,
    // outside the window. In it would be a hole, for the others.
    let guard = std::ptr::without_provenance_mut(heap.1 as usize);
    // SAFETY: without FIXED_REPLACE nothing that is there is lost.
    unsafe { mmap_anonymous(guard, PAGE as usize, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE) }.map_err(Error::from_call("mmap"))?;
    let pages = touched(heap);
    // SAFETY: G2, the caller's promise, for the statics; the kernel says that the other range is
    // the heap.
    unsafe {
        exchange(memfd, file, statics, |_| true)?;
        exchange(memfd, file, heap, |page| pages.get(page).is_none_or(|entry| entry >> 62 != 0))?;
    }
    Ok(Window { statics, heap, symmetric })
}

/// Maps symmetric memory out of the memfd at `file`, and takes over nothing of the program's own.
///
/// # Errors
/// What the system says; `EEXIST`: something is at these addresses.
pub fn share_symmetric(memfd: BorrowedFd<'_>, file: u64, bytes: u64) -> Result<Window, Error> {
    let symmetric = (SYMMETRIC_BASE, SYMMETRIC_BASE + page_up(bytes));
    let at = std::ptr::without_provenance_mut(symmetric.0 as usize);
    // SAFETY: without FIXED_REPLACE nothing that is there is lost.
    unsafe {
        mmap_anonymous(at, (symmetric.1 - symmetric.0) as usize, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE)
    }
    .map_err(Error::from_call("mmap"))?;
    // SAFETY: it replaces the reservation just made.
    unsafe { map(memfd, file, symmetric) }?;
    Ok(Window { symmetric, ..Window::default() })
}

/// Makes the C library ask the kernel for the whole heap at once, and never for memory elsewhere as
/// long as that lasts.
fn grow_heap(bytes: u64) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: settings of the C library's allocator, and a block that is given back at once; a
    // failure leaves a smaller heap.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, bytes);
        // Larger than what is left of the first step, so that the heap grows now.
        let block = libc::malloc(1 << 20);
        libc::mallopt(libc::M_TOP_PAD, 1 << 20);
        // Looked at, or the compiler would leave out both calls.
        libc::free(std::hint::black_box(block));
    }
}

/// Where the kernel says that the heap is.
fn find_heap() -> Option<Range> {
    let maps = mappings::list().ok()?;
    let heap = maps.lines().filter_map(Mapping::parse).find(|mapping| mapping.name == "[heap]")?;
    Some((heap.range.start as u64, heap.range.end as u64))
}

/// The kernel's word about each page of a range: bit 63 in memory, bit 62 swapped out. As if in
/// memory where it does not say.
fn touched(range: Range) -> Vec<u64> {
    const IN_MEMORY: u64 = 1 << 63;
    let count = usize::try_from((range.1 - range.0) / PAGE).unwrap_or(0);
    // Written before the kernel is asked: this list lies in the range itself, and what is written
    // later would not be known.
    let mut pages = vec![IN_MEMORY; count];
    let Ok(file) = fs::File::open("/proc/self/pagemap") else { return pages };
    let mut part = [0u8; 4096];
    let mut done = 0;
    while done < count {
        match rustix::io::pread(file.as_fd(), &mut part, (range.0 / PAGE + done as u64) * 8) {
            Ok(n) if n >= 8 => {
                for (page, entry) in pages[done..].iter_mut().zip(part[..n].chunks_exact(8)) {
                    *page = u64::from_ne_bytes(entry.try_into().expect("eight bytes"));
                }
                done += n / 8;
            }
            _ => break,
        }
    }
    pages
}

/// Copies what is in a range to the memfd and maps that in its place. Allocates nothing.
///
/// # Safety
/// The range is this process's own memory, and nobody writes to it now (G2).
unsafe fn exchange(memfd: BorrowedFd<'_>, file: u64, range: Range, is_touched: impl Fn(usize) -> bool) -> Result<(), Error> {
    for (page, address) in (range.0..range.1).step_by(PAGE as usize).enumerate() {
        if !is_touched(page) {
            continue;
        }
        // SAFETY: the page is this process's own memory, readable, and nobody writes to it now
        // (G2).
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(address as usize), PAGE as usize) };
        if bytes.iter().any(|&byte| byte != 0) && pwrite(memfd, bytes, file + address).map_err(Error::from_call("pwrite"))? != bytes.len() {
            return Err(Error::Os("pwrite", rustix::io::Errno::NOSPC));
        }
    }
    // SAFETY: the content has just been copied to the memfd.
    unsafe { map(memfd, file, range) }
}

/// Maps a part of a window at its own addresses.
///
/// # Safety
/// As for [`map_at`].
unsafe fn map(memfd: BorrowedFd<'_>, file: u64, range: Range) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { map_at(memfd, file + range.0, range.0, range.1 - range.0) }
}

/// Maps a part of the memfd at an address, in place of whatever is there.
///
/// # Safety
/// Nobody uses the old mapping, or it has the same content as that part of the memfd.
pub unsafe fn map_at(memfd: BorrowedFd<'_>, offset: u64, address: u64, bytes: u64) -> Result<(), Error> {
    let at = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the caller's promise: nothing that anybody uses is lost.
    unsafe { mmap(at, bytes as usize, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE, memfd, offset) }
        .map_err(Error::from_call("mmap"))?;
    if crate::layout::of_alias(address, u32::MAX).is_some() {
        // SAFETY: our mapping; the advice changes no content, and a copy of all processes' memory
        // in everybody's core file helps nobody.
        let _ = unsafe { madvise(at, bytes as usize, Advice::LinuxDontDump) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sound_windows_are_mapped() {
        let good = Window { statics: (PAGE, 2 * PAGE), heap: (4 * PAGE, 8 * PAGE), symmetric: (SYMMETRIC_BASE, WINDOW_END) };
        assert!(good.is_sound());
        assert_eq!(good.whole(), (PAGE, WINDOW_END));
        assert!(Window { heap: (0, 0), ..good }.is_sound());
        for bad in [
            Window { statics: (PAGE + 1, 2 * PAGE), ..good },
            Window { heap: (PAGE, 3 * PAGE), ..good },
            Window { symmetric: (SYMMETRIC_BASE, WINDOW_END + PAGE), ..good },
            Window { heap: (8 * PAGE, 4 * PAGE), ..good },
        ] {
            assert!(!bad.is_sound(), "{bad:?}");
        }
    }
}
