// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registering through the registration cache, and when a cached region may be believed.
//!
//! A region is a range of addresses of this process: no page is pinned, and nothing is translated
//! ahead of time. So memory that was emptied (`MADV_DONTNEED`), or copied on write after a `fork`,
//! changes nothing. A found region must only be what registering anew would give: all of it mapped,
//! and readable and writable as before. Two ways to know:
//!
//! 1. The kernel tells what is unmapped, moved or mapped over (`bellwire_memory::unmap_watch`),
//!    before the call that does it returns. A region that is watched costs a hit one load.
//! 2. Else a hit looks at the pages that were asked for, as registering would.
//!
//! Strict memory checks each copy besides, so there a program that uses what it has unmapped gets a
//! status, cached or not.
//!
//! Asking the kernel to watch costs a system call, so small regions are watched once they are
//! found again; large ones at once, where looking at the pages is much dearer. A watched range is
//! watched until it is unmapped, whatever becomes of the region: memory that is evicted and
//! registered again in turn pays no more than registering.
//!
//! A change of protection (`mprotect`) is not told. A program that takes a right away from memory,
//! and then registers it for a request that needs the right, gets the fault that trust mode has
//! for such programs.

use super::Engine;
use crate::attributes::MemAttributes;
use crate::error::Error;
use crate::registration::MemHandle;
use crate::registration_cache::{CacheAlgorithm, CacheConfig, CacheInfo, Key, RegistrationCache, Room, Watching};
use crate::wire::{MemoryKind, Wire};
use bellwire_memory::unmap_log::Missed;
use bellwire_memory::unmap_watch;
use core::ops::Range;

/// From this length on a region is watched when it is made.
const WATCH_AT_ONCE_BYTES_MIN: u64 = 256 << 10;
/// Intervals that an engine has watched, at most: each costs the kernel a mapping or two, of which
/// a process has 65530.
const WATCHED_MAX: usize = 4096;

impl<W: Wire> Engine<W> {
    /// Sets how the registration cache works and how large it may become; to be said before it is
    /// used. [`Nic`](crate::Nic) does. Without it the cache watches nothing.
    pub fn set_registration_cache(&mut self, config: CacheConfig) {
        debug_assert_eq!(self.cache.info(), CacheInfo::default());
        self.cache = RegistrationCache::new(config);
    }

    /// What the registration cache has done.
    pub fn registration_cache(&self) -> CacheInfo {
        self.cache.info()
    }

    /// As [`register`](Self::register), but gives a region that is registered already where one
    /// serves: of the same tag and rights, around these bytes, and exactly around them if peers
    /// have rights. To be ended by [`release_cached`](Self::release_cached), as often as it was
    /// given.
    ///
    /// # Errors
    /// Those of [`register`](Self::register); [`Error::Resource`] also if
    /// [`CacheAlgorithm::PageHash`] has all records in use.
    ///
    /// # Safety
    /// U0 of [`register`](Self::register), until the matching
    /// [`release_cached`](Self::release_cached) and the end of the requests that use the bytes.
    /// Afterwards the program may unmap them.
    pub unsafe fn register_cached(&mut self, address: u64, length: u64, attributes: &MemAttributes) -> Result<MemHandle, Error> {
        let end = address.checked_add(length).filter(|_| address != 0 && length != 0).ok_or(Error::InvalidParameter)?;
        self.follow_unmaps();
        let key = Key::of(attributes);
        match self.cache.recent(key, &(address..end)) {
            Some(id) => Ok(self.hit(id)),
            None => self.find_or_make(address..end, key, attributes),
        }
    }

    #[inline(never)]
    fn find_or_make(&mut self, asked: Range<u64>, key: Key, attributes: &MemAttributes) -> Result<MemHandle, Error> {
        let is_kept = self.cache.algorithm() != CacheAlgorithm::Off && !self.registry.is_engine_memory(asked.start, asked.end - asked.start);
        // Requests of this process may name more than was asked for; peers may not (C4).
        let span = match pages_around(&asked) {
            Some(pages) if is_kept && !key.is_remote() => pages,
            _ => asked,
        };
        if is_kept {
            for key in [key, key.read_only()] {
                if let Some(id) = self.cache.find(key, &span)
                    && self.is_there(id, &span)
                {
                    self.cache.remember(span.start, id);
                    return Ok(self.hit(id));
                }
            }
        }
        self.make(span, key, attributes, is_kept)
    }

    /// Ends what [`register_cached`](Self::register_cached) began. Peers no longer reach the bytes
    /// when it returns and this was the last user of the region. Requests that are posted go on.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not such a region, it has no users, or `address` is not in it.
    pub fn release_cached(&mut self, address: u64, handle: MemHandle) -> Result<(), Error> {
        let id = self.cache.record_of(handle).ok_or(Error::InvalidParameter)?;
        let record = self.cache.record(id);
        if record.users == 0 || !record.span.contains(&address) {
            return Err(Error::InvalidParameter);
        }
        if !self.cache.release(id) {
            return Ok(());
        }
        let record = self.cache.record(id);
        if !record.is_indexed {
            self.end_record(id);
        } else if record.key.is_remote() {
            self.set_remote_rights(handle, false, false);
        }
        Ok(())
    }

    /// Deregisters what the cache keeps without users, of one tag if one is given.
    pub(crate) fn flush_cached(&mut self, ptag: Option<u32>) {
        for id in self.cache.unused_of(ptag) {
            self.drop_record(id);
        }
        self.retry_lingering();
    }

    // ---- finding

    /// Whether a found region is what registering `span` now would give.
    #[inline]
    fn is_there(&mut self, id: u32, span: &Range<u64>) -> bool {
        let record = self.cache.record(id);
        record.is_watched || self.look_at(id, span)
    }

    #[cold]
    fn look_at(&mut self, id: u32, span: &Range<u64>) -> bool {
        let record = self.cache.record(id);
        let (whole, is_read_only) = (record.span.clone(), record.key.is_read_only());
        // All of it must be there after the watch has begun, to be believed from then on. That it
        // cannot be written may change without a word.
        let is_watched = !record.is_unwatchable && !is_read_only && self.watch(&whole);
        if !is_watched {
            self.cache.record_mut(id).is_unwatchable = true;
        }
        self.cache.counters.checks += 1;
        let seen = if is_watched { &whole } else { span };
        let kind = self.wire.probe_memory(seen.start, seen.end - seen.start);
        let is_there = kind == if is_read_only { MemoryKind::ReadOnly } else { MemoryKind::Writable };
        if is_there {
            if is_watched {
                self.count_as_watched(&whole);
            }
            self.cache.record_mut(id).is_watched = is_watched;
        } else {
            self.cache.counters.unmapped += 1;
            self.drop_record(id);
        }
        is_there
    }

    #[inline]
    fn hit(&mut self, id: u32) -> MemHandle {
        self.cache.counters.hits += 1;
        self.cache.hold(id);
        let record = self.cache.record(id);
        let (handle, (write, read)) = (record.handle, record.key.remote());
        if record.users == 1 && record.key.is_remote() {
            self.set_remote_rights(handle, write, read);
        }
        handle
    }

    // ---- making

    fn make(&mut self, span: Range<u64>, key: Key, attributes: &MemAttributes, is_kept: bool) -> Result<MemHandle, Error> {
        let length = span.end - span.start;
        let is_kept = is_kept && self.make_room(length)?;
        if is_kept && let Some(handle) = self.merge(&span, key, attributes) {
            return Ok(handle);
        }
        let is_watched = is_kept && (length >= WATCH_AT_ONCE_BYTES_MIN || self.cache.watched.covers(&span)) && self.watch(&span);
        let mut registered = self.registry.register(&mut self.wire, span.start, length, attributes);
        if registered == Err(Error::Resource) && self.cache.info().unused > 0 {
            self.flush_cached(None);
            registered = self.registry.register(&mut self.wire, span.start, length, attributes);
        }
        let handle = registered?;
        if is_watched {
            self.count_as_watched(&span);
        }
        let is_writable = self.registry.is_writable(handle);
        let key = if is_writable { key } else { key.read_only() };
        if is_kept {
            self.cache.counters.misses += 1;
            while let Some(inside) = self.cache.inside(key, &span) {
                self.drop_record(inside);
            }
        } else {
            self.cache.counters.uncached += 1;
        }
        let start = span.start;
        let id = self.cache.insert(key, span, handle, is_kept);
        self.cache.remember(start, id);
        self.cache.record_mut(id).is_watched = is_watched && is_writable;
        Ok(handle)
    }

    /// Makes one region of `span` and of those that overlap it, where these are watched: of the
    /// others' pages it is known that they are there, so only the new ones are looked at. The bytes
    /// that are kept grow by those of `span` at most.
    fn merge(&mut self, span: &Range<u64>, key: Key, attributes: &MemAttributes) -> Option<MemHandle> {
        let others = self.cache.mergeable(key, span);
        let (first, last) = (self.cache.record(*others.first()?).span.start, self.cache.record(*others.last()?).span.end);
        let union = first.min(span.start)..last.max(span.end);
        if !self.watch(span) {
            return None;
        }
        let mut at = span.start;
        for id in &others {
            let other = self.cache.record(*id).span.clone();
            if other.start > at && self.wire.probe_memory(at, other.start - at) != MemoryKind::Writable {
                return None;
            }
            at = at.max(other.end);
        }
        if at < span.end && self.wire.probe_memory(at, span.end - at) != MemoryKind::Writable {
            return None;
        }
        self.count_as_watched(span);
        for id in others {
            self.drop_record(id);
        }
        let handle = self.registry.register_as(&mut self.wire, (union.start, union.end - union.start), attributes, MemoryKind::Writable, None).ok()?;
        self.cache.counters.misses += 1;
        while let Some(inside) = self.cache.inside(key, &union) {
            self.drop_record(inside);
        }
        let id = self.cache.insert(key, union, handle, true);
        self.cache.record_mut(id).is_watched = true;
        self.cache.remember(span.start, id);
        Some(handle)
    }

    /// Makes room for a region to be kept. `false`: it cannot be.
    fn make_room(&mut self, bytes: u64) -> Result<bool, Error> {
        self.retry_lingering();
        loop {
            match self.cache.room(bytes) {
                Room::Free => return Ok(true),
                Room::After(oldest) if self.cache.passes_by(oldest) => return Ok(false),
                Room::After(oldest) => {
                    self.cache.counters.evictions += 1;
                    self.drop_record(oldest);
                }
                Room::None if self.cache.algorithm() == CacheAlgorithm::PageHash => return Err(Error::Resource),
                Room::None => return Ok(false),
            }
        }
    }

    // ---- ending

    /// A record is no longer found; its region ends now, or with its last user.
    fn drop_record(&mut self, id: u32) {
        self.cache.unindex(id);
        if self.cache.record(id).users == 0 {
            self.end_record(id);
        }
    }

    /// Ends the region of a record without users, when no posted request uses it any more.
    fn end_record(&mut self, id: u32) {
        let record = self.cache.record(id);
        let (start, handle) = (record.span.start, record.handle);
        if record.key.is_remote() {
            self.set_remote_rights(handle, false, false);
        }
        match self.deregister_region(start, handle) {
            Ok(()) => self.cache.forget(id),
            Err(_) => self.cache.lingering.push(id),
        }
    }

    fn retry_lingering(&mut self) {
        if !self.cache.lingering.is_empty() {
            for id in core::mem::take(&mut self.cache.lingering) {
                self.end_record(id);
            }
        }
    }

    fn set_remote_rights(&mut self, handle: MemHandle, write: bool, read: bool) {
        if self.registry.set_remote_rights(&mut self.wire, handle, write, read) {
            self.quiesce_all();
        }
    }

    // ---- watching

    /// Has the kernel tell when what is mapped in a range is unmapped. `false`: it does not. It
    /// says nothing of holes, nor of what is mapped there later: when the caller has seen that all
    /// of the range is mapped, [`count_as_watched`](Self::count_as_watched) says so.
    fn watch(&mut self, span: &Range<u64>) -> bool {
        if matches!(self.cache.watching, Watching::Wanted) {
            self.cache.watching = unmap_watch::shared().map_or(Watching::Off, |watch| Watching::On(watch, watch.cursor()));
        }
        let Watching::On(watch, _) = &self.cache.watching else { return false };
        let Some(pages) = pages_around(span) else { return false };
        if self.cache.watched.covers(&pages) {
            return true;
        }
        self.cache.watched.len() < WATCHED_MAX && watch.watch(&pages)
    }

    /// All of a range was mapped after [`watch`](Self::watch) had begun. The log has what was
    /// unmapped in between; reading it takes that out again.
    fn count_as_watched(&mut self, span: &Range<u64>) {
        if let Some(pages) = pages_around(span) {
            self.cache.watched.add(&pages);
        }
    }

    /// Drops the regions whose memory was unmapped.
    #[inline]
    fn follow_unmaps(&mut self) {
        if let Watching::On(watch, cursor) = &self.cache.watching
            && watch.has_news(*cursor)
        {
            self.take_unmaps();
        }
    }

    #[cold]
    fn take_unmaps(&mut self) {
        let mut gone = Vec::new();
        if let Watching::On(watch, cursor) = &mut self.cache.watching
            && watch.drain(cursor, |range| gone.push(range)) == Missed::Some
        {
            gone = vec![Range { start: 0, end: u64::MAX }];
        }
        for range in gone {
            self.cache.watched.cut(&range);
            for id in self.cache.overlapping(&range) {
                self.cache.counters.unmapped += 1;
                self.drop_record(id);
            }
        }
    }
}

/// The pages that hold a range. `None`: there are no such addresses.
fn pages_around(range: &Range<u64>) -> Option<Range<u64>> {
    let page = rustix::param::page_size() as u64;
    Some(range.start / page * page..range.end.checked_next_multiple_of(page)?)
}
