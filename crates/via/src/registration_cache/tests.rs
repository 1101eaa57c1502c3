// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache against a model that knows what is mapped, on real memory: whatever the program
//! unmaps, maps over or moves between two calls, a registration gives what registering anew would.

use super::*;
use crate::error::Error;
use crate::nic::{Nic, NicConfig};
use bellwire_memory::atomic::{AtomicUsize, Ordering};
use core::ffi::c_void;
use proptest::prelude::*;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect, mremap, mremap_fixed, munmap};

const PAGE: usize = 4096;
const PAGES: usize = 24;
const LIMIT: CacheConfig = CacheConfig { algorithm: CacheAlgorithm::Intervals, entries: 5, bytes: 20 * PAGE as u64, watch: true };

fn nic(cache: CacheConfig) -> Nic {
    Nic::open(NicConfig { registration_cache: cache, ..NicConfig::default() }).unwrap()
}

fn register(nic: &Nic, span: &Range<u64>, attributes: &MemAttributes) -> Result<MemHandle, Error> {
    // SAFETY: U0: no request uses the bytes, and no reference to them lives.
    nic.with(|e| unsafe { e.register_cached(span.start, span.end - span.start, attributes) })
}

fn release(nic: &Nic, handle: MemHandle) -> Result<(), Error> {
    nic.with(|e| {
        let start = e.region_range(handle)?.0;
        e.release_cached(start, handle)
    })
}

fn info(nic: &Nic) -> CacheInfo {
    nic.with(|e| e.registration_cache())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Hole,
    ReadWrite,
    ReadOnly,
}

/// Pages that this test maps and unmaps. They lie where the kernel puts nothing by itself, for it
/// fills holes from the top; so other threads map nothing in between.
struct Arena {
    base: *mut c_void,
    pages: [Page; PAGES],
}

const RW: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Arena {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0x1000_0000_0000);
        loop {
            // Relaxed: only to be different.
            let at = NEXT.fetch_add(4 * PAGES * PAGE, Ordering::Relaxed);
            // SAFETY: a new mapping, over nothing.
            match unsafe { mmap_anonymous(core::ptr::without_provenance_mut(at), PAGES * PAGE, RW, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE) } {
                Ok(base) => return Self { base, pages: [Page::ReadWrite; PAGES] },
                Err(Errno::EXIST) => {}
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn at(&self, page: usize) -> *mut c_void {
        self.base.wrapping_byte_add(page * PAGE)
    }

    fn span(&self, page: usize, skip: usize, bytes: usize) -> Range<u64> {
        let start = (self.base.addr() + page * PAGE + skip) as u64;
        let end = ((self.base.addr() + PAGES * PAGE) as u64).min(start + bytes as u64);
        start..end
    }

    /// Maps a page that is a hole.
    fn fill(&mut self, page: usize, kind: Page) {
        let rights = if kind == Page::ReadOnly { ProtFlags::READ } else { RW };
        // SAFETY: a new mapping, over nothing.
        let _ = unsafe { mmap_anonymous(self.at(page), PAGE, rights, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE) }.unwrap();
        self.pages[page] = kind;
    }

    fn change(&mut self, what: u8, page: usize) {
        let at = self.at(page);
        // SAFETY: pages of this arena, as `pages` says, to which there are no references; the rest
        // are new mappings.
        unsafe {
            match (what, self.pages[page]) {
                (0 | 1, Page::Hole) => self.fill(page, if what == 0 { Page::ReadWrite } else { Page::ReadOnly }),
                (0, _) => {
                    munmap(at, PAGE).unwrap();
                    self.pages[page] = Page::Hole;
                }
                (1, _) => {
                    let _ = mmap_anonymous(at, PAGE, ProtFlags::READ, MapFlags::PRIVATE | MapFlags::FIXED).unwrap();
                    self.pages[page] = Page::ReadOnly;
                }
                (2, Page::ReadWrite | Page::ReadOnly) => {
                    // Moved away.
                    let moved = mremap(at, PAGE, 2 * PAGE, MremapFlags::MAYMOVE).unwrap();
                    if moved == at {
                        // It grew into a hole behind it.
                        munmap(at.wrapping_byte_add(PAGE), PAGE).unwrap();
                    } else {
                        munmap(moved, 2 * PAGE).unwrap();
                        self.pages[page] = Page::Hole;
                    }
                }
                (3, Page::ReadWrite | Page::ReadOnly) => {
                    // Other memory is moved over it.
                    let other = mmap_anonymous(core::ptr::null_mut(), PAGE, RW, MapFlags::PRIVATE).unwrap();
                    mremap_fixed(other, PAGE, PAGE, MremapFlags::MAYMOVE, at).unwrap();
                    self.pages[page] = Page::ReadWrite;
                }
                (4, Page::ReadWrite) => madvise(at, PAGE, Advice::LinuxDontNeed).unwrap(),
                (5, Page::ReadOnly) => {
                    mprotect(at, PAGE, MprotectFlags::READ | MprotectFlags::WRITE).unwrap();
                    self.pages[page] = Page::ReadWrite;
                }
                _ => {}
            }
        }
    }

    /// The answer that registering must give: whether the memory is writable, or an error.
    fn expected(&self, span: &Range<u64>, attributes: &MemAttributes) -> Result<bool, Error> {
        let page = |address: u64| (address as usize - self.base.addr()) / PAGE;
        let pages = &self.pages[page(span.start)..=page(span.end - 1)];
        let is_writable = !pages.contains(&Page::ReadOnly);
        if pages.contains(&Page::Hole) || !is_writable && attributes.rdma_write { Err(Error::InvalidParameter) } else { Ok(is_writable) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for page in (0..PAGES).filter(|p| self.pages[*p] != Page::Hole) {
            // SAFETY: a page of the arena.
            unsafe { munmap(self.at(page), PAGE) }.unwrap();
        }
    }
}

/// One step: a change of the mappings, then a registration or a release.
#[derive(Clone, Debug)]
struct Step {
    change: u8,
    changed: usize,
    page: usize,
    skip: usize,
    bytes: usize,
    rights: u8,
    release: Option<usize>,
}

fn step() -> impl Strategy<Value = Step> {
    let skip = prop_oneof![3 => Just(0usize), 1 => 1..PAGE];
    let bytes = prop_oneof![1 => 1..PAGE, 3 => (1..9usize).prop_map(|n| n * PAGE)];
    // 6 and more change nothing: half of the steps.
    (0..12u8, 0..PAGES, 0..PAGES, skip, bytes, 0..6u8, prop::option::of(0..8usize)).prop_map(|(change, changed, page, skip, bytes, rights, release)| Step {
        change,
        changed,
        page,
        skip,
        bytes,
        rights,
        release,
    })
}

fn model(config: CacheConfig, steps: &[Step]) {
    let nic = nic(config);
    let ptag = nic.with(|e| e.create_ptag()).unwrap();
    let mut arena = Arena::new();
    let mut held: Vec<(MemHandle, Range<u64>, MemAttributes)> = Vec::new();
    for step in steps {
        arena.change(step.change, step.changed);
        if let Some(which) = step.release
            && !held.is_empty()
        {
            let (handle, span, attributes) = held.swap_remove(which % held.len());
            release(&nic, handle).unwrap();
            if held.iter().all(|(h, ..)| *h != handle) {
                let seen = nic.with(|e| e.query_memory(span.start, handle));
                assert!(seen.is_err() || seen.is_ok_and(|a| !a.rdma_write && !a.rdma_read), "peers reach what was released: {attributes:?}");
            }
        } else {
            // Most are local, for these share regions.
            let rights = MemAttributes { ptag: Some(ptag), rdma_write: step.rights == 1, rdma_read: step.rights <= 2 && step.rights > 0 };
            let span = arena.span(step.page, step.skip, step.bytes);
            match (register(&nic, &span, &rights), arena.expected(&span, &rights)) {
                (Ok(handle), Ok(is_writable)) => {
                    let (start, length) = nic.with(|e| e.region_range(handle)).unwrap();
                    assert!(start <= span.start && span.end <= start + length, "the region holds the bytes");
                    if rights.rdma_write || rights.rdma_read {
                        assert_eq!((start, length), (span.start, span.end - span.start), "peers reach no more than that");
                    }
                    assert_eq!(nic.with(|e| e.query_memory(span.start, handle)), Ok(rights));
                    assert_eq!(nic.with(|e| e.registry.is_writable(handle)), is_writable, "{step:?}");
                    held.push((handle, span, rights));
                }
                (Err(Error::Resource), _) if config.algorithm == CacheAlgorithm::PageHash => {
                    assert_eq!(info(&nic).unused, 0, "there was room: {:?}", info(&nic));
                }
                (got, expected) => assert_eq!(got.map(drop), expected.map(drop), "{step:?} of {:?}", arena.pages),
            }
        }
        let info = info(&nic);
        assert!(info.entries <= u64::from(config.entries) && info.bytes <= config.bytes, "{info:?}");
        for (handle, span, _) in &held {
            assert!(nic.with(|e| e.query_memory(span.start, *handle)).is_ok(), "a region in use stays");
        }
    }
    for (handle, ..) in held.drain(..) {
        release(&nic, handle).unwrap();
    }
    assert_eq!(nic.with(|e| e.regions()) as u64, info(&nic).unused);
    assert_eq!(nic.with(|e| e.destroy_ptag(ptag)), Ok(()), "what is kept does not keep its tag");
    assert_eq!((nic.with(|e| e.regions()), info(&nic).entries, info(&nic).bytes), (0, 0, 0));
}

/// The kernel watches what is mapped in a range, and says nothing of a hole in it. A page that is
/// mapped into the hole afterwards is not watched, although pages on both sides are.
#[test]
#[cfg_attr(miri, ignore = "real memory")]
fn a_page_mapped_into_a_hole_is_not_watched_by_itself() {
    let nothing = Step { change: 6, changed: 0, page: 0, skip: 0, bytes: PAGE, rights: 3, release: None };
    model(
        LIMIT,
        &[
            Step { page: 9, bytes: 7 * PAGE, ..nothing.clone() },
            // A hole, and then all of it is asked for: a part of it is watched.
            Step { change: 0, changed: 12, page: 9, bytes: 4 * PAGE, ..nothing.clone() },
            Step { change: 0, changed: 12, page: 12, ..nothing.clone() },
            // Read-only memory in its place.
            Step { change: 1, changed: 12, page: 12, ..nothing },
        ],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "real memory")]
    fn intervals_watched(steps in prop::collection::vec(step(), 1..80)) {
        model(LIMIT, &steps);
    }

    #[test]
    #[cfg_attr(miri, ignore = "real memory")]
    fn intervals_unwatched(steps in prop::collection::vec(step(), 1..80)) {
        model(CacheConfig { watch: false, ..LIMIT }, &steps);
    }

    #[test]
    #[cfg_attr(miri, ignore = "real memory")]
    fn page_hash_watched(steps in prop::collection::vec(step(), 1..80)) {
        model(CacheConfig { algorithm: CacheAlgorithm::PageHash, ..LIMIT }, &steps);
    }

    #[test]
    #[cfg_attr(miri, ignore = "real memory")]
    fn page_hash_unwatched(steps in prop::collection::vec(step(), 1..80)) {
        model(CacheConfig { algorithm: CacheAlgorithm::PageHash, watch: false, ..LIMIT }, &steps);
    }

    #[test]
    #[cfg_attr(miri, ignore = "real memory")]
    fn nothing_kept(steps in prop::collection::vec(step(), 1..40)) {
        model(CacheConfig { algorithm: CacheAlgorithm::Off, ..LIMIT }, &steps);
    }

    #[test]
    fn spans_are_a_set_of_addresses(changes in prop::collection::vec((any::<bool>(), 0..60u64, 1..20u64), 1..40), ask in (0..60u64, 1..20u64)) {
        let (mut spans, mut model) = (Spans::default(), [false; 80]);
        for (add, start, length) in changes {
            let span = start..start + length;
            if add { spans.add(&span) } else { spans.cut(&span) }
            model[span.start as usize..span.end as usize].fill(add);
            prop_assert_eq!(spans.bytes(), model.iter().filter(|m| **m).count() as u64);
        }
        let pieces = model.iter().zip([false].iter().chain(&model)).filter(|(now, before)| **now && !**before).count();
        prop_assert_eq!(spans.len(), pieces);
        let span = ask.0..ask.0 + ask.1;
        prop_assert_eq!(spans.covers(&span), model[span.start as usize..span.end as usize].iter().all(|m| *m));
    }
}

/// The report's counter-example: a second region inside the first.
#[test]
#[cfg_attr(miri, ignore = "real memory")]
fn a_region_inside_another_one_registers_once() {
    for (algorithm, hits) in [(CacheAlgorithm::Intervals, 1), (CacheAlgorithm::PageHash, 0)] {
        let (nic, arena) = (nic(CacheConfig { algorithm, ..CacheConfig::default() }), Arena::new());
        let local = MemAttributes::default();
        let first = register(&nic, &arena.span(0, 0, 8 * PAGE), &local).unwrap();
        let second = register(&nic, &arena.span(3, 100, 4 * PAGE), &local).unwrap();
        assert_eq!((first == second, info(&nic).hits), (hits == 1, hits));
        release(&nic, first).unwrap();
        assert!(nic.with(|e| e.query_memory(arena.span(3, 0, 1).start, second)).is_ok(), "the other user has it");
        release(&nic, second).unwrap();
        assert_eq!(release(&nic, second), Err(Error::InvalidParameter), "once too often");
    }
}

/// A region around others takes their place, and those that overlap stay side by side where they
/// are not watched.
#[test]
#[cfg_attr(miri, ignore = "real memory")]
fn a_larger_region_takes_the_place_of_those_inside() {
    let (nic, arena) = (nic(CacheConfig { watch: false, ..CacheConfig::default() }), Arena::new());
    let local = MemAttributes::default();
    for page in [2, 4, 6] {
        release(&nic, register(&nic, &arena.span(page, 0, PAGE), &local).unwrap()).unwrap();
    }
    assert_eq!(info(&nic).entries, 3);
    let around = register(&nic, &arena.span(1, 0, 8 * PAGE), &local).unwrap();
    assert_eq!((info(&nic).entries, nic.with(|e| e.regions())), (1, 1));
    let beside = register(&nic, &arena.span(5, 0, 8 * PAGE), &local).unwrap();
    assert_ne!(around, beside);
    assert_eq!(register(&nic, &arena.span(6, 0, 3 * PAGE), &local), Ok(beside), "either would do; the later one begins nearer");
    assert_eq!(info(&nic).entries, 2);
}

/// Watched regions that overlap become one, and what was given stays until it is released.
#[test]
#[cfg_attr(miri, ignore = "real memory")]
fn watched_regions_that_overlap_are_merged() {
    if bellwire_memory::unmap_watch::shared().is_none() {
        eprintln!("SKIPPED: no userfaultfd");
        return;
    }
    let (nic, mut arena) = (nic(CacheConfig::default()), Arena::new());
    let local = MemAttributes::default();
    let take = |span: &Range<u64>| register(&nic, span, &local).unwrap();
    let first = arena.span(2, 0, 4 * PAGE);
    let kept = take(&first);
    assert_eq!(take(&first), kept, "found again, so watched");
    let merged = take(&arena.span(4, 0, 6 * PAGE));
    assert_eq!(nic.with(|e| e.region_range(merged)), Ok((first.start, 8 * PAGE as u64)));
    assert_eq!((take(&arena.span(3, 0, 6 * PAGE)), info(&nic).entries), (merged, 1));
    assert!(nic.with(|e| e.query_memory(first.start, kept)).is_ok(), "it has users");
    for _ in 0..2 {
        release(&nic, kept).unwrap();
    }
    assert!(nic.with(|e| e.query_memory(first.start, kept)).is_err(), "the last one has gone");
    for _ in 0..2 {
        release(&nic, merged).unwrap();
    }
    arena.change(0, 8);
    assert_eq!(register(&nic, &arena.span(8, 0, PAGE), &local), Err(Error::InvalidParameter));
    assert_eq!((info(&nic).entries, info(&nic).unmapped), (0, 1));
}

/// The oldest unused region goes first; those in use stay.
#[test]
#[cfg_attr(miri, ignore = "real memory")]
fn the_least_recently_used_goes() {
    let (nic, arena) = (nic(CacheConfig { entries: 3, ..CacheConfig::default() }), Arena::new());
    let local = MemAttributes::default();
    let one = |page: usize| register(&nic, &arena.span(page, 0, PAGE), &local).unwrap();
    let kept = one(0);
    // For so long that 4 is unlikely to be used again soon.
    let hits = CONTESTED_TURNS * 3 + 1;
    for page in [2, 4].into_iter().chain((0..hits).map(|_| 2)).chain([6]) {
        release(&nic, one(page)).unwrap();
    }
    assert_eq!((info(&nic).evictions, info(&nic).hits, info(&nic).misses), (1, hits, 4));
    release(&nic, one(2)).unwrap();
    assert_eq!(one(0), kept);
    assert_eq!(info(&nic).hits, hits + 2, "4 has gone, 0 and 2 are there");
}

/// Of more regions than fit, used by turns, those that fit are found, less the places that
/// newcomers take; and when others are used instead, these get in.
#[test]
#[cfg_attr(miri, ignore = "real memory")]
fn more_than_fit_used_by_turns() {
    let (nic, arena) = (nic(CacheConfig { entries: 4, ..CacheConfig::default() }), Arena::new());
    let local = MemAttributes::default();
    let turns = |pages: Range<usize>, turns: u64| {
        let before = info(&nic);
        for page in (0..turns).flat_map(|_| pages.clone()) {
            release(&nic, register(&nic, &arena.span(page, 0, PAGE), &local).unwrap()).unwrap();
        }
        (info(&nic).hits - before.hits, info(&nic).evictions - before.evictions)
    };
    // Of the 8 registrations of a turn, 4 can be hits.
    let (hits, evictions) = turns(0..8, 100);
    let misses = 800 - hits;
    assert!((350..=400).contains(&hits), "{hits} of 800 are hits");
    assert_eq!(evictions, (misses - 4) / u64::from(CONTESTED_TAKES));
    assert_eq!(info(&nic).uncached, misses - 4 - evictions);
    // The old ones are soon not contested any more.
    let (hits, _) = turns(8..12, 100);
    assert!(hits >= 400 - 8 * u64::from(CONTESTED_TAKES), "{hits} of 400 are hits");
}

/// A region that the cache made ends through the cache; memory of the engine is not kept.
#[test]
#[cfg_attr(miri, ignore = "real memory")]
fn other_calls_leave_cached_regions_alone() {
    let (nic, arena) = (nic(CacheConfig::default()), Arena::new());
    let local = MemAttributes::default();
    let span = arena.span(0, 0, PAGE);
    let handle = register(&nic, &span, &local).unwrap();
    assert_eq!(nic.with(|e| e.deregister(span.start, handle)), Err(Error::InvalidParameter));
    assert_eq!(nic.with(|e| e.set_memory_attributes(span.start, handle, &local)), Err(Error::InvalidParameter));
    let base = nic.with(|e| e.allocate(PAGE)).unwrap();
    let own = base.expose_provenance() as u64;
    let owned = register(&nic, &(own..own + 64), &local).unwrap();
    assert_eq!(nic.with(|e| e.free(base)), Err(Error::Resource));
    release(&nic, owned).unwrap();
    assert_eq!(nic.with(|e| e.free(base)), Ok(()));
    assert_eq!(info(&nic).uncached, 1);
    let plain = nic.with(|e| e.create_ptag()).unwrap();
    assert_eq!(nic.with(|e| e.destroy_ptag(plain)), Ok(()));
}
