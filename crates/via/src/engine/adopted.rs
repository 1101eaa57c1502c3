// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the program that peers reach as they reach the engine's: whole pages of it become a
//! second mapping of an allocation (`bellwire_memory::adopt`), for as long as a region lies there.

use super::Engine;
use crate::attributes::MemAttributes;
use crate::error::Error;
use crate::registration::MemHandle;
use crate::wire::Wire;
use bellwire_memory::adopt::{AdoptedPages, How};
use core::ops::Range;

impl<W: Wire> Engine<W> {
    /// As [`register`](Self::register); `pages`, the whole pages of the memory, are exchanged for
    /// pages of an allocation as `how` says, or have been for another region. If that cannot be,
    /// the memory is registered as it is.
    ///
    /// # Safety
    /// U0 ([`register`](Self::register)), and A1 for the pages.
    pub(crate) unsafe fn register_adopting(
        &mut self,
        (address, length): (u64, u64),
        attributes: &MemAttributes,
        pages: &Range<usize>,
        how: Option<How>,
    ) -> Result<MemHandle, Error> {
        let asked = pages.start as u64..pages.end as u64;
        if self.registry.adopted_around(address, &asked).is_none()
            && let Some(how) = how
            && let Ok(base) = self.allocate(pages.len())
        {
            let base = base.expose_provenance();
            // SAFETY: A1, the caller's; the allocation has as many bytes, since they are whole
            // pages, and is new.
            match unsafe { AdoptedPages::new(pages, base, how) } {
                Some(adopted) => self.registry.set_adopted(base as u64, adopted),
                None => _ = self.registry.free(&mut self.wire, base as u64),
            }
        }
        let Some(home) = self.registry.adopted_around(address, &asked) else {
            // SAFETY: the caller's.
            return unsafe { self.register(address, length, attributes) };
        };
        let kind = self.wire.probe_memory(address, length);
        let registered = self.registry.register_as(&mut self.wire, (address, length), attributes, kind, Some(home));
        if registered.is_err() {
            // Refused while other regions lie in it.
            let _ = self.registry.free(&mut self.wire, home.base);
        }
        registered
    }
}
