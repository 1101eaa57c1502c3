// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends and receives as their calls give them.

use crate::abi::{Outcome, error};
use crate::flags;
use crate::limits::PREFIX_BYTES;
use bellwire_tag::{Gather, ReceiveFlags, Want};
use core::ffi::c_void;

/// Whether an operation's success is not to be told.
#[inline]
pub(crate) fn is_silent(selective: bool, flags: u64) -> bool {
    selective && flags & flags::COMPLETION == 0
}

/// A send as its call gives it.
#[derive(Clone, Copy)]
pub(crate) struct Sending {
    pub to: u64,
    pub from: Gather,
    pub tag: Option<u64>,
    pub data: Option<u64>,
    pub context: *mut c_void,
    /// Operation flags; `None`: injected by a call of that name.
    pub flags: Option<u64>,
}

pub(crate) fn behind_prefix(of: &Gather) -> Outcome<Gather> {
    of.without_first(PREFIX_BYTES).ok_or(error::EINVAL)
}

impl Receiving {
    /// As it is to be done for a buffer with a prefix. A look has no buffer.
    pub(crate) fn behind_prefix(&self) -> Outcome<Self> {
        let looks = self.flags & flags::PEEK != 0 || self.flags & flags::DISCARD != 0;
        Ok(Self { to: if looks { self.to } else { behind_prefix(&self.to)? }, ..*self })
    }
}

/// A receive as its call gives it.
#[derive(Clone, Copy)]
pub(crate) struct Receiving {
    pub from: u64,
    pub to: Gather,
    pub tag: Option<(u64, u64)>,
    pub context: *mut c_void,
    pub flags: u64,
}

const RECEIVE_FLAGS: u64 = flags::COMPLETION | flags::MORE | flags::MULTI_RECV | flags::RECV;
pub(crate) const LOOK_FLAGS: u64 = flags::PEEK | flags::CLAIM | flags::DISCARD;

/// What a receive wants; without `FI_DIRECTED_RECV` it does not matter what the source is said to
/// be.
#[inline]
pub(crate) fn want(r: &Receiving, is_selective: bool, is_directed: bool) -> Outcome<Want> {
    if r.flags & !(RECEIVE_FLAGS | if r.tag.is_some() { LOOK_FLAGS } else { 0 }) != 0 {
        return Err(error::BAD_FLAGS);
    }
    let mut how = ReceiveFlags::empty();
    how.set(ReceiveFlags::SILENT, is_silent(is_selective, r.flags));
    if r.flags & flags::MULTI_RECV != 0 && r.tag.is_none() {
        how |= ReceiveFlags::MULTI;
    }
    let source = (r.from != flags::ADDR_NONE && is_directed).then_some(r.from);
    let (tag, ignore) = r.tag.unwrap_or((0, 0));
    Ok(Want { tagged: r.tag.is_some(), source, tag, ignore, to: r.to, context: r.context.expose_provenance(), flags: how })
}
