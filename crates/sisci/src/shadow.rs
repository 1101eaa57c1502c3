// SPDX-License-Identifier: MIT OR Apache-2.0
//! The map of a segment of another host: nothing can be mapped there, so the program has a shadow.
//! Its stores leave by RDMA write, with a flush or by themselves (`auto_flush.rs`); stores of
//! others come with a fetch.
//!
//! A twin keeps what both sides last had in common. A byte that differs from its twin was stored
//! here. Exactly these bytes are sent; so a store of the value that is there already does not
//! leave. They are looked for by falling address and sent by rising address, so that between two
//! flushes the owner never sees a store without one that was made earlier at a lower address.
//! There is no other order.
//!
//! Where the first store to a page is heard of, only pages that were stored to are looked at.
//!
//! Invariants
//! - S1: the twin's lock is held by all that flush, fetch or copy, so they follow one another. The
//!   lock of touched pages and the NIC's token are taken under it, never the other way round.
//! - S2: the twin's bytes stay where they are, and those of writes on their way do not change.

use crate::auto_flush::{AutoFlush, Round, Stores};
use crate::error::Error;
use crate::far::Writes;
use crate::fresh::{Fresh, Step};
use crate::memory::Memory;
use crate::remote::RemoteSegment;
use crate::thread;
use bellwire_memory::bytes::SharedBytes;
use bellwire_memory::refresh::refresh_down;
use bellwire_memory::region::Access;
use bellwire_memory::view::{At, View};
use bellwire_memory::write_watch::WriteWatch;
use core::mem::take;
use core::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// Bytes of a map that a round compares for each pause, where stores are not heard of.
const COMPARED: usize = 64 << 10;

/// The shadow of a part of a segment.
pub(crate) struct Shadow {
    pub segment: Arc<RemoteSegment>,
    memory: Memory,
    /// Where the part begins in `memory`: as in its page as at the owner.
    inside: usize,
    offset: usize,
    len: usize,
    twin: Mutex<Twin>,
    /// Pages of the view that were stored to since they were protected, and that no look has seen
    /// yet.
    touched: Mutex<Vec<usize>>,
    /// Pages that are fetched when they are touched.
    loads: OnceLock<Arc<Loads>>,
}

/// The pages of a map as the thread that fetches and those that load share them.
struct Loads {
    /// `None`: the map is gone.
    fresh: Mutex<Option<Fresh>>,
    bell: Condvar,
}

impl Loads {
    fn fresh(&self) -> MutexGuard<'_, Option<Fresh>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next thing to do; waits for it. `None`: the map is gone.
    fn next(&self) -> Option<Step> {
        let mut fresh = self.fresh();
        loop {
            fresh = match fresh.as_mut()?.next(Instant::now()) {
                Step::Sleep(None) => self.bell.wait(fresh).unwrap_or_else(PoisonError::into_inner),
                Step::Sleep(Some(left)) => self.bell.wait_timeout(fresh, left).unwrap_or_else(PoisonError::into_inner).0,
                step => return Some(step),
            };
        }
    }

    fn end(&self) {
        *self.fresh() = None;
        self.bell.notify_all();
    }
}

/// What both sides last had in common.
struct Twin {
    bytes: Vec<u8>,
    /// The pages of the view, if the first store to each is heard of.
    watched: Option<Range<u64>>,
    /// Of these, those that are not protected, by rising address.
    hot: Vec<Hot>,
    writes: Writes,
    /// Stores were lost on their way; the next flush says so.
    is_failed: bool,
    /// The map is gone.
    is_over: bool,
    /// Rounds since the last comparison.
    rounds: usize,
}

/// A page that is not protected.
#[derive(Clone, Copy)]
struct Hot {
    page: usize,
    /// A look has found something new since the last round.
    has_changed: bool,
    /// The last round has found nothing new.
    is_quiet: bool,
}

impl Shadow {
    /// A shadow with what the segment holds now.
    pub fn new(segment: Arc<RemoteSegment>, offset: usize, len: usize) -> Result<Self, Error> {
        let inside = offset % rustix::param::page_size();
        let memory = Memory::create(inside + len)?;
        segment.transfer(memory.part(inside, len)?, offset, true)?;
        let mut bytes = vec![0; len];
        memory.part(inside, len)?.copy_out(0, &mut bytes)?;
        let twin = Twin { bytes, watched: None, hot: Vec::new(), writes: Writes::default(), is_failed: false, is_over: false, rounds: 0 };
        Ok(Self { segment, memory, inside, offset, len, twin: Mutex::new(twin), touched: Mutex::default(), loads: OnceLock::new() })
    }

    /// The program's view of it.
    pub fn view(&self, access: Access, at: At) -> Result<View, Error> {
        Ok(View::map(self.memory.fd(), self.inside, self.len, access, at)?)
    }

    fn all(&self) -> Result<SharedBytes<'_>, Error> {
        self.memory.part(self.inside, self.len)
    }

    fn lock(&self) -> MutexGuard<'_, Twin> {
        self.twin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touched(&self) -> MutexGuard<'_, Vec<usize>> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for bytes that differ from the twin, where stores are heard of in touched pages and
    /// in these alone; they are to be written. Whether there are any.
    fn look(&self, twin: &mut Twin, cold: &[usize]) -> Result<bool, Error> {
        let all = self.all()?;
        let mut runs = Vec::new();
        if twin.watched.is_none() {
            refresh_down(all, &mut twin.bytes, |run| runs.push(run));
        } else {
            // While this lock is held no page is touched for the first time, so the order of
            // stores holds over all pages.
            let mut touched = self.touched();
            for page in touched.drain(..) {
                if let Err(place) = twin.hot.binary_search_by_key(&page, |hot| hot.page) {
                    twin.hot.insert(place, Hot { page, has_changed: true, is_quiet: false });
                }
            }
            let mut pages: Vec<_> = twin.hot.iter().map(|hot| hot.page).chain(cold.iter().copied()).collect();
            pages.sort_unstable();
            pages.dedup();
            let size = rustix::param::page_size();
            for page in pages.into_iter().rev() {
                let begin = (page * size).saturating_sub(self.inside).min(self.len);
                let end = ((page + 1) * size - self.inside).min(self.len);
                let before = runs.len();
                refresh_down(all.part(begin, end - begin)?, &mut twin.bytes[begin..end], |run| runs.push(begin + run.start..begin + run.end));
                if runs.len() > before
                    && let Ok(place) = twin.hot.binary_search_by_key(&page, |hot| hot.page)
                {
                    twin.hot[place].has_changed = true;
                }
            }
        }
        runs.reverse();
        let has_some = !runs.is_empty();
        runs.into_iter().for_each(|run| twin.writes.add(run));
        Ok(has_some)
    }

    /// Goes on with writes; with `waits`, until all have ended.
    fn write(&self, twin: &mut Twin, waits: bool) -> bool {
        let Twin { bytes, writes, is_failed, .. } = twin;
        // SAFETY: B1, S2: the twin's bytes, which are only copied from until no write is on its
        // way; a shadow with writes on their way leaves them where they are.
        let source = unsafe { SharedBytes::new_read_only(bytes.as_ptr(), bytes.len()) };
        // SAFETY: S2: the same bytes.
        let moved = unsafe { self.segment.write(source, self.offset, writes, waits) };
        *is_failed |= writes.take_failure().is_some();
        moved
    }

    fn flush_all(&self, twin: &mut Twin) -> Result<(), Error> {
        self.write(twin, true);
        self.look(twin, &[])?;
        self.write(twin, true);
        if take(&mut twin.is_failed) { Err(Error::TransferFailed) } else { Ok(()) }
    }

    /// Fetches pages when they are touched, so that loads show nothing older than `age` and the
    /// time of a fetch. `false`: threads cannot wait for pages here.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn fetch_on_touch(self: &Arc<Self>, auto_flush: &Arc<AutoFlush>, view: &Arc<View>, age: Duration) -> Result<bool, Error> {
        let stores = Arc::clone(self) as Arc<dyn Stores>;
        let pages = view.pages();
        let count = ((pages.end - pages.start) as usize) / rustix::param::page_size();
        let loads = Arc::new(Loads { fresh: Mutex::new(Some(Fresh::new(count, age))), bell: Condvar::new() });
        if self.loads.set(Arc::clone(&loads)).is_err() || !auto_flush.follow_hidden(&stores, pages.clone()) {
            return Ok(false);
        }
        let (shadow, view_of_it, auto_flush) = (Arc::downgrade(self), Arc::downgrade(view), Arc::clone(auto_flush));
        thread::spawn(c"bellwire-fetch", move || {
            while let Some(step) = loads.next() {
                let Some(shadow) = shadow.upgrade() else { return };
                shadow.carry_out(step, &view_of_it, &auto_flush);
            }
        })?;
        view.hide(0..count);
        Ok(true)
    }

    /// A step of the thread that fetches.
    fn carry_out(self: &Arc<Self>, step: Step, view: &Weak<View>, auto_flush: &AutoFlush) {
        // S1: while the view is hidden or shown it is there, and no page is protected or looked at.
        let mut twin = self.lock();
        let Some(view) = view.upgrade().filter(|_| !twin.is_over) else { return };
        let (hide, fetch) = match step {
            Step::Fetch { hide, fetch } => (hide, fetch),
            Step::Hide(hide) => (hide, Vec::new()),
            Step::Sleep(_) => return,
        };
        hide.into_iter().for_each(|pages| view.hide(pages));
        if fetch.is_empty() {
            return;
        }
        let size = rustix::param::page_size();
        // If the owner is gone, pages stay as they are.
        let mut fetched = self.flush_all(&mut twin);
        for pages in &fetch {
            let begin = (pages.start * size).saturating_sub(self.inside).min(self.len);
            let end = (pages.end * size - self.inside).min(self.len);
            fetched = fetched.and_then(|()| self.fetch_part(&mut twin, begin, end - begin));
        }
        if fetched.is_err()
            && let Some(loads) = self.loads.get()
        {
            loads.fresh().iter_mut().for_each(Fresh::stay);
        }
        let (first, is_stored_to) = (view.pages().start, twin.watched.is_some());
        let watch = auto_flush.watch_of_stores();
        let mut is_hot = false;
        for pages in fetch {
            let at = first + (pages.start * size) as u64..first + (pages.end * size) as u64;
            if !watch.is_some_and(|watch| watch.show(&at, is_stored_to)) && is_stored_to {
                self.touched().extend(pages);
                is_hot = true;
            }
        }
        drop(twin);
        if is_hot {
            auto_flush.rouse(&(Arc::clone(self) as Arc<dyn Stores>));
        }
    }

    fn fetch_part(&self, twin: &mut Twin, at: usize, len: usize) -> Result<(), Error> {
        let mut fresh = vec![0; len];
        // SAFETY: B1: the vector, which nobody else has, until the transfer has ended.
        self.segment.transfer(unsafe { SharedBytes::new(fresh.as_mut_ptr(), len) }, self.offset + at, true)?;
        self.adopt(&mut twin.bytes, at, &fresh)
    }

    /// The map is about to be gone: a last flush.
    pub fn close(&self) {
        self.loads.get().into_iter().for_each(|loads| loads.end());
        let mut twin = self.lock();
        // If the owner is gone, the stores are lost.
        let _ = self.flush_all(&mut twin);
        twin.is_over = true;
    }

    /// The segment holds `fresh` from `at` on. What the program has stored since the last flush
    /// stays in the shadow, and leaves with the next one.
    fn adopt(&self, twin: &mut [u8], at: usize, fresh: &[u8]) -> Result<(), Error> {
        let here = self.all()?.part(at, fresh.len())?;
        let twin = &mut twin[at..at + fresh.len()];
        let size = rustix::param::page_size();
        for begin in (0..fresh.len()).step_by(size) {
            let end = (begin + size).min(fresh.len());
            if fresh[begin..end] == twin[begin..end] {
                continue;
            }
            let mut now = vec![0; end - begin];
            here.copy_out(begin, &mut now)?;
            for place in (begin..end).filter(|i| fresh[*i] != twin[*i]).collect::<Vec<_>>() {
                if now[place - begin] == twin[place] {
                    here.copy_in(place, &fresh[place..=place])?;
                }
                twin[place] = fresh[place];
            }
        }
        Ok(())
    }

    /// Copies `memory` to (or, if `read`, from) the segment at `at` of this map, and the map shows
    /// it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::TransferFailed`].
    pub fn copy(&self, memory: SharedBytes<'_>, at: usize, read: bool) -> Result<(), Error> {
        self.all()?.part(at, memory.len())?;
        let mut bytes = vec![0; memory.len()];
        // Before the lock, and behind it: the memory may be of this map, and have to be fetched.
        if !read {
            memory.copy_out(0, &mut bytes)?;
        }
        {
            let mut twin = self.lock();
            self.flush_all(&mut twin)?;
            // SAFETY: B1: the vector, which nobody else has, until the transfer has ended.
            self.segment.transfer(unsafe { SharedBytes::new(bytes.as_mut_ptr(), bytes.len()) }, self.offset + at, read)?;
            self.adopt(&mut twin.bytes, at, &bytes)?;
        }
        if read { Ok(memory.copy_in(0, &bytes)?) } else { Ok(()) }
    }
}

impl Stores for Shadow {
    /// It has arrived when this returns; or [`Error::TransferFailed`].
    fn flush(&self) -> Result<(), Error> {
        self.flush_all(&mut self.lock())
    }

    /// After a flush; or [`Error::TransferFailed`].
    fn fetch(&self) -> Result<(), Error> {
        let mut twin = self.lock();
        if twin.is_over {
            return Err(Error::NotConnected);
        }
        self.flush_all(&mut twin)?;
        self.fetch_part(&mut twin, 0, self.len)
    }

    fn round(&self, watch: Option<&WriteWatch>) -> Round {
        let mut twin = match self.twin.try_lock() {
            Ok(twin) => twin,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Round::Quiet,
        };
        let twin = &mut *twin;
        if twin.is_over {
            return Round::Idle;
        }
        let mut moved = self.write(twin, false);
        if !twin.writes.is_empty() {
            return if moved { Round::Moved } else { Round::Quiet };
        }
        let is_heard = twin.watched.is_some();
        if !is_heard {
            twin.rounds += 1;
            if twin.rounds * COMPARED < self.len {
                return Round::Quiet;
            }
            twin.rounds = 0;
        }
        let cold: Vec<_> = twin.hot.iter().filter(|hot| hot.is_quiet && !hot.has_changed).map(|hot| hot.page).collect();
        twin.hot.retain(|hot| !hot.is_quiet || hot.has_changed);
        // Protected before the look: a store behind the look is heard of.
        if let (Some(watch), Some(pages)) = (watch, &twin.watched) {
            protect(watch, pages, &cold);
        }
        let Ok(found) = self.look(twin, &cold) else { return Round::Idle };
        twin.hot.iter_mut().for_each(|hot| hot.is_quiet = !take(&mut hot.has_changed));
        moved |= found;
        if found {
            self.write(twin, false);
        }
        if self.segment.check().is_err() {
            // Whatever is stored from now on has nowhere to go.
            return Round::Idle;
        }
        match (moved, is_heard && twin.hot.is_empty() && twin.writes.is_empty()) {
            (true, _) => Round::Moved,
            (false, true) => Round::Idle,
            (false, false) => Round::Quiet,
        }
    }

    fn is_watched(&self, pages: Range<u64>) {
        self.lock().watched = Some(pages);
    }

    fn is_touched(&self, at: usize, release: &dyn Fn()) {
        self.touched().push(at / rustix::param::page_size());
        release();
    }

    fn is_wanted(&self, at: usize) {
        let Some(loads) = self.loads.get() else { return };
        loads.fresh().iter_mut().for_each(|fresh| fresh.want(at / rustix::param::page_size()));
        loads.bell.notify_all();
    }

    fn has_touched(&self) -> bool {
        !self.touched().is_empty()
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        let twin = self.twin.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !twin.writes.is_empty() {
            // S2: the engine may still read them. A map that was closed has none.
            core::mem::forget(take(&mut twin.bytes));
        }
    }
}

/// Protects these pages, which rise, of a range: neighbours at once.
pub(crate) fn protect(watch: &WriteWatch, of: &Range<u64>, pages: &[usize]) {
    let size = rustix::param::page_size() as u64;
    for run in pages.chunk_by(|page, next| page + 1 == *next) {
        let begin = of.start + run[0] as u64 * size;
        watch.protect(&(begin..begin + run.len() as u64 * size));
    }
}
