// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles as programs use them: endpoints and their tables. Any thread may call at any time.
//! Handlers run on the thread that polls, one at a time, with no lock held.

use crate::core::Core;
use crate::device::Device;
use crate::endpoint::{Endpoint, OwnSegment, Translation};
use crate::name::Name;
use crate::objects::{Bundle, Handler, Inner, Message};
use crate::record::{Departed, Returned};
use bellwire_am::tables::Slot;
use bellwire_am::{Counters, EndpointId, Error, TRANSLATIONS_MAX};
use bellwire_memory::token::{Claim, Held, Token, thread_id};
use std::sync::Arc;
use std::time::Duration;

impl Bundle {
    /// A bundle on a device.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub fn new(device: &Arc<Device>) -> Result<Self, Error> {
        let core = Core::new(&device.shared)?;
        Ok(Self { device: Arc::clone(device), inner: Arc::new(Inner { shared: Arc::clone(&device.shared), core: Token::new(core) }) })
    }

    #[inline]
    pub(crate) fn core(&self) -> Held<'_, Core<Handler>> {
        self.inner.core.enter(Claim::Bias)
    }

    /// The core while no handler runs; waits for one that another thread runs.
    pub(crate) fn core_at_rest(&self) -> Result<Held<'_, Core<Handler>>, Error> {
        loop {
            let core = self.core();
            match core.running {
                0 => return Ok(core),
                thread if thread == thread_id() => return Err(Error::InUse),
                _ => drop(core),
            }
            std::thread::yield_now();
        }
    }

    /// Whether the calling thread is inside a handler of this bundle.
    pub fn is_in_handler(&self) -> bool {
        self.core().running == thread_id()
    }

    /// The device that it is on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// A new endpoint, which accepts nothing until it has a tag.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub fn create_endpoint(&self) -> Result<EndpointId, Error> {
        let shared = &self.inner.shared;
        let number = shared.number()?;
        let ptag = shared.nic.create_ptag().map_err(|_| Error::Resource)?;
        self.core().endpoints.insert(number, Endpoint::new(shared.name(number), ptag));
        shared.enlist(number, &self.inner);
        Ok(EndpointId::from_raw(number))
    }

    /// Ends an endpoint, not from within a handler of this bundle: requests to it come back to
    /// those who sent them; its own that are not handled are dropped.
    ///
    /// # Errors
    /// [`Error::BadArgument`]; [`Error::InUse`]: within a handler.
    pub fn destroy_endpoint(&self, endpoint: EndpointId) -> Result<(), Error> {
        let mut core = self.core_at_rest()?;
        let id = endpoint.raw();
        let of = core.endpoint_mut(id)?;
        let slots = (of.handlers.take_all(), core::mem::replace(&mut of.on_departure, Slot::Free));
        self.inner.shared.unlist(id);
        let removed = core.remove_endpoint(id);
        drop(core);
        drop(slots); // With no lock held: handlers may own anything.
        removed
    }

    /// The endpoint's name, by which others reach it.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn name(&self, endpoint: EndpointId) -> Result<Name, Error> {
        Ok(self.core().endpoint(endpoint.raw())?.name)
    }

    /// The tag that requests to this endpoint must carry.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn tag(&self, endpoint: EndpointId) -> Result<u64, Error> {
        Ok(self.core().endpoint(endpoint.raw())?.tag)
    }

    /// Sets that tag.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_tag(&self, endpoint: EndpointId, tag: u64) -> Result<(), Error> {
        self.core().endpoint_mut(endpoint.raw())?.tag = tag;
        Ok(())
    }

    /// Has entry `index` mean the endpoint `name`, with the tag that requests will carry.
    ///
    /// # Errors
    /// [`Error::BadArgument`]; [`Error::InUse`]: the entry is.
    pub fn map(&self, endpoint: EndpointId, index: u32, name: Name, tag: u64) -> Result<(), Error> {
        let mut core = self.core();
        let entry = core.endpoint_mut(endpoint.raw())?.translations.get_mut(index).ok_or(Error::BadArgument)?;
        if entry.is_some() {
            return Err(Error::InUse);
        }
        *entry = Some(Translation { name, tag, map: None });
        Ok(())
    }

    /// As [`map`](Self::map), in the first free entry, which is returned.
    ///
    /// # Errors
    /// [`Error::Resource`]: none is free; and those of `map`.
    pub fn map_any(&self, endpoint: EndpointId, name: Name, tag: u64) -> Result<u32, Error> {
        let mut core = self.core();
        let endpoint = core.endpoint_mut(endpoint.raw())?;
        let index = endpoint.translations.free().ok_or(Error::Resource)?;
        *endpoint.translations.get_mut(index).ok_or(Error::Resource)? = Some(Translation { name, tag, map: None });
        Ok(index)
    }

    /// What an entry means: the name and the tag that it was mapped to; `None` if it is free.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn translation(&self, endpoint: EndpointId, index: u32) -> Result<Option<(Name, u64)>, Error> {
        let core = self.core();
        let endpoint = core.endpoint(endpoint.raw())?;
        if index as usize >= endpoint.translations.count() {
            return Err(Error::BadArgument);
        }
        Ok(endpoint.translations.get(index).map(|t| (t.name, t.tag)))
    }

    /// Entries of the translation table.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn translations(&self, endpoint: EndpointId) -> Result<u32, Error> {
        Ok(self.core().endpoint(endpoint.raw())?.translations.count() as u32)
    }

    /// Makes the translation table longer or shorter.
    ///
    /// # Errors
    /// [`Error::BadArgument`]; [`Error::InUse`]: entries that would go are.
    pub fn set_translations(&self, endpoint: EndpointId, entries: u32) -> Result<(), Error> {
        if entries as usize > TRANSLATIONS_MAX {
            return Err(Error::BadArgument);
        }
        let is_set = self.core().endpoint_mut(endpoint.raw())?.translations.set_count(entries as usize);
        if is_set { Ok(()) } else { Err(Error::InUse) }
    }

    /// Frees an entry. Requests sent there that are not handled come back.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn unmap(&self, endpoint: EndpointId, index: u32) -> Result<(), Error> {
        self.core().unmap(endpoint.raw(), index)
    }

    /// Sets the handler of messages with number `index`, 1 to 255.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_handler(&self, endpoint: EndpointId, index: u8, handler: impl FnMut(&mut Message<'_>) + Send + 'static) -> Result<(), Error> {
        if index == 0 {
            return Err(Error::BadArgument);
        }
        self.set_slot(endpoint, index, Handler::Message(Box::new(handler)))
    }

    /// Sets who gets messages that come back. Without one each is one line on standard error.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_error_handler(&self, endpoint: EndpointId, handler: impl FnMut(&Returned) + Send + 'static) -> Result<(), Error> {
        self.set_slot(endpoint, 0, Handler::Return(Box::new(handler)))
    }

    /// Sets who hears of connections that end.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_departure_handler(&self, endpoint: EndpointId, handler: impl FnMut(&Departed) + Send + 'static) -> Result<(), Error> {
        let slot = Slot::Here(Handler::Departure(Box::new(handler)));
        let old = core::mem::replace(&mut self.core().endpoint_mut(endpoint.raw())?.on_departure, slot);
        drop(old); // With no lock held: it may own anything.
        Ok(())
    }

    fn set_slot(&self, endpoint: EndpointId, index: u8, handler: Handler) -> Result<(), Error> {
        let old = core::mem::replace(self.core().endpoint_mut(endpoint.raw())?.handlers.slot_to_set(index), Slot::Here(handler));
        drop(old); // With no lock held: it may own anything.
        Ok(())
    }

    /// The first handler number that is not in use, given to `handler`.
    ///
    /// # Errors
    /// [`Error::BadArgument`]; [`Error::Resource`]: all are in use.
    pub fn set_handler_any(&self, endpoint: EndpointId, handler: impl FnMut(&mut Message<'_>) + Send + 'static) -> Result<u8, Error> {
        let mut core = self.core();
        let endpoint = core.endpoint_mut(endpoint.raw())?;
        let free = endpoint.handlers.free().ok_or(Error::Resource)?;
        *endpoint.handlers.slot_to_set(free) = Slot::Here(Handler::Message(Box::new(handler)));
        Ok(free)
    }

    /// The memory that bulk messages to this endpoint, and gets from it, reach; no bytes: none.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: the memory is not there or not writable; [`Error::InUse`]: a get is
    /// being answered out of the segment before; [`Error::Resource`].
    ///
    /// # Safety
    /// The `length` bytes stay mapped, and nothing but raw pointers or atomics reads or writes
    /// them, until the endpoint has another segment or is no more.
    pub unsafe fn set_segment_of_program(&self, endpoint: EndpointId, base: *mut u8, length: usize) -> Result<(), Error> {
        let mut core = self.core();
        let ptag = core.endpoint(endpoint.raw())?.ptag;
        if length == 0 {
            return core.set_segment(endpoint.raw(), None);
        }
        let address = base.expose_provenance() as u64;
        // SAFETY: the caller's promise.
        let handle = unsafe { self.inner.shared.nic.register(address, length, ptag, true) }.map_err(crate::core::error_of)?;
        let segment = OwnSegment { address, length: length as u64, handle };
        core.set_segment(endpoint.raw(), Some(segment)).inspect_err(|_| {
            let _ = self.inner.shared.nic.deregister(address, handle);
        })
    }

    /// Address and bytes of an endpoint's segment.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn segment(&self, endpoint: EndpointId) -> Result<Option<(*mut u8, usize)>, Error> {
        let segment = self.core().endpoint(endpoint.raw())?.segment;
        Ok(segment.map(|s| (core::ptr::with_exposed_provenance_mut(s.address as usize), s.length as usize)))
    }

    /// How many requests the endpoint may have out to each other one, on connections made from now
    /// on; never more than `BELLWIRE_AM_CREDITS` says.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_credits(&self, endpoint: EndpointId, credits: u32) -> Result<(), Error> {
        self.core().endpoint_mut(endpoint.raw())?.credits = credits.max(1);
        Ok(())
    }

    /// How long a request waits for a receiver that is there but takes nothing. `None`: for ever.
    pub fn set_patience(&self, patience: Option<Duration>) {
        self.core().patience = patience;
    }

    /// Requests of the endpoint that are out: neither handled nor come back, as far as is known
    /// here.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn outstanding(&self, endpoint: EndpointId) -> Result<u64, Error> {
        let core = self.core();
        core.endpoint(endpoint.raw())?;
        let returns = core.returns.iter().filter(|(of, _)| *of == endpoint.raw()).count() as u64;
        Ok(returns + core.maps.values().filter(|m| m.endpoint == endpoint.raw()).map(crate::map::Map::outstanding).sum::<u64>())
    }

    /// What an endpoint has counted.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn counters(&self, endpoint: EndpointId) -> Result<Counters, Error> {
        Ok(self.core().endpoint(endpoint.raw())?.counters)
    }

    /// Begins to count anew.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn reset_counters(&self, endpoint: EndpointId) -> Result<(), Error> {
        self.core().endpoint_mut(endpoint.raw())?.counters = Counters::default();
        Ok(())
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let mut core = self.core();
        let of: Vec<u32> = core.endpoints.keys().copied().collect();
        let mut slots = Vec::new();
        for id in of {
            self.inner.shared.unlist(id);
            if let Ok(endpoint) = core.endpoint_mut(id) {
                slots.push((endpoint.handlers.take_all(), core::mem::replace(&mut endpoint.on_departure, Slot::Free)));
            }
            let _ = core.remove_endpoint(id);
        }
        drop(core);
        drop(slots); // With no lock held: handlers may own anything.
    }
}
