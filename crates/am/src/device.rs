// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC under bundles, and who accepts connections on it.
//!
//! Locks are taken in this order: bundle, acceptor, the NIC's token.

use crate::acceptor::Acceptor;
use crate::status::Error;
use bellwire_via::Nic;
use bellwire_via::nic::{NicConfig, OpenError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A NIC for bundles. It closes when the last bundle on it is gone.
#[derive(Debug)]
pub struct Device {
    pub(crate) nic: Nic,
    acceptor: Mutex<Acceptor>,
}

impl Device {
    /// Opens a NIC.
    ///
    /// # Errors
    /// Those of [`Nic::open`].
    pub fn open(config: NicConfig) -> Result<Arc<Self>, OpenError> {
        let nic = Nic::open(config)?;
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(|_| OpenError::Thread)?;
        // What breaks comes to the error handlers of endpoints.
        nic.ignore_errors();
        let acceptor = nic.with(|engine| Acceptor::new(engine, id)).map_err(|_| OpenError::HostAddress)?;
        Ok(Arc::new(Self { nic, acceptor: Mutex::new(acceptor) }))
    }

    pub(crate) fn acceptor(&self) -> MutexGuard<'_, Acceptor> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts what was asked for since. Returns how many requests have been seen to.
    #[cold]
    pub(crate) fn accept(&self) -> u64 {
        let mut acceptor = self.acceptor();
        self.nic.with(|engine| {
            if acceptor.is_asked(engine) {
                acceptor.accept(engine);
            }
        });
        acceptor.seen()
    }

    /// The engine's error as this layer's.
    pub(crate) fn create_inbox(&self) -> Result<bellwire_via::InboxHandle, Error> {
        Ok(self.nic.with(|engine| engine.create_inbox())?)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        self.nic.with(|engine| acceptor.close(engine));
    }
}
