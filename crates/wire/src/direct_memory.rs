// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shortcuts between two NICs that can share memory.

use crate::link_id::LinkId;
use crate::terms::{Advertisement, Attach, CatalogueEntry, Direct, MapAccess, Placement, RemoteAccess};

/// Direct access to a peer's memory. Each call is a shortcut: where it answers [`Direct::No`], the
/// engine sends frames, and the owner of the memory decides. A wire without shared memory keeps all
/// answers given here.
///
/// # Safety
/// That of [`Wire`](crate::Wire), W2.
pub unsafe trait DirectMemory {
    /// Runs `access` on the part of the peer's region that is asked for, if it is mapped here and
    /// the peer's catalogue permits all of the request.
    fn with_granted<F: FnOnce(*mut u8)>(&mut self, _link: LinkId, _wish: &RemoteAccess, _access: F) -> Direct {
        Direct::No
    }
    /// Runs `access` on a part of the descriptor that the peer advertised, if it is long enough for
    /// the whole message.
    fn with_advertised<F: FnOnce(*mut u8)>(&mut self, _link: LinkId, _placement: &Placement, _access: F) -> Direct {
        Direct::No
    }
    /// How this NIC may use cross-memory attach on a link: [`Attach::Never`] unless both sides have
    /// shown that they can read each other.
    fn attach(&self, _link: LinkId) -> Attach {
        Attach::Never
    }
    /// Cross-memory attach has failed on a link: no more of it.
    fn attach_failed(&mut self, _link: LinkId) {}
    /// Copies `length` bytes at `address` in the peer's process to `to`. `false`: it could not be
    /// done; a part may have been copied.
    ///
    /// # Safety
    /// `to` may be written for `length` bytes.
    unsafe fn pull(&mut self, _link: LinkId, _address: u64, _to: *mut u8, _length: usize) -> bool {
        false
    }
    /// Runs `access` with a function that copies bytes of the peer's region (offset in the request,
    /// destination, length), if the peer's catalogue permits all of the request for reading and the
    /// region lies in memory that cannot be mapped. [`Direct::No`]: not possible, not permitted, or
    /// `access` returned `false`.
    ///
    /// # Safety
    /// Each destination that `access` names may be written for the length that it names.
    unsafe fn pull_granted(
        &mut self,
        _link: LinkId,
        _wish: &RemoteAccess,
        _access: impl FnOnce(&mut dyn FnMut(u64, *mut u8, usize) -> bool) -> bool,
    ) -> Direct {
        Direct::No
    }
    /// Makes a posted receive descriptor known to the peer.
    fn advertise(&mut self, _link: LinkId, _connection: u32, _message: u32, _advertisement: &Advertisement) {}
    /// Takes it back. The peer may be inside: see [`quiesce`](Self::quiesce).
    fn withdraw(&mut self, _link: LinkId, _connection: u32, _message: u32) {}
    /// Returns when no access by this peer that began before is still under way (or the peer is
    /// gone, or a bound has passed).
    fn quiesce(&mut self, _link: LinkId) {}

    /// Tells peers about a region of an allocation (`slot` is the handle's index), or takes it
    /// back.
    fn publish(&mut self, _slot: usize, _entry: Option<&CatalogueEntry>) {}
    /// Answers a [`WireEvent::MapRequest`](crate::WireEvent::MapRequest); `None`: no.
    fn grant(&mut self, _link: LinkId, _segment: u32, _access: Option<MapAccess>) {}
    /// How many peers map an allocation of ours.
    fn peers_mapping(&self, _segment: u32) -> u32 {
        0
    }
}
