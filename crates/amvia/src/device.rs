// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC under bundles, and the thread that waits for connections on it.
//!
//! Locks are taken in this order: a bundle's core, the list of endpoints, the NIC's own.

use crate::accept::accept;
use crate::mapping::Mapping;
use crate::shared::Shared;
use crate::vipl::Nic;
use bellwire_am::Error;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A NIC for bundles. It closes when the last bundle on it is gone.
pub struct Device {
    pub(crate) shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Device {
    /// Loads libvipl, which may be beside the file `beside`, and opens a NIC.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    pub fn open(mapping: Mapping, credits: u16, beside: Option<&Path>) -> Result<Arc<Self>, String> {
        Self::on(Nic::open(beside)?, mapping, credits)
    }

    /// A device on an open NIC, whichever library it is of: for a simulated NIC.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    pub fn on(nic: Nic, mapping: Mapping, credits: u16) -> Result<Arc<Self>, String> {
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(|e| format!("no random number for the device's name: {e}"))?;
        let shared = Shared::new(nic, mapping, credits, id);
        let waiter = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("bellwire-am-accept".into()).stack_size(1 << 17).spawn(move || accept(&waiter));
        match thread {
            Ok(thread) => Ok(Arc::new(Self { shared, acceptor: Some(thread) })),
            Err(e) => {
                shared.nic.close();
                Err(format!("no thread to wait for connections: {e}"))
            }
        }
    }

    /// Which mapping it is for.
    pub fn mapping(&self) -> Mapping {
        self.shared.mapping
    }

    /// Zeroed memory that peers can reach directly when it is a segment.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: no bytes; [`Error::Resource`].
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Region, Error> {
        if bytes == 0 {
            return Err(Error::BadArgument);
        }
        let base = self.shared.nic.allocate(bytes).map_err(|_| Error::Resource)?;
        Ok(Region { device: Arc::clone(self), base })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The thread's wait ends with the NIC.
        self.shared.nic.close();
        if let Some(thread) = self.acceptor.take() {
            let _ = thread.join();
        }
    }
}

/// Memory of the library's, which goes with this.
pub struct Region {
    device: Arc<Device>,
    base: *mut u8,
}

// SAFETY: the memory belongs to the process; it is only named here.
unsafe impl Send for Region {}

impl Region {
    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = self.device.shared.nic.free(self.base);
    }
}
