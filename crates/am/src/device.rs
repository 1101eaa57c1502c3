// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC under bundles, and the acceptor of connections on it.
//!
//! Locks are taken in this order: bundle, acceptor, the NIC's token.

use crate::acceptor::Acceptor;
use crate::status::Error;
use bellwire_via::CacheInfo;
use bellwire_via::Nic;
use bellwire_via::nic::NicConfig;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why a device could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The NIC could not.
    Nic(bellwire_via::nic::OpenError),
    /// The operating system gives no random number to name it by.
    Random,
    /// The NIC has no room for what waits for connections.
    Resource,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Nic(e) => e.fmt(f),
            Self::Random => f.write_str("no random number for the device's name"),
            Self::Resource => f.write_str("no room to wait for connections"),
        }
    }
}

impl std::error::Error for OpenError {}

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
    /// See [`OpenError`].
    pub fn open(config: NicConfig) -> Result<Arc<Self>, OpenError> {
        let nic = Nic::open(config).map_err(OpenError::Nic)?;
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(|_| OpenError::Random)?;
        // The error handlers of endpoints hear of connections that break.
        nic.ignore_errors();
        let acceptor = nic.with(|engine| Acceptor::new(engine, id)).map_err(|_| OpenError::Resource)?;
        Ok(Arc::new(Self { nic, acceptor: Mutex::new(acceptor) }))
    }

    /// What the NIC's registration cache has done, which bulk messages between hosts use.
    pub fn registration_cache(&self) -> CacheInfo {
        self.nic.with(|engine| engine.registration_cache())
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
