// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all threads know of a device: the NIC, and where its endpoints are.

use crate::mapping::Mapping;
use crate::name::{Ask, Name};
use crate::vipl::{Handle, Nic};
use bellwire_am::Error;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A bundle, for those who ask its endpoints for connections.
pub(crate) trait Asked: Send + Sync {
    /// Accepts a request, if the endpoint is there and wants it. `false`: it is to be refused.
    fn asked(&self, ask: &Ask, request: Handle) -> bool;
}

/// What all threads know of a device.
pub(crate) struct Shared {
    pub nic: Nic,
    pub mapping: Mapping,
    pub credits: u16,
    id: [u8; 16],
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// Where endpoints are, by number.
    endpoints: BTreeMap<u32, Weak<dyn Asked>>,
    numbers: u32,
}

impl Shared {
    pub(crate) fn new(nic: Nic, mapping: Mapping, credits: u16, id: [u8; 16]) -> Arc<Self> {
        Arc::new(Self { nic, mapping, credits, id, list: Mutex::new(List::default()) })
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that nothing of this device has had: for endpoints and MAP objects.
    pub(crate) fn number(&self) -> Result<u32, Error> {
        let mut list = self.list();
        list.numbers = list.numbers.checked_add(1).ok_or(Error::Resource)?;
        Ok(list.numbers)
    }

    /// The name of endpoint `number`; of number 0 of the device itself.
    pub(crate) fn name(&self, number: u32) -> Name {
        Name::new(self.mapping, self.nic.host(), &self.id, number)
    }

    /// Endpoint `number` is in this bundle from now on.
    pub(crate) fn enlist(&self, number: u32, bundle: &Arc<impl Asked + 'static>) {
        let weak = Arc::downgrade(bundle);
        self.list().endpoints.insert(number, weak);
    }

    /// It is no more.
    pub(crate) fn unlist(&self, number: u32) {
        self.list().endpoints.remove(&number);
    }

    /// The bundle of an endpoint.
    pub(crate) fn bundle_of(&self, number: u32) -> Option<Arc<dyn Asked>> {
        self.list().endpoints.get(&number)?.upgrade()
    }
}
