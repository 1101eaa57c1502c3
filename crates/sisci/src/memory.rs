// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a segment, in its owner and in those that are connected to it: a descriptor to map
//! parts of, and one mapping of all of it for copies.

use crate::error::Error;
use bellwire_memory::adopted::Adopted;
use bellwire_memory::bytes::SharedBytes;
use bellwire_memory::region::{Access, Region, RegionKind, RemoteRegion};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

enum Mapped {
    Own(Region),
    Other(RemoteRegion),
}

/// All of a segment's memory.
pub(crate) struct Memory {
    memfd: OwnedFd,
    mapped: Mapped,
    /// The program's own pages, if it has registered them.
    _adopted: Option<Adopted>,
    size: usize,
}

impl Memory {
    /// New memory, all zero.
    pub fn create(size: usize) -> Result<Self, Error> {
        let region = Region::create("bellwire-sisci", size, RegionKind::Shared)?;
        let memfd = region.fd().try_clone_to_owned().map_err(|_| Error::NoSpace)?;
        Ok(Self { memfd, mapped: Mapped::Own(region), _adopted: None, size })
    }

    /// What an owner has sent: checked, and mapped.
    pub fn of_peer(memfd: OwnedFd, size: u64) -> Result<Self, Error> {
        let size = usize::try_from(size).map_err(|_| Error::InconsistentVersions)?;
        let kept = memfd.try_clone().map_err(|_| Error::NoSpace)?;
        let region = RemoteRegion::map(memfd, size.max(1), usize::MAX >> 1, Access::ReadWrite)?;
        Ok(Self { memfd: kept, mapped: Mapped::Other(region), _adopted: None, size })
    }

    /// The program's pages.
    pub fn of_program(adopted: Adopted) -> Result<Self, Error> {
        let size = adopted.len();
        let clone = || adopted.fd().try_clone_to_owned().map_err(|_| Error::NoSpace);
        let region = RemoteRegion::map(clone()?, size, size, Access::ReadWrite)?;
        Ok(Self { memfd: clone()?, mapped: Mapped::Other(region), _adopted: Some(adopted), size })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// `len` bytes of it from `offset` on.
    pub fn part(&self, offset: usize, len: usize) -> Result<SharedBytes<'_>, Error> {
        // The mapping is of whole pages; the segment may end before.
        if offset.checked_add(len).is_none_or(|end| end > self.size) {
            return Err(Error::OutOfRange);
        }
        let all = match &self.mapped {
            Mapped::Own(region) => region.bytes(),
            Mapped::Other(region) => region.bytes(),
        };
        Ok(all.part(offset, len)?)
    }
}
