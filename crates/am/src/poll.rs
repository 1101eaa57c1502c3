// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polling and waiting: messages are handled on the calling thread, with no lock held.

use crate::arrive::Step;
use crate::bundle::OPEN;
use crate::core::Core;
use crate::delivery::Delivery;
use crate::name::EndpointId;
use crate::objects::{Bundle, Handler, Message};
use crate::payload::Place;
use crate::probe::{Off, Probe, Stage, mark};
use crate::status::{Departed, Error, Returned};
use bellwire_memory::atomic::Ordering;
use bellwire_memory::token::{Held, thread_id};
use bellwire_via::{NetAddress, ViHandle};
use std::time::{Duration, Instant};

/// Longest sleep while something waits to leave, as nobody says when there is room; and of a poll,
/// in place of giving way.
const SLICE: Duration = Duration::from_millis(1);

impl Bundle {
    /// Handles the next message that has come; returns how many things were done, 0 or 1. 0 also
    /// when another thread is running a handler of this bundle.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: within a handler. [`Error::InUse`]: in the child of a `fork`.
    #[inline]
    pub fn poll(&self) -> Result<usize, Error> {
        self.poll_any::<Off>()
    }

    #[inline]
    pub(crate) fn poll_any<P: Probe<Stage>>(&self) -> Result<usize, Error> {
        let mut guard = self.core();
        let core = &mut *guard;
        if core.running != 0 {
            let thread = core.running;
            drop(guard);
            return poll_beside(thread);
        }
        let mut requests = 0;
        let step = self.device.nic.poll_with(|engine| {
            requests = engine.connection_requests();
            Ok(Some(core.step::<_, P>(engine)))
        })?;
        if requests != core.accepted {
            core.accepted = self.device.accept();
        }
        match step {
            Some(Step::Run(delivery, handler)) => self.run::<P>(guard, delivery, handler),
            None | Some(Step::Nothing) => {
                drop(guard);
                if self.device.nic.should_give_way() {
                    self.give_way();
                }
                return Ok(0);
            }
            Some(Step::Moved) => core.garbage.clear(),
            Some(Step::Return(endpoint, handler, returned)) => self.run_return(guard, endpoint, handler, &returned),
            Some(Step::Departure(endpoint, handler, departed)) => self.run_departure(guard, endpoint, handler, &departed),
            Some(Step::Elsewhere(vi, endpoint, remote)) => self.forward(vi, endpoint, remote),
        }
        Ok(1)
    }

    /// After a poll that found nothing: lets others run.
    ///
    /// Where programs that compute want this processor, the caller sleeps until something comes,
    /// for a moment at most: a thread that gives way to them is back after milliseconds, whatever
    /// has come meanwhile. Not if the process has other bundles: something may come for one of
    /// those.
    #[cold]
    fn give_way(&self) {
        // Relaxed: a hint.
        if OPEN.load(Ordering::Relaxed) == 1 && self.device.nic.should_nap() {
            let _ = self.wait(Some(SLICE));
        } else {
            self.trace_as_wanted();
            self.device.nic.give_way();
        }
    }

    #[inline]
    fn run<P: Probe<Stage>>(&self, mut core: Held<'_, Core<Handler>>, delivery: Box<Delivery>, handler: Handler) {
        core.running = thread_id();
        drop(core);
        let mut turn = Turn { bundle: self, delivery: Some(delivery), handler: Some(handler) };
        mark!(P, Handling);
        if let (Some(delivery), Some(Handler::Message(handler))) = (&mut turn.delivery, &mut turn.handler) {
            handler(&mut Message { bundle: self, delivery });
        }
        mark!(P, Handled);
        drop(turn);
        mark!(P, Finished);
    }

    /// A handler has run, or panicked.
    #[inline]
    fn finish(&self, mut delivery: Box<Delivery>, handler: Handler) {
        let mut core = self.core();
        core.running = 0;
        let unused = (core.put_back(delivery.endpoint, delivery.head.handler, handler), core::mem::take(&mut core.held));
        let must_tell = delivery.is_request() && !delivery.has_replied && core.owes(delivery.connection);
        let place = delivery.place.take();
        if must_tell || place.as_ref().is_some_and(Place::is_held) {
            let inbox = core.inbox;
            self.device.nic.with(|engine| {
                if must_tell {
                    core.tell_one(engine, delivery.connection);
                }
                if let Some(place) = place {
                    place.give_back(engine, inbox);
                }
            });
        }
        core.spare = Some(delivery);
        drop(core);
        drop(unused); // With no lock held: it may own anything.
    }

    #[cold]
    fn run_return(&self, mut core: Held<'_, Core<Handler>>, endpoint: EndpointId, handler: Option<Handler>, returned: &Returned) {
        core.running = thread_id();
        drop(core);
        let mut turn = BackTurn { bundle: self, endpoint, handler };
        match &mut turn.handler {
            Some(Handler::Return(handler)) => handler(returned),
            _ => eprintln!("bellwire: an active message ({:?}, handler {}) came back: {}", returned.operation, returned.handler, returned.why()),
        }
    }

    #[cold]
    fn run_departure(&self, mut core: Held<'_, Core<Handler>>, endpoint: EndpointId, handler: Handler, departed: &Departed) {
        core.running = thread_id();
        drop(core);
        let mut turn = BackTurn { bundle: self, endpoint, handler: Some(handler) };
        if let Some(Handler::Departure(handler)) = &mut turn.handler {
            handler(departed);
        }
    }

    /// Somebody has connected to an endpoint that has moved meanwhile: its bundle hears of it.
    #[cold]
    fn forward(&self, vi: ViHandle, endpoint: u64, remote: Box<NetAddress>) {
        let mailbox = self.device.acceptor().mailbox_of(endpoint).copied();
        self.device.nic.with(|engine| match mailbox {
            Some(mailbox) => mailbox.take_over(engine, vi, remote),
            None => engine.end_vi(vi),
        });
    }

    /// Sleeps until there is something to poll for, or `timeout` has passed (`None`: for ever).
    /// `false`: it has passed.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: within a handler. [`Error::InUse`]: in the child of a `fork`.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let end = timeout.map(|t| Instant::now() + t);
        self.trace_as_wanted();
        loop {
            let mut core = self.core();
            if core.running == thread_id() {
                return Err(Error::BadArgument);
            }
            let (inbox, accepted) = (core.inbox, core.accepted);
            let (is_ready, must_send) = self.device.nic.try_with(|engine| {
                core.send_waiting(engine);
                core.tell(engine);
                Ok((engine.inbox_has(inbox) || !core.returns.is_empty() || !core.departures.is_empty(), !core.unsent.is_empty()))
            })?;
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

    /// Whether [`wait_for_event`](Self::wait_for_event) is to return when the bundle is not empty.
    /// It is not, at first.
    pub fn set_event_mask(&self, not_empty: bool) {
        self.core().wants_events = not_empty;
    }

    /// The value that [`set_event_mask`](Self::set_event_mask) has set.
    pub fn event_mask(&self) -> bool {
        self.core().wants_events
    }

    /// Sleeps until an event of the mask: until the bundle is not empty.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait); [`Error::BadArgument`] also: nothing is in the mask, so this
    /// would never return.
    pub fn wait_for_event(&self) -> Result<(), Error> {
        if self.event_mask() { self.wait(None).map(drop) } else { Err(Error::BadArgument) }
    }
}

#[cold]
fn poll_beside(thread: usize) -> Result<usize, Error> {
    if thread == thread_id() {
        return Err(Error::BadArgument);
    }
    std::thread::yield_now();
    Ok(0)
}

/// While a handler of messages runs: whatever it does, it is put back and its message is handled.
struct Turn<'a> {
    bundle: &'a Bundle,
    delivery: Option<Box<Delivery>>,
    handler: Option<Handler>,
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(delivery), Some(handler)) = (self.delivery.take(), self.handler.take()) {
            self.bundle.finish(delivery, handler);
        }
    }
}

/// While an error handler, or one of departures, runs.
struct BackTurn<'a> {
    bundle: &'a Bundle,
    endpoint: EndpointId,
    handler: Option<Handler>,
}

impl Drop for BackTurn<'_> {
    fn drop(&mut self) {
        let mut core = self.bundle.core();
        core.running = 0;
        let unused = self.handler.take().and_then(|handler| match handler {
            Handler::Departure(_) => core.put_back_departure(self.endpoint, handler),
            _ => core.put_back(self.endpoint, 0, handler),
        });
        drop(core);
        drop(unused);
    }
}

impl Bundle {
    /// As [`poll`](Self::poll).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn poll_probed<P: Probe<Stage>>(&self) -> Result<usize, Error> {
        self.poll_any::<P>()
    }
}
