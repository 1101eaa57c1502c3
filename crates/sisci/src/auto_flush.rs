// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores through maps of other hosts' segments leave by themselves.
//!
//! ```text
//!  program             fault thread             flush thread
//!  first store   --->  notes the page, rouses -> after PAUSE: sends what differs in noted pages,
//!  goes on       <---  releases the page        round by round; protects again a page that two
//!                                               rounds find unchanged; sleeps when none is left
//! ```
//!
//! The fault thread waits for nothing but short locks: threads that store wait for it. So the flush
//! thread takes no lock over a wait either: a round sends as much as leaves now, and a peer that is
//! silent keeps up its own map alone.
//!
//! Where stores cannot be heard of (`stores=compare`, or no `userfaultfd`), the flush thread
//! compares whole maps, at growing pauses while nothing is found.
//!
//! With `loads=`, pages are hidden, and fetched when they are touched (`fresh.rs`); where threads
//! cannot wait for pages, maps are fetched again and again by a thread of each.

use crate::error::Error;
use crate::thread;
use bellwire_memory::write_watch::{Fault, WriteWatch};
use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Between a store and the round that sends it, and between rounds; a sleep may be as late again.
const PAUSE: Duration = Duration::from_micros(50);
/// The same while rounds find nothing.
const PAUSE_MAX: Duration = Duration::from_micros(3200);

/// How stores are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finding {
    /// By pages that are protected from stores, if the stores of system calls are heard of too;
    /// else by comparing.
    #[default]
    Surely,
    /// By pages that are protected from stores, where there are any; else by comparing.
    Pages,
    /// By comparing all of a map with what it was.
    Compare,
}

/// What a round has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Something was sent or has arrived.
    Moved,
    /// Nothing new, but there may be.
    Quiet,
    /// Nothing, until a page is touched.
    Idle,
}

/// A map whose stores leave later.
pub(crate) trait Stores: Send + Sync {
    /// Sends them all. They have arrived when this returns.
    fn flush(&self) -> Result<(), Error>;

    /// Fetches what the segment holds now; after the map's end, and when the connection is over, an
    /// error.
    fn fetch(&self) -> Result<(), Error>;

    /// Sends as much as leaves now.
    fn round(&self, watch: Option<&WriteWatch>) -> Round;

    /// From now on [`is_touched`](Self::is_touched) is called before the first store to each of
    /// these pages.
    fn is_watched(&self, pages: Range<u64>);

    /// The view is about to be stored to, so many bytes behind the begin of its pages, once
    /// `release` was called. The caller's thread may wait for a look at the pages, but never for
    /// the network.
    fn is_touched(&self, at: usize, release: &dyn Fn());

    /// A thread waits for a hidden page, so many bytes behind the begin of the pages.
    fn is_wanted(&self, at: usize) {
        let _ = at;
    }

    /// Whether pages were touched since the last look.
    fn has_touched(&self) -> bool;
}

/// Maps that have something to send, or may have.
#[derive(Default)]
struct Work {
    maps: Vec<Weak<dyn Stores>>,
    is_roused: bool,
}

/// Pages that are watched: the first, the end, and whose they are.
type Watched = BTreeMap<u64, (u64, Weak<dyn Stores>)>;

/// See the module.
pub(crate) struct AutoFlush {
    /// Opened when it is first needed; `None` within: it cannot be had.
    watch: OnceLock<Option<WriteWatch>>,
    /// Stores to maps of other hosts are found by it.
    finds_by_pages: OnceLock<bool>,
    me: Weak<Self>,
    watched: Mutex<Watched>,
    work: Mutex<Work>,
    bell: Condvar,
}

/// Fetches a map again and again, so that loads show nothing older than this and the time of a
/// fetch. Each map has a thread of its own for it: a peer that is silent keeps up its own map
/// alone.
///
/// # Errors
/// [`Error::NoSpace`].
pub(crate) fn keep_fresh(map: &Arc<dyn Stores>, age: Duration) -> Result<(), Error> {
    let map = Arc::downgrade(map);
    let fetch = move || {
        while map.upgrade().is_some_and(|map| map.fetch().is_ok()) {
            std::thread::sleep(age);
        }
    };
    thread::spawn(c"bellwire-fetch", fetch).map(|_| ())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AutoFlush {
    /// Starts its threads, which run as long as the process.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn start(finding: Finding, explain: bool) -> Result<Arc<Self>, Error> {
        let flush = Arc::new_cyclic(|me: &Weak<Self>| Self {
            watch: OnceLock::new(),
            finds_by_pages: OnceLock::new(),
            me: me.clone(),
            watched: Mutex::default(),
            work: Mutex::default(),
            bell: Condvar::new(),
        });
        let watch = if finding == Finding::Compare { None } else { flush.watch().filter(|w| finding == Finding::Pages || w.hears_system_calls()) };
        let _ = flush.finds_by_pages.set(watch.is_some());
        if explain {
            let how = match watch {
                Some(watch) if watch.hears_system_calls() => "by page faults",
                Some(_) => "by page faults; system calls that store there fail with EFAULT",
                None => "by comparing whole maps",
            };
            eprintln!("bellwire: SISCI stores to other hosts are found {how}");
        }
        let sender = Arc::clone(&flush);
        thread::spawn(c"bellwire-flush", move || sender.serve_rounds())?;
        Ok(flush)
    }

    /// The watch over stores to pages, if one can be had; starts the thread for it.
    pub fn watch(&self) -> Option<&WriteWatch> {
        let open = || {
            let watch = WriteWatch::open()?;
            let flush = self.me.upgrade()?;
            // It waits for this call.
            thread::spawn(c"bellwire-fault", move || flush.serve_faults()).ok()?;
            Some(watch)
        };
        self.watch.get_or_init(open).as_ref()
    }

    /// The same, where it finds the stores to maps of other hosts.
    pub fn watch_of_stores(&self) -> Option<&WriteWatch> {
        self.watch().filter(|_| self.finds_by_pages.get() == Some(&true))
    }

    /// Has the stores to a map leave by themselves; `pages` are those of the program's view.
    pub fn follow(&self, map: &Arc<dyn Stores>, pages: Range<u64>) {
        if self.finds_by_pages.get() != Some(&true) || !self.follow_pages(map, pages) {
            self.rouse(map);
        }
    }

    /// The same, if the first store to each page can be heard of.
    pub fn follow_pages(&self, map: &Arc<dyn Stores>, pages: Range<u64>) -> bool {
        let Some(watch) = self.watch() else { return false };
        let mut watched = locked(&self.watched);
        // Pages of maps that came to nothing may be of this one now.
        watched.retain(|_, (_, of)| of.strong_count() > 0);
        watched.insert(pages.start, (pages.end, Arc::downgrade(map)));
        drop(watched);
        if watch.watch(&pages) {
            map.is_watched(pages);
            return true;
        }
        self.forget(&pages);
        false
    }

    /// Has threads wait for pages of a map that are hidden. `false`: they cannot.
    pub fn follow_hidden(&self, map: &Arc<dyn Stores>, pages: Range<u64>) -> bool {
        let Some(watch) = self.watch_of_stores() else { return false };
        locked(&self.watched).insert(pages.start, (pages.end, Arc::downgrade(map)));
        let is_watched = watch.watch_hidden(&pages);
        if !is_watched {
            self.forget(&pages);
        }
        is_watched
    }

    /// The view is about to be unmapped.
    pub fn forget(&self, pages: &Range<u64>) {
        let was_watched = locked(&self.watched).remove(&pages.start).is_some();
        // No thread waits for a page of nobody's.
        if let Some(watch) = self.watch().filter(|_| was_watched) {
            watch.release(pages);
        }
    }

    /// A map has something to send.
    pub fn rouse(&self, map: &Arc<dyn Stores>) {
        let mut work = locked(&self.work);
        if !work.maps.iter().any(|of| core::ptr::addr_eq(of.as_ptr(), Arc::as_ptr(map))) {
            work.maps.push(Arc::downgrade(map));
        }
        work.is_roused = true;
        self.bell.notify_one();
    }

    fn serve_faults(&self) {
        let Some(watch) = self.watch() else { return };
        let page = rustix::param::page_size() as u64;
        loop {
            watch.wait(|fault| {
                let (Fault::Store(address) | Fault::Hidden(address)) = fault;
                let at = address & !(page - 1);
                let found = locked(&self.watched).range(..=at).next_back().map(|(first, (end, of))| (*first..*end, of.upgrade()));
                let found = found.and_then(|(pages, map)| Some((address - pages.start, map.filter(|_| pages.contains(&at))?)));
                match (fault, found) {
                    (Fault::Store(_), Some((place, map))) => {
                        // Noted before the store: a flush that comes after it knows the page.
                        map.is_touched(place as usize, &|| watch.release(&(at..at + page)));
                        self.rouse(&map);
                    }
                    (Fault::Hidden(_), Some((place, map))) => map.is_wanted(place as usize),
                    (Fault::Store(_), None) => watch.release(&(at..at + page)),
                    (Fault::Hidden(_), None) => _ = watch.show(&(at..at + page), false),
                }
            });
        }
    }

    fn serve_rounds(&self) {
        let mut pause = PAUSE;
        loop {
            let maps = {
                let mut work = locked(&self.work);
                while work.maps.is_empty() {
                    work = self.bell.wait(work).unwrap_or_else(PoisonError::into_inner);
                }
                if !work.is_roused && pause > PAUSE {
                    work = self.bell.wait_timeout(work, pause).unwrap_or_else(PoisonError::into_inner).0;
                }
                if core::mem::take(&mut work.is_roused) {
                    pause = PAUSE;
                }
                work.maps.clone()
            };
            if pause == PAUSE {
                std::thread::sleep(pause);
            }
            let mut has_moved = false;
            for of in maps {
                let round = of.upgrade().map_or(Round::Idle, |map| map.round(self.watch_of_stores()));
                has_moved |= round == Round::Moved;
                if round == Round::Idle {
                    // A page that was noted since keeps it here: its fault may have found it here.
                    let mut work = locked(&self.work);
                    work.maps.retain(|other| !core::ptr::addr_eq(other.as_ptr(), of.as_ptr()) || of.upgrade().is_some_and(|map| map.has_touched()));
                }
            }
            pause = if has_moved { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
        }
    }
}
