// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ends of transfers: segments of this host and of others, maps, memory of the program.

use crate::error::Error;
use crate::map::Map;
use crate::memory::Memory;
use crate::remote::RemoteSegment;
use bellwire_memory::bytes::SharedBytes;
use std::sync::Arc;

/// Bytes copied between two looks at the time and at an abort.
pub(crate) const CHUNK: usize = 256 << 10;
/// The same between hosts.
pub(crate) const FAR_CHUNK: usize = 4 << 20;

/// An end of a transfer.
#[derive(Clone)]
pub(crate) enum Place {
    Segment(Arc<Memory>, usize),
    /// Memory of the program, which it keeps until the transfer has ended.
    Program(SharedBytes<'static>),
    Map(Arc<Map>, usize),
    /// A segment of another host.
    Far(Arc<RemoteSegment>, usize),
}

impl Place {
    /// The same from `offset` on.
    pub fn at(self, offset: usize) -> Result<Self, Error> {
        Ok(match self {
            Self::Segment(memory, from) => Self::Segment(memory, from.checked_add(offset).ok_or(Error::OutOfRange)?),
            Self::Program(bytes) => Self::Program(bytes.part(offset, bytes.len().checked_sub(offset).ok_or(Error::OutOfRange)?)?),
            Self::Map(map, from) => Self::Map(map, from.checked_add(offset).ok_or(Error::OutOfRange)?),
            Self::Far(segment, from) => Self::Far(segment, from.checked_add(offset).ok_or(Error::OutOfRange)?),
        })
    }

    /// A remote segment, from `offset` on.
    pub fn of(segment: &Arc<RemoteSegment>, offset: usize) -> Self {
        match segment.memory() {
            Some(memory) => Self::Segment(Arc::clone(memory), offset),
            None => Self::Far(Arc::clone(segment), offset),
        }
    }

    /// Whether its bytes are of another host.
    pub fn is_far(&self) -> bool {
        match self {
            Self::Segment(..) | Self::Program(_) => false,
            Self::Map(map, _) => map.is_far(),
            Self::Far(..) => true,
        }
    }

    /// Whether it has `len` bytes from `offset` on.
    pub fn check(&self, offset: usize, len: usize) -> Result<(), Error> {
        match self {
            Self::Far(segment, from) => {
                let end = from.checked_add(offset).and_then(|begin| begin.checked_add(len));
                if end.is_none_or(|end| end > segment.size()) { Err(Error::OutOfRange) } else { Ok(()) }
            }
            _ => self.part(offset, len).map(|_| ()),
        }
    }

    /// Moves `memory` to (or, if `read`, from) `offset` of it, which is of another host.
    pub fn transfer(&self, memory: SharedBytes<'_>, offset: usize, read: bool) -> Result<(), Error> {
        match self {
            Self::Far(segment, from) => segment.transfer(memory, from.checked_add(offset).ok_or(Error::OutOfRange)?, read),
            Self::Map(map, from) => map.copy(memory, from.checked_add(offset).ok_or(Error::OutOfRange)?, read),
            Self::Segment(..) | Self::Program(_) => Err(Error::System),
        }
    }

    pub fn part(&self, offset: usize, len: usize) -> Result<SharedBytes<'_>, Error> {
        match self {
            Self::Segment(memory, from) => memory.part(from.checked_add(offset).ok_or(Error::OutOfRange)?, len),
            Self::Program(bytes) => Ok(bytes.part(offset, len)?),
            Self::Map(map, from) => map.part(from.checked_add(offset).ok_or(Error::OutOfRange)?, len),
            Self::Far(..) => Err(Error::System),
        }
    }
}

/// A contiguous part of a transfer.
#[derive(Clone)]
pub(crate) struct Piece {
    pub from: Place,
    pub to: Place,
    pub len: usize,
    pub remote: Option<Arc<RemoteSegment>>,
}

impl Piece {
    pub fn check(self) -> Result<Self, Error> {
        self.from.check(0, self.len)?;
        self.to.check(0, self.len)?;
        Ok(self)
    }

    /// Bytes to copy at a time: a part between hosts ends with a round trip.
    pub fn chunk(&self) -> usize {
        if self.from.is_far() || self.to.is_far() { FAR_CHUNK } else { CHUNK }
    }

    /// The segment of another host that it writes, its bytes, and their offset there; if it does.
    pub fn to_far(&self) -> Option<(&Arc<RemoteSegment>, SharedBytes<'_>, usize)> {
        match &self.to {
            Place::Far(segment, offset) if !self.from.is_far() && segment.sends_as_is() => Some((segment, self.from.part(0, self.len).ok()?, *offset)),
            _ => None,
        }
    }

    pub fn copy(&self, offset: usize, len: usize) -> Result<(), Error> {
        if self.remote.as_ref().is_some_and(|r| r.check().is_err()) {
            return Err(Error::TransferFailed);
        }
        match (self.from.is_far(), self.to.is_far()) {
            (false, false) => Ok(self.to.part(offset, len)?.copy_from(0, self.from.part(offset, len)?)?),
            (false, true) => self.to.transfer(self.from.part(offset, len)?, offset, false),
            (true, false) => {
                let to = self.to.part(offset, len)?;
                if to.is_writable() { self.from.transfer(to, offset, true) } else { Err(Error::Access) }
            }
            (true, true) => {
                let mut bytes = vec![0; len];
                // SAFETY: B1: the vector, which nobody else has, until both transfers have ended.
                let bytes = unsafe { SharedBytes::new(bytes.as_mut_ptr(), len) };
                self.from.transfer(bytes, offset, true)?;
                self.to.transfer(bytes, offset, false)
            }
        }
    }
}
