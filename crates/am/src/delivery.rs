// SPDX-License-Identifier: MIT OR Apache-2.0
//! A message that a handler is to get.

use crate::connection::ConnectionId;
use crate::header::{Head, Kind};
use crate::name::{EndpointId, Name};
use crate::payload::Place;

/// A message for a handler, which has been taken out of its slot. It stays in one place, a box of
/// the bundle's, until the handler has run.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub connection: ConnectionId,
    pub endpoint: EndpointId,
    pub source: Name,
    pub tag: u64,
    pub head: Head,
    /// None: a short message in a line, which is all in `head`.
    pub place: Option<Place>,
    /// Where in `place` the payload begins.
    pub start: usize,
    pub has_replied: bool,
}

impl Delivery {
    /// Bytes of payload.
    #[inline]
    pub(crate) fn payload_len(&self) -> usize {
        self.place.as_ref().map_or(0, |place| place.len() - self.start)
    }

    #[inline]
    pub(crate) fn is_request(&self) -> bool {
        matches!(self.head.kind, Kind::Short | Kind::Medium | Kind::Xfer)
    }
}
