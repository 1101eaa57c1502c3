// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifiers that a program may give as a handle: endpoints that wait for requests, by the
//! addresses of their objects. What a program gives as one is looked up, not followed.

use crate::abi::Fid;
use bellwire_tag::Name;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

static WAITING: Mutex<BTreeMap<usize, Name>> = Mutex::new(BTreeMap::new());

fn waiting() -> MutexGuard<'static, BTreeMap<usize, Name>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An endpoint waits under this name from now on.
pub(crate) fn list(fid: *mut Fid, name: Name) {
    waiting().insert(fid.addr(), name);
}

/// It does not any more.
pub(crate) fn unlist(fid: *mut Fid) {
    waiting().remove(&fid.addr());
}

/// The name of an endpoint that waits for requests; `None`: it is none of ours.
pub(crate) fn name_of(fid: *mut Fid) -> Option<Name> {
    waiting().get(&fid.addr()).copied()
}
