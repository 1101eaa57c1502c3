// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making, binding and ending memory windows.

use crate::core::Core;
use crate::memory::Denied;
use crate::types::{Access, Error, QpKind, WcStatus};
use crate::windows::{Beneath, Bind, Bound, WindowKind, index_of, is_window_key};

impl Core {
    /// Makes a window, bound to nothing; its key.
    pub(crate) fn create_window(&mut self, domain: u32, kind: WindowKind) -> Result<u32, Error> {
        self.domains.hold(domain)?;
        self.windows.insert(kind, domain).ok_or_else(|| {
            self.domains.release(domain);
            Error::NoMemory
        })
    }

    /// Ends a window, whatever it is bound to.
    pub(crate) fn destroy_window(&mut self, key: u32) -> Result<(), Error> {
        let window = self.windows.remove(key).ok_or(Error::Invalid)?;
        self.domains.release(window.domain);
        Ok(())
    }

    /// Where memory lies that a peer names by a window's key.
    #[cold]
    pub(crate) fn beneath(&self, qp: u32, domain: u32, key: u32, address: u64, length: u64, access: Access) -> Option<Beneath> {
        self.windows.find(qp, domain, key, address, length, access)
    }

    /// Binds a window, as the request of queue pair `qp` asks.
    pub(crate) fn bind(&mut self, qp: u32, b: &Bind) -> Result<(), WcStatus> {
        let init = self.qp(qp).ok_or(WcStatus::WindowBind)?.init;
        // By its place: programs need not know the key of the binding before.
        let window = self.windows.slot(b.window).and_then(|w| w.as_ref()).filter(|w| w.domain == init.domain).ok_or(WcStatus::WindowBind)?;
        let same_window = is_window_key(b.key) && index_of(b.key) == index_of(b.window);
        let may = match window.kind {
            WindowKind::Domain => true,
            // A bound one is invalidated first; an unreliable queue pair has none.
            WindowKind::QueuePair => window.bound.is_none() && b.length != 0 && init.kind == QpKind::Rc,
        };
        if !same_window || !may {
            return Err(WcStatus::WindowBind);
        }
        let bound = if b.length == 0 { None } else { Some(self.bound(qp, init.domain, b).map_err(|Denied| WcStatus::WindowBind)?) };
        if let Some(Some(window)) = self.windows.slot(b.window) {
            (window.key, window.bound) = (b.key, bound);
        }
        Ok(())
    }

    fn bound(&self, qp: u32, domain: u32, b: &Bind) -> Result<Bound, Denied> {
        let region = self.regions.get(b.region).filter(|r| r.domain == domain && r.access.contains(Access::WINDOW_BIND)).ok_or(Denied)?;
        let changes = b.access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        let offset = b.address.checked_sub(region.iova).ok_or(Denied)?;
        let fits = offset.checked_add(b.length).is_some_and(|end| end <= region.length);
        if !fits || (changes && !region.access.contains(Access::LOCAL_WRITE)) {
            return Err(Denied);
        }
        let first = if b.zero_based { 0 } else { b.address };
        Ok(Bound { region: b.region, address: b.address, first, length: b.length, access: b.access, qp })
    }

    /// Makes a key of this side invalid, for a request of queue pair `qp` or of its peer.
    pub(crate) fn invalidate(&mut self, qp: u32, key: u32) -> bool {
        let Some(domain) = self.qp(qp).map(|q| q.init.domain) else { return false };
        self.windows.invalidate(qp, domain, key)
    }
}
