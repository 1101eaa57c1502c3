// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's own memory moves into the shared window, at the addresses where it is: statics, and the heap of the C library.
//!
//! The heap grows at the kernel's break, by steps. So it is grown once, to its full size, and then its pages are exchanged for the window's. What the program allocates beyond that
//! is memory like any other: reached by the long way.
//!
//! Called once, before `main`, by one thread (G2): between copy and exchange nothing else may write to these pages, nor allocate.

use std::fs;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::pwrite;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};

use crate::error::Error;
use crate::layout::{PAGE, SYMMETRIC_BASE, WINDOW_END, page_down, page_up};

/// A part of a process's memory: first address, and the one behind the last.
pub type Range = (u64, u64);

/// What a process shows to the others. Each part may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// `.data` and `.bss`.
    pub statics: Range,
    /// What `malloc` gives out.
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
pub fn take_over(memfd: BorrowedFd<'_>, file: u64, statics: Range, heap_bytes: u64, symmetric_bytes: u64) -> Result<Window, Error> {
    let statics = (page_down(statics.0), page_up(statics.1));
    if statics.0 == 0 || statics.0 >= statics.1 || statics.1 > SYMMETRIC_BASE {
        return Err(Error::NotFixed);
    }
    let symmetric = (SYMMETRIC_BASE, SYMMETRIC_BASE + page_up(symmetric_bytes));
    map(memfd, file, symmetric)?;
    grow_heap(heap_bytes);
    // Whatever is allocated for the work is allocated here.
    let heap = find_heap().filter(|heap| heap.0 >= statics.1 && heap.1 <= SYMMETRIC_BASE).unwrap_or_default();
    let pages = touched(heap)?;
    exchange(memfd, file, statics, |_| true)?;
    if heap != (0, 0) {
        exchange(memfd, file, heap, |page| pages.get(page).is_none_or(|entry| entry >> 62 != 0))?;
    }
    Ok(Window { statics, heap, symmetric })
}

/// Makes the C library ask the kernel for the whole heap at once, and never for memory elsewhere as long as that lasts.
fn grow_heap(bytes: u64) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: settings of the C library's allocator, and a block that is given back at once; a failure leaves a smaller heap.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, bytes);
        // Larger than what is left of the first step, so that the heap grows now.
        let block = libc::malloc(1 << 20);
        libc::mallopt(libc::M_TOP_PAD, 1 << 20);
        libc::free(block);
    }
}

/// Where the kernel says that the heap is.
fn find_heap() -> Option<Range> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[heap]"))?;
    let (begin, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

/// The kernel's word about each page of a range: bit 63 in memory, bit 62 swapped out. None if it does not say.
fn touched(range: Range) -> Result<Vec<u64>, Error> {
    let count = usize::try_from((range.1 - range.0) / PAGE).unwrap_or(0);
    let mut bytes = vec![0u8; count * 8];
    let file = match fs::File::open("/proc/self/pagemap") {
        Ok(file) => file,
        Err(_) => return Ok(Vec::new()),
    };
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(file.as_fd(), &mut bytes[done..], range.0 / PAGE * 8 + done as u64) {
            Ok(0) | Err(_) => return Ok(Vec::new()),
            Ok(n) => done += n,
        }
    }
    Ok(bytes.chunks_exact(8).map(|entry| u64::from_ne_bytes(entry.try_into().expect("eight bytes"))).collect())
}

/// Copies what is in a range to the memfd and maps that in its place. Allocates nothing.
fn exchange(memfd: BorrowedFd<'_>, file: u64, range: Range, is_touched: impl Fn(usize) -> bool) -> Result<(), Error> {
    for (page, address) in (range.0..range.1).step_by(PAGE as usize).enumerate() {
        if !is_touched(page) {
            continue;
        }
        // SAFETY: the page is this process's own memory, readable, and nobody writes to it now (G2).
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(address as usize), PAGE as usize) };
        if bytes.iter().any(|&byte| byte != 0) && pwrite(memfd, bytes, file + address).map_err(Error::from_call("pwrite"))? != bytes.len() {
            return Err(Error::Os("pwrite", rustix::io::Errno::NOSPC));
        }
    }
    map(memfd, file, range)
}

/// Maps a part of a window at its own addresses.
fn map(memfd: BorrowedFd<'_>, file: u64, range: Range) -> Result<(), Error> {
    map_at(memfd, file + range.0, range.0, range.1 - range.0)
}

/// Maps a part of the memfd at an address, in place of whatever is there.
pub fn map_at(memfd: BorrowedFd<'_>, offset: u64, address: u64, bytes: u64) -> Result<(), Error> {
    let at = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the address is that of memory whose content has just been copied to the memfd, or in a region that `layout` reserves for us.
    unsafe { mmap(at, bytes as usize, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE, memfd, offset) }.map_err(Error::from_call("mmap"))?;
    // A copy of all processes' memory in everybody's core file helps nobody. SAFETY: our mapping, and the advice changes no content.
    if crate::layout::of_alias(address, u32::MAX).is_some() {
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
