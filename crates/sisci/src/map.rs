// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps of segments, sequences on them, and copies through them.
//!
//! Within a host a store through a map is a store into the owner's memory: visible at once, in
//! program order. A sequence therefore fails only if the owner is gone. A map of another host's
//! segment is a shadow, whose stores leave by themselves, or with the check of a sequence, a
//! barrier or a flush.

use crate::auto_flush::{Stores, keep_fresh};
use crate::error::Error;
use crate::flag_map::FlagMap;
use crate::handles::Object;
use crate::library::{Descriptor, Library};
use crate::local::LocalSegment;
use crate::remote::RemoteSegment;
use crate::shadow::Shadow;
use bellwire_memory::atomic::{Ordering, fence};
use bellwire_memory::bytes::SharedBytes;
use bellwire_memory::region::Access;
use bellwire_memory::view::{At, View};
use std::sync::Arc;

/// Offsets of maps are multiples of this.
pub const OFFSET_ALIGNMENT: usize = 8;

/// The segment that a map shows.
pub(crate) enum Shown {
    Local(Arc<LocalSegment>),
    Remote(Arc<RemoteSegment>),
    Far(Arc<Shadow>),
    Flags(Arc<FlagMap>),
}

/// A part of a segment in the program's memory.
pub struct Map {
    descriptor: Arc<Descriptor>,
    view: Arc<View>,
    shown: Shown,
}

/// How a sequence stands. The numbers are those of `sisci_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SequenceStatus {
    /// All stores have arrived.
    Ok = 0,
    /// Some may not have; repeat them.
    Retriable = 1,
    /// The connection is broken.
    NotRetriable = 2,
    /// The way to the node is out of order for now.
    Pending = 3,
}

/// Stores through a map between a start and a check.
pub struct Sequence {
    descriptor: Arc<Descriptor>,
    map: Arc<Map>,
}

impl Object for Map {
    const KIND: u8 = 4;
}

impl Map {
    /// Maps a part of a local segment.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::OffsetAlignment`]; [`Error::IllegalAddress`] if something is
    /// mapped at the address asked for; [`Error::IllegalOperation`] for an empty segment.
    pub fn of_local(library: &'static Library, segment: u64, offset: usize, size: usize, access: Access, at: At) -> Result<(u64, *mut u8), Error> {
        let segment = library.get::<LocalSegment>(segment)?;
        let memory = segment.memory()?;
        check(offset, size, segment.size())?;
        let view = Arc::new(View::map(memory.fd(), offset, size, access, at)?);
        segment.map_made()?;
        let descriptor = Arc::clone(&segment.descriptor);
        Self::insert(library, Self { descriptor, view, shown: Shown::Local(segment) })
    }

    /// Maps a part of a remote segment.
    ///
    /// # Errors
    /// As [`of_local`](Self::of_local), and [`Error::NotConnected`] or
    /// [`Error::NodeNotResponding`] if the connection has ended.
    pub fn of_remote(library: &'static Library, segment: u64, offset: usize, size: usize, access: Access, at: At) -> Result<(u64, *mut u8), Error> {
        let segment = library.get::<RemoteSegment>(segment)?;
        segment.check()?;
        check(offset, size, segment.size())?;
        let descriptor = Arc::clone(&segment.descriptor);
        let Some(memory) = segment.memory() else {
            let shadow = Arc::new(Shadow::new(Arc::clone(&segment), offset, size)?);
            let view = Arc::new(shadow.view(access, at)?);
            let stores = Arc::clone(&shadow) as Arc<dyn Stores>;
            if access == Access::ReadWrite {
                let auto_flush = library.auto_flush()?;
                library.add_stores(Arc::downgrade(&stores));
                auto_flush.follow(&stores, view.pages());
            }
            if let Some(age) = library.nodes.loads
                && !shadow.fetch_on_touch(&library.auto_flush()?, &view, age)?
            {
                keep_fresh(&stores, age)?;
            }
            segment.map_made();
            return Self::insert(library, Self { descriptor, view, shown: Shown::Far(shadow) });
        };
        let view = Arc::new(View::map(memory.fd(), offset, size, access, at)?);
        segment.map_made();
        Self::insert(library, Self { descriptor, view, shown: Shown::Remote(segment) })
    }

    /// Maps a part of a remote segment so that stores interrupt the owner where it has flags:
    /// conditional ones, which are stores in name only, or those of data.
    ///
    /// # Errors
    /// As [`of_remote`](Self::of_remote), and [`Error::NotSupported`] if stores cannot be heard of.
    pub fn of_flags(library: &'static Library, segment: u64, offset: usize, size: usize, conditional: bool, at: At) -> Result<(u64, *mut u8), Error> {
        let segment = library.get::<RemoteSegment>(segment)?;
        segment.check()?;
        check(offset, size, segment.size())?;
        let descriptor = Arc::clone(&segment.descriptor);
        let (flags, view) = FlagMap::new(library, Arc::clone(&segment), (offset, size), conditional, at)?;
        segment.map_made();
        Self::insert(library, Self { descriptor, view: Arc::new(view), shown: Shown::Flags(flags) })
    }

    fn insert(library: &'static Library, map: Self) -> Result<(u64, *mut u8), Error> {
        let base = map.view.base();
        map.descriptor.hold();
        Ok((library.insert(|_| Ok(Arc::new(map)))?, base))
    }

    /// Takes it out of the program's memory, when copies by other threads have ended.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is no such map.
    pub fn unmap(library: &'static Library, handle: u64) -> Result<(), Error> {
        let map = library.remove::<Map>(handle)?;
        match &map.shown {
            Shown::Local(segment) => segment.map_gone(),
            Shown::Remote(segment) => segment.map_gone(),
            Shown::Far(shadow) => {
                shadow.close();
                if let Ok(auto_flush) = library.auto_flush() {
                    auto_flush.forget(&map.view.pages());
                }
                shadow.segment.map_gone();
            }
            Shown::Flags(flags) => {
                flags.close();
                if let Ok(auto_flush) = library.auto_flush() {
                    auto_flush.forget(&map.view.pages());
                }
                flags.segment.map_gone();
            }
        }
        map.descriptor.release();
        Ok(())
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        self.view.len()
    }

    /// Whether the segment's owner is still there.
    ///
    /// # Errors
    /// As [`RemoteSegment::check`].
    pub fn check(&self) -> Result<(), Error> {
        match &self.shown {
            Shown::Local(_) => Ok(()),
            Shown::Remote(segment) => segment.check(),
            Shown::Far(shadow) => shadow.segment.check(),
            Shown::Flags(flags) => flags.segment.check(),
        }
    }

    /// Sends what was stored through it. Within a host it is there already.
    ///
    /// # Errors
    /// [`Error::TransferFailed`].
    pub fn flush(&self) -> Result<(), Error> {
        store_barrier();
        match &self.shown {
            Shown::Local(_) | Shown::Remote(_) => Ok(()),
            Shown::Far(shadow) => shadow.flush(),
            Shown::Flags(flags) => flags.flush_all(),
        }
    }

    /// Fetches what the segment holds. Within a host it is there already.
    ///
    /// # Errors
    /// [`Error::TransferFailed`].
    pub fn fetch(&self) -> Result<(), Error> {
        store_barrier();
        if let Shown::Far(shadow) = &self.shown { shadow.fetch() } else { Ok(()) }
    }

    /// Whether it shows a segment of another host.
    pub(crate) fn is_far(&self) -> bool {
        matches!(self.shown, Shown::Far(_))
    }

    pub(crate) fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    /// The remote segment that it shows, if it is one.
    pub(crate) fn remote(&self) -> Option<&Arc<RemoteSegment>> {
        match &self.shown {
            Shown::Local(_) => None,
            Shown::Remote(segment) => Some(segment),
            Shown::Far(shadow) => Some(&shadow.segment),
            Shown::Flags(flags) => Some(&flags.segment),
        }
    }

    /// `len` bytes of it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn part(&self, offset: usize, len: usize) -> Result<SharedBytes<'_>, Error> {
        Ok(self.view.bytes().part(offset, len)?)
    }

    /// Copies into it, or out of it if `read`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::Access`] for a map that is for reading; those of
    /// [`check`](Self::check).
    pub fn copy(&self, memory: SharedBytes<'_>, offset: usize, read: bool) -> Result<(), Error> {
        self.check()?;
        let part = self.part(offset, memory.len())?;
        if let Shown::Far(shadow) = &self.shown {
            if !read && !part.is_writable() {
                return Err(Error::Access);
            }
            return shadow.copy(memory, offset, read);
        }
        if read {
            memory.copy_from(0, part)?
        } else {
            part.copy_from(0, memory)?
        }
        Ok(())
    }
}

fn check(offset: usize, size: usize, of: usize) -> Result<(), Error> {
    if !offset.is_multiple_of(OFFSET_ALIGNMENT) {
        return Err(Error::OffsetAlignment);
    }
    if size == 0 {
        return Err(Error::SizeAlignment);
    }
    if offset.checked_add(size).is_none_or(|end| end > of) { Err(Error::OutOfRange) } else { Ok(()) }
}

impl Object for Sequence {
    const KIND: u8 = 5;
}

impl Sequence {
    /// A sequence on a map of a remote segment, or of a local one, where it always is well.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is no such map.
    pub fn create(library: &'static Library, map: u64) -> Result<u64, Error> {
        let map = library.get::<Map>(map)?;
        let descriptor = Arc::clone(&map.descriptor);
        descriptor.hold();
        library.insert(|_| Ok(Arc::new(Self { descriptor, map })))
    }

    /// Removes it.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if there is none.
    pub fn remove(library: &'static Library, handle: u64) -> Result<(), Error> {
        library.remove::<Sequence>(handle).map(|s| s.descriptor.release())
    }

    /// Starts it.
    pub fn start(&self) -> SequenceStatus {
        match self.map.check() {
            Ok(()) if self.map.remote().is_some_and(|segment| segment.is_silent()) => SequenceStatus::Pending,
            Ok(()) => SequenceStatus::Ok,
            Err(_) => SequenceStatus::NotRetriable,
        }
    }

    /// Whether all stores since the start have arrived. A death is seen within milliseconds; that
    /// of another host, within seconds.
    pub fn check(&self) -> SequenceStatus {
        match self.start() {
            SequenceStatus::Ok => {}
            // A flush would wait for the way to be in order again.
            status => return status,
        }
        match self.map.flush() {
            Ok(()) => self.start(),
            Err(_) => SequenceStatus::NotRetriable,
        }
    }

    /// The map that it is on.
    pub fn map(&self) -> &Map {
        &self.map
    }
}

/// Stores before it are visible before stores behind it.
pub fn store_barrier() {
    // SeqCst: also orders against loads, as the barriers of adapters do, which drain the stores.
    fence(Ordering::SeqCst);
}
