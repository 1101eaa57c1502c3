// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles as programs use them: any thread may call at any time. Handlers run on the thread that polls, one at a time, with no lock held.

use crate::arrive::{Delivery, Step};
use crate::core::{Core, EndpointId, Request, Sent, place};
use crate::device::Device;
use crate::endpoint::{Counters, Slot};
use crate::message::{Handler, Message};
use crate::name::Name;
use crate::status::{Error, Returned};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest sleep while something waits to leave: nobody says when there is room.
const SLICE: Duration = Duration::from_millis(1);

/// Endpoints that are polled as one.
pub struct Bundle {
    pub(crate) device: Arc<Device>,
    core: Mutex<Core<Handler>>,
}

impl Bundle {
    /// A bundle on a device.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub fn new(device: &Arc<Device>) -> Result<Self, Error> {
        let inbox = device.create_inbox()?;
        Ok(Self { device: Arc::clone(device), core: Mutex::new(Core::new(inbox)) })
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core<Handler>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Ends an endpoint: requests to it come back to those who sent them; its own that are not handled are dropped.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn destroy_endpoint(&self, endpoint: EndpointId) -> Result<(), Error> {
        let mut core = self.core();
        let mut acceptor = self.device.acceptor();
        acceptor.unlist(&core.endpoint(endpoint)?.name);
        self.device.nic.with(|engine| core.remove_endpoint(engine, endpoint)).map(drop)
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

    /// Sets that tag: [`TAG_ALL`](crate::TAG_ALL) accepts all, [`TAG_NONE`](crate::TAG_NONE) nothing.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn set_tag(&self, endpoint: EndpointId, tag: u64) -> Result<(), Error> {
        self.core().endpoint_mut(endpoint)?.tag = tag;
        Ok(())
    }

    /// Has entry `index` mean the endpoint `name`, with the tag that requests will carry. It is connected when it is first used.
    ///
    /// # Errors
    /// [`Error::BadArgument`]; [`Error::InUse`]: the entry is; [`Error::Resource`].
    pub fn map(&self, endpoint: EndpointId, index: u32, name: Name, tag: u64) -> Result<(), Error> {
        self.core().map(endpoint, index, name, tag)
    }

    /// Frees an entry. Requests sent there that are not handled come back.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn unmap(&self, endpoint: EndpointId, index: u32) -> Result<(), Error> {
        let mut core = self.core();
        self.device.nic.with(|engine| core.unmap(engine, endpoint, index))
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

    fn set_slot(&self, endpoint: EndpointId, index: u8, handler: Handler) -> Result<(), Error> {
        let old = core::mem::replace(&mut self.core().endpoint_mut(endpoint)?.handlers[usize::from(index)], Slot::Here(handler));
        drop(old); // With no lock held: it may own anything.
        Ok(())
    }

    /// What an endpoint has counted.
    ///
    /// # Errors
    /// [`Error::BadArgument`].
    pub fn counters(&self, endpoint: EndpointId) -> Result<Counters, Error> {
        Ok(self.core().endpoint(endpoint)?.counters)
    }

    // ---- requests

    /// Sends a short request: `handler` of the endpoint in entry `index` runs with `args`, of which there may be [`ARGS_MAX`](crate::ARGS_MAX). While it cannot leave, this polls.
    ///
    /// # Errors
    /// [`Error::BadArgument`], also within a handler; [`Error::Resource`]. What fails later comes to the error handler.
    #[inline]
    pub fn request(&self, endpoint: EndpointId, index: u32, handler: u8, args: &[i32]) -> Result<(), Error> {
        self.send(&Request { endpoint, index, handler, args, medium: None })
    }

    /// Sends a medium request, with a payload of at most [`MEDIUM_BYTES_MAX`](crate::MEDIUM_BYTES_MAX) bytes, which is copied before this returns.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    #[inline]
    pub fn request_medium(&self, endpoint: EndpointId, index: u32, handler: u8, payload: &[u8], args: &[i32]) -> Result<(), Error> {
        self.send(&Request { endpoint, index, handler, args, medium: Some(payload) })
    }

    #[inline]
    fn send(&self, request: &Request<'_>) -> Result<(), Error> {
        if self.try_send(request)? == Sent::Yes { Ok(()) } else { self.send_later(request) }
    }

    #[inline]
    fn try_send(&self, request: &Request<'_>) -> Result<Sent, Error> {
        let mut core = self.core();
        if core.running.is_some_and(|thread| thread == std::thread::current().id()) {
            return Err(Error::BadArgument);
        }
        self.device.nic.with(|engine| core.request(engine, request))
    }

    #[cold]
    fn send_later(&self, request: &Request<'_>) -> Result<(), Error> {
        if let Ok(endpoint) = self.core().endpoint_mut(request.endpoint) {
            endpoint.counters.stalls += 1;
        }
        loop {
            if self.poll()? == 0 {
                // An attempt to connect counts from when it begins.
                self.device.nic.now();
            }
            if self.try_send(request)? == Sent::Yes {
                return Ok(());
            }
        }
    }

    // ---- polling

    /// Handles what has come, at most a few messages; returns how many things were done. 0 also when another thread is running a handler of this bundle.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: within a handler, or in the child of a `fork`.
    #[inline]
    pub fn poll(&self) -> Result<usize, Error> {
        let mut guard = self.core();
        let core = &mut *guard;
        if let Some(thread) = core.running {
            drop(guard);
            return self.poll_beside(thread);
        }
        let mut requests = 0;
        let step = self.device.nic.poll_with(|engine| {
            requests = engine.connection_requests();
            Ok(Some(core.step(engine)))
        })?;
        if requests != core.accepted {
            core.accepted = self.device.accept();
        }
        match step {
            None | Some(Step::Nothing) => Ok(0),
            Some(Step::Moved) => Ok(1),
            Some(Step::Run(delivery)) => {
                self.run(guard, delivery);
                Ok(1)
            }
            Some(Step::Return(endpoint, handler, returned)) => {
                self.run_return(guard, endpoint, handler, &returned);
                Ok(1)
            }
        }
    }

    #[cold]
    fn poll_beside(&self, thread: std::thread::ThreadId) -> Result<usize, Error> {
        if thread == std::thread::current().id() {
            return Err(Error::BadArgument);
        }
        std::thread::yield_now();
        Ok(0)
    }

    #[inline]
    fn run(&self, mut core: MutexGuard<'_, Core<Handler>>, delivery: Delivery<Handler>) {
        core.running = Some(std::thread::current().id());
        drop(core);
        let (mut handler, delivery) = delivery.split();
        let mut message = Message { bundle: self, delivery: &delivery, has_replied: false };
        let running = Running(self);
        if let Handler::Message(f) = &mut handler {
            f(&mut message);
        }
        let has_replied = message.has_replied;
        core::mem::forget(running);
        let mut core = self.core();
        core.running = None;
        let unused = core.put_back(delivery.endpoint, delivery.head.handler, handler);
        let is_unanswered = delivery.is_request() && !has_replied;
        if is_unanswered && let Some(connection) = core.connections.get_mut(delivery.connection) {
            connection.handled = connection.handled.wrapping_add(1);
        }
        if is_unanswered || delivery.place.is_held() {
            let inbox = core.inbox;
            self.device.nic.with(|engine| {
                if is_unanswered {
                    core.owe(engine, delivery.connection);
                }
                delivery.place.give_back(engine, inbox);
            });
        }
        drop(core);
        drop(unused);
    }

    #[cold]
    fn run_return(&self, mut core: MutexGuard<'_, Core<Handler>>, endpoint: EndpointId, handler: Option<Handler>, returned: &Returned) {
        core.running = Some(std::thread::current().id());
        drop(core);
        let running = Running(self);
        let mut handler = handler;
        match &mut handler {
            Some(Handler::Return(f)) => f(returned),
            _ => eprintln!("bellwire: an active message ({:?}, handler {}) came back: {:?}", returned.operation, returned.handler, returned.status),
        }
        drop(running);
        let unused = handler.and_then(|h| self.core().put_back(endpoint, 0, h));
        drop(unused);
    }

    /// Sleeps until there is something to poll for, or `timeout` has passed (`None`: for ever). `false`: it has passed.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: in the child of a `fork`.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let end = timeout.map(|t| Instant::now() + t);
        loop {
            let mut core = self.core();
            let (inbox, accepted) = (core.inbox, core.accepted);
            let (is_ready, must_send) = self.device.nic.with(|engine| {
                core.send_waiting(engine);
                core.tell(engine);
                (engine.inbox_has(inbox) || !core.returns.is_empty(), !core.unsent.is_empty())
            });
            drop(core);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if is_ready {
                return Ok(true);
            }
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            let slice = if must_send { Some(left.map_or(SLICE, |l| l.min(SLICE))) } else { left };
            match self.device.nic.inbox_wait(inbox, accepted, slice) {
                Ok(()) => return Ok(true),
                Err(bellwire_via::Error::Timeout) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// While a handler runs: if it unwinds, the bundle goes on.
struct Running<'a>(&'a Bundle);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.core().running = None;
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let device = Arc::clone(&self.device);
        let core = self.core.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut acceptor = device.acceptor();
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
