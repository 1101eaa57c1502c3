// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registering memory of the program, so that peers on this host reach it as they reach memory of
//! the engine: with one copy, and without the program's help.

use super::Nic;
use crate::attributes::MemAttributes;
use crate::error::Error;
use crate::registration::MemHandle;
use bellwire_memory::adopt::{Adoption, may_adopt_in_room, pages_of};
use core::ops::Range;

/// Bytes of whole pages that are exchanged. Of fewer the exchange costs more than copies of them,
/// and a descriptor; more would stand still, and take twice their memory, for too long.
const ADOPTED_BYTES: core::ops::RangeInclusive<usize> = 32 << 10..=256 << 20;

impl Nic {
    /// Registers `length` bytes at `address`: any memory of the process. Whole private pages of it
    /// are exchanged for pages that peers map, if it has a protection tag and 32 KiB to 256 MiB of
    /// them, and [`NicConfig::adoption`](super::NicConfig::adoption) permits it. A request is then
    /// one copy if it lies within these pages. They stay shared when the registration has ended;
    /// the child of a fork gets copies.
    ///
    /// # Errors
    /// As [`Engine::register`](crate::Engine::register).
    ///
    /// # Safety
    /// U0 ([`Engine::register`](crate::Engine::register)). The pages may be replaced, at the same
    /// address and with the same content, by others that are shared (A1 in
    /// `bellwire_memory::adopt`): nothing in the process relies on their being private.
    pub unsafe fn register(&self, address: u64, length: u64, attributes: &MemAttributes) -> Result<MemHandle, Error> {
        let pages = self.adoptable(address, length, attributes);
        // Before the NIC is entered: it looks into `/proc`.
        let how = pages.as_ref().and_then(|pages| may_adopt_in_room(pages, self.adoption));
        self.with(|engine| match &pages {
            // SAFETY: U0, the caller's; A1: the caller's, and looked up just before.
            Some(pages) => unsafe { engine.register_adopting((address, length), attributes, pages, how) },
            // SAFETY: U0, the caller's.
            None => unsafe { engine.register(address, length, attributes) },
        })
    }

    /// The pages that are worth being exchanged.
    fn adoptable(&self, address: u64, length: u64, attributes: &MemAttributes) -> Option<Range<usize>> {
        if self.adoption == Adoption::Never || attributes.ptag.is_none() {
            return None;
        }
        let pages = pages_of(address, length).filter(|pages| ADOPTED_BYTES.contains(&pages.len()))?;
        // Memory of the engine is mapped by peers as it is.
        (!self.with(|engine| engine.is_allocated(address, 1))).then_some(pages)
    }
}
