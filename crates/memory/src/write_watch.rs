// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells of the first store to each page of shared memory since the page was last protected:
//! `userfaultfd` in the mode of write protection.
//!
//! The thread that stores waits in the kernel until its page is released, so a thread must always
//! read here, and release what it reads. No signal is used, so that handlers of the program are
//! not concerned, and no mapping is split.
//!
//! A process with the right to it (root, or `vm.unprivileged_userfaultfd=1`) also hears of the
//! stores of system calls, such as a `read` into the memory. In others such a call fails with
//! `EFAULT` while the page is protected.

use crate::userfault::{Faults, Message, Mode, Userfault, feature};
use core::ops::Range;
use rustix::event::{PollFd, PollFlags, poll};

/// Stores that are told at a time.
const BATCH: usize = 16;
const NEEDED: u64 = feature::PAGEFAULT_FLAG_WP | feature::WP_HUGETLBFS_SHMEM | feature::EXACT_ADDRESS;

/// A watch over stores.
#[derive(Debug)]
pub struct WriteWatch {
    fd: Userfault,
    faults: Faults,
    can_hide: bool,
}

/// A thread that waits at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// To store to a page that is protected.
    Store(u64),
    /// For a page that is hidden.
    Hidden(u64),
}

impl WriteWatch {
    /// `None`: it cannot be had (a kernel before 5.19, a seccomp filter such as a container's).
    pub fn open() -> Option<Self> {
        [Faults::All, Faults::OfUserMode].into_iter().find_map(|faults| {
            let features = Userfault::features(faults)?;
            let hiding = features & feature::MINOR_SHMEM;
            let fd = Userfault::open(faults, NEEDED | hiding).filter(|_| features & NEEDED == NEEDED)?;
            Some(Self { fd, faults, can_hide: hiding != 0 })
        })
    }

    /// Whether stores of system calls wait too.
    pub fn hears_system_calls(&self) -> bool {
        self.faults == Faults::All
    }

    /// Watches pages, and protects them. `false`: they cannot be watched, or not all of them.
    pub fn watch(&self, pages: &Range<u64>) -> bool {
        self.fd.register(pages, &[Mode::WriteProtected]) && self.protect(pages)
    }

    /// Watches pages that are hidden from now on ([`View::hide`](crate::view::View::hide)), and
    /// protected ones among them as well. `false`: they cannot be watched.
    pub fn watch_hidden(&self, pages: &Range<u64>) -> bool {
        self.can_hide && self.fd.register(pages, &[Mode::WriteProtected, Mode::Hidden])
    }

    /// Shows pages that were hidden: threads that wait for them go on. Whether the next store to
    /// each waits, if that was asked for.
    pub fn show(&self, pages: &Range<u64>, protected: bool) -> bool {
        self.fd.show(pages, protected)
    }

    /// Protects pages that are watched: the next store to each of them waits.
    pub fn protect(&self, pages: &Range<u64>) -> bool {
        self.fd.protect(pages, true)
    }

    /// Sleeps until threads wait, and gives where.
    pub fn wait(&self, mut each: impl FnMut(Fault)) {
        let mut messages = [Message::default(); BATCH];
        let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None);
        let got = self.fd.read(&mut messages);
        let fault = |message: &Message| message.fault().map(|at| if message.is_hidden() { Fault::Hidden(at) } else { Fault::Store(at) });
        messages[..got].iter().filter_map(fault).for_each(&mut each);
    }

    /// The threads that wait to store to these pages go on, and later stores do not wait.
    pub fn release(&self, pages: &Range<u64>) {
        // Pages that are no longer mapped: threads that wait there try again, and fault.
        if !self.fd.protect(pages, false) {
            self.fd.wake(pages);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::region::{Access, Region, RegionKind};
    use crate::view::{At, View};
    use std::io::Read;
    use std::sync::mpsc::channel;

    #[test]
    fn the_first_store_to_a_page_is_told_and_no_other() {
        let Some(watch) = WriteWatch::open() else {
            println!("skipped: no userfaultfd for stores");
            return;
        };
        let page = rustix::param::page_size() as u64;
        let region = Region::create("watched", 4 * page as usize, RegionKind::Shared).unwrap();
        let view = View::map(region.fd(), 0, region.len(), Access::ReadWrite, At::Anywhere).unwrap();
        let first = view.base().addr() as u64;
        assert!(watch.watch(&(first..first + 4 * page)));
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let (watch, view) = (&watch, &view);
            scope.spawn(move || {
                // Ends with the store to the last page.
                let mut is_last = false;
                while !is_last {
                    watch.wait(|fault| {
                        let Fault::Store(address) = fault else { panic!("nothing is hidden") };
                        let at = address & !(page - 1);
                        tell.send((at - first) / page).unwrap();
                        is_last |= at == first + 3 * page;
                        watch.release(&(at..at + page));
                    });
                }
            });
            let store = |at: usize| view.bytes().copy_in(at, &[1]).unwrap();
            let page = page as usize;
            store(5);
            store(6);
            store(page + 1);
            assert!(watch.protect(&(first..first + page as u64)));
            store(7);
            // Other mappings of the memory are not concerned, nor are loads.
            region.bytes().copy_in(2 * page, &[1]).unwrap();
            view.bytes().copy_out(2 * page, &mut [0]).unwrap();
            if watch.hears_system_calls() {
                let place = view.base().wrapping_add(2 * page);
                // SAFETY: a page of the view, which only this thread uses.
                let bytes = unsafe { core::slice::from_raw_parts_mut(place, page) };
                std::fs::File::open("/dev/zero").unwrap().read_exact(bytes).unwrap();
            } else {
                store(2 * page);
            }
            store(3 * page);
        });
        assert_eq!(told.iter().collect::<Vec<_>>(), [0, 1, 0, 2, 3]);
        // Gone: nobody waits for ever.
        drop(view);
        watch.release(&(first..first + page));
    }

    #[test]
    fn a_hidden_page_is_waited_for_until_it_is_shown() {
        let Some(watch) = WriteWatch::open().filter(|watch| watch.can_hide) else {
            println!("skipped: no userfaultfd for hidden pages");
            return;
        };
        let page = rustix::param::page_size();
        let region = Region::create("hidden", 4 * page, RegionKind::Shared).unwrap();
        (0..4).for_each(|n| region.bytes().copy_in(n * page, &[1]).unwrap());
        let view = View::map(region.fd(), 0, region.len(), Access::ReadWrite, At::Anywhere).unwrap();
        let first = view.pages().start;
        let of = |pages: Range<usize>| first + (pages.start * page) as u64..first + (pages.end * page) as u64;
        assert!(watch.watch(&of(0..4)) && watch.watch_hidden(&of(0..4)));
        view.hide(0..4);
        let load = |n: usize| {
            let mut byte = [0];
            view.bytes().copy_out(n * page, &mut byte).unwrap();
            byte[0]
        };
        std::thread::scope(|scope| {
            let (watch, region, of) = (&watch, &region, &of);
            let serving = scope.spawn(move || {
                let mut told = Vec::new();
                while told.len() < 4 {
                    watch.wait(|fault| {
                        let Fault::Hidden(at) = fault else { panic!("nothing is protected that was shown") };
                        let n = (at - first) as usize / page;
                        told.push(n);
                        // The thread sees it, though it had asked before.
                        region.bytes().copy_in(n * page, &[2]).unwrap();
                        watch.show(&of(n..n + 1), false);
                    });
                }
                told
            });
            assert_eq!(load(2), 2);
            // Shown: it waits for nothing; also not to store.
            region.bytes().copy_in(2 * page, &[3]).unwrap();
            assert_eq!(load(2), 3);
            view.bytes().copy_in(2 * page, &[4]).unwrap();
            // Hidden again; a store waits as well, and nothing is lost.
            view.hide(2..3);
            assert_eq!(load(2), 2);
            view.bytes().copy_in(5, &[7]).unwrap();
            assert_eq!(load(3), 2);
            assert_eq!(serving.join().unwrap(), [2, 2, 0, 3]);
        });
        let mut bytes = [0; 6];
        region.bytes().copy_out(0, &mut bytes).unwrap();
        assert_eq!(bytes, [2, 0, 0, 0, 0, 7]);
        // Some of them shown already.
        watch.show(&of(0..4), false);
        assert_eq!(load(1), 1);
        // Shown and protected, where the kernel can do both at once.
        view.hide(0..4);
        if watch.show(&of(0..4), true) {
            std::thread::scope(|scope| {
                let (watch, of) = (&watch, &of);
                let serving = scope.spawn(move || {
                    watch.wait(|fault| {
                        assert_eq!(fault, Fault::Store(first + 9));
                        watch.release(&of(0..4));
                    });
                });
                view.bytes().copy_in(9, &[1]).unwrap();
                serving.join().unwrap();
            });
        }
    }
}
