// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles as programs use them: endpoints and their tables. Any thread may call at any time; what
//! one thread does alone costs no locked instruction (the bundle's lock is a token biased to it,
//! like the NIC's). Handlers run on the thread that polls, one at a time, with no lock held.

use crate::acceptor::Acceptor;
use crate::core::{Core, place};
use crate::device::Device;
use crate::endpoint::Counters;
use crate::name::{EndpointId, Name};
use crate::objects::{Bundle, Handler, Message};
use crate::region::Region;
use crate::status::{Departed, Error, Returned};
use crate::tables::Slot;
use crate::tables::TRANSLATIONS_MAX;
use bellwire_memory::atomic::{AtomicUsize, Ordering};
use bellwire_memory::token::{Claim, Held, Token, thread_id};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Bundles of this process.
pub(crate) static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Bundle {
    /// A bundle on a device.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub fn new(device: &Arc<Device>) -> Result<Self, Error> {
        let inbox = device.create_inbox()?;
        // Relaxed: a hint, for polls that give way.
        OPEN.fetch_add(1, Ordering::Relaxed);
        let bundle = Self { device: Arc::clone(device), core: Token::new(Core::new(inbox)) };
        bundle.trace_as_wanted();
        Ok(bundle)
    }

    /// The device that it is on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    #[inline]
    pub(crate) fn core(&self) -> Held<'_, Core<Handler>> {
        self.core.enter(Claim::Bias)
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

    // ---- endpoints

    /// A new endpoint, which accepts nothing until it has a tag.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub fn create_endpoint(&self) -> Result<EndpointId, Error> {
        let mut core = self.core();
        let ptag = self.device.nic.with(|engine| engine.create_ptag())?;
        let listed = self.device.acceptor().list(core.inbox, ptag);
        let added = listed.and_then(|name| core.add_endpoint(name, ptag).inspect_err(|_| self.device.acceptor().unlist(&name)));
        added.inspect_err(|_| {
            let _ = self.device.nic.with(|engine| engine.destroy_ptag(ptag));
        })
    }

    /// Ends an endpoint, not from within a handler of this bundle: requests to it come back to
    /// those who sent them; its own that are not handled are dropped.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn destroy_endpoint(&self, endpoint: EndpointId) -> Result<(), Error> {
        let mut core = self.core_at_rest()?;
        let mut acceptor = self.device.acceptor();
        acceptor.unlist(&core.endpoint(endpoint)?.name);
        let of = core.endpoint_mut(endpoint)?;
        let slots = (of.handlers.take_all(), core::mem::replace(&mut of.on_departure, Slot::Free));
        let removed = self.device.nic.with(|engine| core.remove_endpoint(engine, endpoint));
        let garbage = core::mem::take(&mut core.garbage);
        drop((acceptor, core));
        drop((slots, garbage)); // With no lock held: handlers may own anything.
        removed.map(drop)
    }

    /// The endpoint's name, by which others reach it.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn name(&self, endpoint: EndpointId) -> Result<Name, Error> {
        Ok(self.core().endpoint(endpoint)?.name)
    }

    /// The tag that requests to this endpoint must carry.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn tag(&self, endpoint: EndpointId) -> Result<u64, Error> {
        Ok(self.core().endpoint(endpoint)?.tag)
    }

    /// Sets that tag: [`TAG_ALL`](crate::TAG_ALL) accepts all, [`TAG_NONE`](crate::TAG_NONE)
    /// nothing.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_tag(&self, endpoint: EndpointId, tag: u64) -> Result<(), Error> {
        self.core().endpoint_mut(endpoint)?.tag = tag;
        Ok(())
    }

    /// Has entry `index` mean the endpoint `name`, with the tag that requests will carry. It is
    /// connected when it is first used.
    ///
    /// # Errors
    /// [`Error::BadArgument`]; [`Error::InUse`]: the entry is; [`Error::Resource`].
    pub fn map(&self, endpoint: EndpointId, index: u32, name: Name, tag: u64) -> Result<(), Error> {
        self.core().map(endpoint, index, name, tag)
    }

    /// As [`map`](Self::map), in the first free entry, which is returned.
    ///
    /// # Errors
    /// [`Error::Resource`]: none is free; and those of `map`.
    pub fn map_any(&self, endpoint: EndpointId, name: Name, tag: u64) -> Result<u32, Error> {
        let mut core = self.core();
        let index = core.endpoint(endpoint)?.translations.free().ok_or(Error::Resource)?;
        core.map(endpoint, index, name, tag).map(|()| index)
    }

    /// What an entry means: the name and the tag that it was mapped to; `None` if it is free.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn translation(&self, endpoint: EndpointId, index: u32) -> Result<Option<(Name, u64)>, Error> {
        let core = self.core();
        let endpoint = core.endpoint(endpoint)?;
        if index as usize >= endpoint.translations.count() {
            return Err(Error::BadArgument);
        }
        Ok(endpoint.translations.get(index).and_then(|t| core.connections.get(t.connection)).map(|c| (c.peer, c.tag)))
    }

    /// Entries of the translation table.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn translations(&self, endpoint: EndpointId) -> Result<u32, Error> {
        Ok(self.core().endpoint(endpoint)?.translations.count() as u32)
    }

    /// Makes the translation table longer or shorter, up to [`TRANSLATIONS_MAX`].
    ///
    /// # Errors
    /// [`Error::BadArgument`]; [`Error::InUse`]: entries that would go are.
    pub fn set_translations(&self, endpoint: EndpointId, entries: u32) -> Result<(), Error> {
        let entries = entries as usize;
        if entries > TRANSLATIONS_MAX {
            return Err(Error::BadArgument);
        }
        let mut core = self.core();
        if core.endpoint_mut(endpoint)?.translations.set_count(entries) { Ok(()) } else { Err(Error::InUse) }
    }

    /// Frees an entry. Requests sent there that are not handled come back.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn unmap(&self, endpoint: EndpointId, index: u32) -> Result<(), Error> {
        let mut core = self.core();
        let unmapped = self.device.nic.with(|engine| core.unmap(engine, endpoint, index));
        core.garbage.clear();
        unmapped
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

    /// Sets who hears of connections that end, in either direction; see [`Departed`].
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_departure_handler(&self, endpoint: EndpointId, handler: impl FnMut(&Departed) + Send + 'static) -> Result<(), Error> {
        let slot = Slot::Here(Handler::Departure(Box::new(handler)));
        let old = core::mem::replace(&mut self.core().endpoint_mut(endpoint)?.on_departure, slot);
        drop(old); // With no lock held: it may own anything.
        Ok(())
    }

    fn set_slot(&self, endpoint: EndpointId, index: u8, handler: Handler) -> Result<(), Error> {
        let old = core::mem::replace(self.core().endpoint_mut(endpoint)?.handlers.slot_to_set(index), Slot::Here(handler));
        drop(old); // With no lock held: it may own anything.
        Ok(())
    }

    /// The first handler number that is not in use, given to `handler`.
    ///
    /// # Errors
    /// [`Error::BadArgument`]; [`Error::Resource`]: all are in use.
    pub fn set_handler_any(&self, endpoint: EndpointId, handler: impl FnMut(&mut Message<'_>) + Send + 'static) -> Result<u8, Error> {
        let mut core = self.core();
        let endpoint = core.endpoint_mut(endpoint)?;
        let free = endpoint.handlers.free().ok_or(Error::Resource)?;
        *endpoint.handlers.slot_to_set(free) = Slot::Here(Handler::Message(Box::new(handler)));
        Ok(free)
    }

    /// The memory that bulk messages to this endpoint, and gets from it, reach: offsets count from
    /// its first byte. `None`: nothing. A peer that writes while it changes may lose its
    /// connection. Peers reach a region directly; of one region, one segment at a time should be
    /// made.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: another device's region; [`Error::InUse`]: a get is being answered
    /// out of the segment before; [`Error::Resource`].
    pub fn set_segment(&self, endpoint: EndpointId, region: Option<&Arc<Region>>) -> Result<(), Error> {
        if region.is_some_and(|r| !r.is_of(&self.device)) {
            return Err(Error::BadArgument);
        }
        let memory = region.map(|r| (r.as_ptr().expose_provenance() as u64, r.len() as u64, Some(Arc::clone(r))));
        self.change_segment(endpoint, memory)
    }

    /// As [`set_segment`](Self::set_segment), with memory of the program.
    ///
    /// # Errors
    /// As there; [`Error::BadArgument`] also: the memory is not there or not writable.
    ///
    /// # Safety
    /// P2: the `length` bytes stay mapped, and nothing but raw pointers or atomics reads or writes
    /// them, until the endpoint has another segment or is no more.
    pub unsafe fn set_segment_of_program(&self, endpoint: EndpointId, base: *mut u8, length: usize) -> Result<(), Error> {
        self.change_segment(endpoint, Some((base.expose_provenance() as u64, length as u64, None)))
    }

    fn change_segment(&self, endpoint: EndpointId, memory: Option<(u64, u64, Option<Arc<Region>>)>) -> Result<(), Error> {
        let mut core = self.core();
        let changed = self.device.nic.with(|engine| core.set_segment(engine, endpoint, memory));
        core.garbage.clear();
        changed
    }

    /// Address and bytes of an endpoint's segment.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn segment(&self, endpoint: EndpointId) -> Result<Option<(*mut u8, usize)>, Error> {
        let core = self.core();
        let segment = core.endpoint(endpoint)?.segment.as_ref();
        Ok(segment.map(|s| (core::ptr::with_exposed_provenance_mut(s.address as usize), s.length as usize)))
    }

    /// How many requests the endpoint may have out to each other one, 1 to
    /// [`CREDITS_MAX`](crate::CREDITS_MAX), on connections made from now on.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_credits(&self, endpoint: EndpointId, credits: u32) -> Result<(), Error> {
        self.core().endpoint_mut(endpoint)?.credits = credits.max(1);
        Ok(())
    }

    /// How long a request waits for a receiver that is there but takes nothing, before it comes
    /// back with [`Status::Congestion`](crate::Status::Congestion). `None`, as it is at first: for
    /// ever.
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
        core.endpoint(endpoint)?;
        let returns = core.returns.iter().filter(|(of, _)| *of == endpoint).count() as u64;
        Ok(returns + core.connections.iter().filter(|(_, c)| c.endpoint == endpoint).map(|(_, c)| u64::from(c.credits.outstanding())).sum::<u64>())
    }

    /// What an endpoint has counted.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn counters(&self, endpoint: EndpointId) -> Result<Counters, Error> {
        Ok(self.core().endpoint(endpoint)?.counters)
    }

    /// Begins to count anew.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn reset_counters(&self, endpoint: EndpointId) -> Result<(), Error> {
        self.core().endpoint_mut(endpoint)?.counters = Counters::default();
        Ok(())
    }

    /// Ends all endpoints. The caller holds the locks of both.
    fn end(core: &mut Core<Handler>, acceptor: &mut MutexGuard<'_, Acceptor>, device: &Device) {
        device.nic.with(|engine| {
            core.send_waiting(engine);
            core.tell(engine);
            for id in core.numbers.values().copied().collect::<Vec<_>>() {
                if let Some(endpoint) = core.endpoints.get(place(id)) {
                    acceptor.unlist(&endpoint.name);
                }
                let _ = core.remove_endpoint(engine, id);
            }
            core.drain(engine);
            let _ = engine.destroy_inbox(core.inbox);
        });
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        // Relaxed: as in `new`.
        OPEN.fetch_sub(1, Ordering::Relaxed);
        let device = Arc::clone(&self.device);
        let mut core = self.core();
        Self::end(&mut core, &mut device.acceptor(), &device);
        let garbage = core::mem::take(&mut core.garbage);
        drop(core);
        drop(garbage);
    }
}
