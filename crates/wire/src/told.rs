// SPDX-License-Identifier: MIT OR Apache-2.0
//! NICs that share memory tell each other of it, on the wires that have memory to share: the
//! regions that a peer may reach (its *catalogue*), and receive descriptors (*advertisements*).
//! Both are tables of words that the other side writes. An entry is copied, and then checked here.

use crate::{Advertisement, CatalogueEntry, Direct, NO_SEGMENT, Placement, RemoteAccess};
use bellwire_memory::atomic::AtomicU32;
use bellwire_memory::direct_epoch::{self, WorkerBarrier};
use bellwire_memory::tagged_table::{TableReader, Words};

/// Advertisements, direct-mapped.
pub(crate) const ADVERTS: usize = 1024;
/// Words of an advertisement: tag, segment and length, offset, unused.
pub(crate) const ADVERT_WORDS: usize = 4;
/// Words of a region in a catalogue: tag, protection tag and rights, address, length, segment,
/// offset, two unused.
pub(crate) const CATALOGUE_WORDS: usize = 8;

const _: () = assert!(ADVERTS.is_power_of_two());

/// The tag of a region: the first of its words.
pub(crate) fn region_tag(e: &CatalogueEntry) -> u64 {
    u64::from(e.handle) | u64::from(e.version) << 32
}

/// The words of a region.
pub(crate) fn region_words(e: &CatalogueEntry) -> [u64; CATALOGUE_WORDS] {
    let rights = u64::from(e.ptag) | u64::from(e.write) << 32 | u64::from(e.read) << 33;
    [region_tag(e), rights, e.address, e.length, u64::from(e.segment), e.segment_offset, 0, 0]
}

/// An entry of the peer's catalogue, copied; a wish that it permits lies within `address` and
/// `length`. All of it is the peer's claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permit {
    pub index: usize,
    pub tag: u64,
    pub address: u64,
    pub length: u64,
    /// The allocation that the region is in, [`NO_SEGMENT`] for memory that cannot be mapped, and
    /// where in it.
    pub segment: u32,
    pub offset: u64,
}

impl Permit {
    /// What a catalogue says of the region that a wish is about, if it permits it.
    pub fn of<W: Words>(catalogue: &TableReader<W, CATALOGUE_WORDS>, wish: &RemoteAccess) -> Option<Self> {
        let index = (wish.handle & 0xf_ffff) as usize;
        let [tag, rights, address, length, place, offset, _, _] = catalogue.get(index, u64::from(wish.handle), u64::from(u32::MAX))?;
        let right = if wish.write { 1 << 32 } else { 1 << 33 };
        let start = wish.address.wrapping_sub(address);
        let permitted = rights as u32 == wish.ptag && rights & right != 0 && start <= length && wish.length <= length - start;
        permitted.then_some(Self { index, tag, address, length, segment: place as u32, offset })
    }

    /// Whether the region can be mapped.
    pub fn is_mappable(&self) -> bool {
        self.segment != NO_SEGMENT
    }
}

/// What the peer's catalogue said about a region, copied and checked: while the entry's tag is the
/// same, so is the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    handle: u32,
    ptag: u32,
    write: bool,
    pub segment: u32,
    pub index: usize,
    pub tag: u64,
    start: u64,
    length: u64,
    /// Where `start` is mapped here.
    base: *mut u8,
}

impl Grant {
    pub const NONE: Self = Self { handle: 0, ptag: 0, write: false, segment: 0, index: 0, tag: 0, start: 0, length: 0, base: core::ptr::null_mut() };

    /// Of a permit whose region is mapped whole, from `base` on: not only the part asked for, since
    /// later wishes are compared with the region alone. `None`: it does not cover the wish.
    pub fn new(wish: &RemoteAccess, p: &Permit, base: *mut u8) -> Option<Self> {
        let Permit { index, tag, address, length, segment, .. } = *p;
        let grant = Self { handle: wish.handle, ptag: wish.ptag, write: wish.write, segment, index, tag, start: address, length, base };
        grant.covers(wish).then_some(grant)
    }

    #[inline(always)]
    pub fn covers(&self, wish: &RemoteAccess) -> bool {
        let offset = wish.address.wrapping_sub(self.start);
        let same = self.handle == wish.handle && self.ptag == wish.ptag && self.write == wish.write && !self.base.is_null();
        same && offset <= self.length
            && wish.length <= self.length - offset
            && wish.part_offset <= wish.length
            && wish.part_length <= wish.length - wish.part_offset
    }

    /// Where the part of a wish that it covers is mapped.
    #[inline(always)]
    pub fn place(&self, wish: &RemoteAccess) -> *mut u8 {
        // Wrapping: within the mapping, as new() says for all of the region.
        self.base.wrapping_add((wish.address.wrapping_sub(self.start) + wish.part_offset) as usize)
    }
}

/// Where the advertisement for (`connection`, `message`) is.
#[inline]
pub(crate) fn advert_index(connection: u32, message: u32) -> usize {
    // Neighbouring messages of a connection in neighbouring entries; connections spread by a
    // multiplicative hash.
    (connection.wrapping_mul(0x9e37_79b1).rotate_left(10).wrapping_add(message) as usize) & (ADVERTS - 1)
}

/// The tag of an advertisement: never 0, since no connection id is; never used again, since neither
/// the id nor the message is.
#[inline]
pub(crate) fn advert_tag(connection: u32, message: u32) -> u64 {
    u64::from(connection) << 32 | u64::from(message)
}

/// The words of an advertisement.
#[inline]
pub(crate) fn advert_words(connection: u32, message: u32, a: &Advertisement) -> [u64; ADVERT_WORDS] {
    [advert_tag(connection, message), u64::from(a.segment) | u64::from(a.length) << 32, a.offset, 0]
}

/// Where a placement's bytes are to be, by the peer's advertisement, which has this index and tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub index: usize,
    pub tag: u64,
    /// The allocation, and where in it.
    pub segment: u32,
    pub at: u64,
}

impl Target {
    /// `None`: there is no advertisement, or it is not long enough for the whole message.
    #[inline]
    pub fn of<W: Words>(adverts: &TableReader<W, ADVERT_WORDS>, p: &Placement) -> Option<Self> {
        let (index, tag) = (advert_index(p.connection, p.message), advert_tag(p.connection, p.message));
        let [_, place, base, _] = adverts.get(index, tag, u64::MAX)?;
        if p.total > (place >> 32) as u32 {
            return None;
        }
        Some(Self { index, tag, segment: place as u32, at: base.checked_add(u64::from(p.offset))? })
    }
}

/// Runs `access` with the epoch odd, if the permission still holds then (E1 of direct_epoch.rs).
#[inline]
pub(crate) fn inside(epoch: &AtomicU32, barriers: bool, permitted: impl FnOnce() -> bool, access: impl FnOnce()) -> Direct {
    direct_epoch::enter(epoch, if barriers { WorkerBarrier::Light } else { WorkerBarrier::Full });
    let still = permitted();
    if still {
        access();
    }
    direct_epoch::leave(epoch);
    if still { Direct::Done } else { Direct::No }
}
