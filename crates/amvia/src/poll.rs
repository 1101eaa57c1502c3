// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polling and waiting: messages are handled on the calling thread, with no lock held.

use crate::arrive::Step;
use crate::carrying::NO_DATA;
use crate::core::Core;
use crate::delivery::Delivery;
use crate::head::{Head, Kind};
use crate::map::State;
use crate::objects::{Bundle, Handler, Message};
use crate::probe::{Off, Probe, Stage};
use crate::vipl::INFINITE;
use bellwire_am::Error;
use bellwire_am::tables::Slot;
use bellwire_memory::token::{Held, thread_id};
use core::marker::PhantomData;
use std::time::{Duration, Instant};

/// Longest sleep while answers wait to leave or connections are made, as no receive tells of that.
const SLICE: Duration = Duration::from_millis(1);
/// Longest sleep while requests are out, which another thread may have come back.
const SLICE_OUT: Duration = Duration::from_millis(100);

impl Bundle {
    /// Handles the next message that has come; returns how many things were done, 0 or 1. 0 also
    /// when another thread is running a handler of this bundle.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: within a handler. [`Error::InUse`]: the NIC is closed, as it is in
    /// the child of a `fork`.
    #[inline(never)]
    pub fn poll(&self) -> Result<usize, Error> {
        self.poll_for::<Off>(true)
    }

    /// As [`poll`](Self::poll), for those who measure.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn poll_probed<P: Probe<Stage>>(&self) -> Result<usize, Error> {
        self.poll_for::<P>(true)
    }

    /// As [`poll`](Self::poll); handlers of requests run only if `may_serve`, else they are queued.
    #[inline]
    pub(crate) fn poll_for<P: Probe<Stage>>(&self, may_serve: bool) -> Result<usize, Error> {
        let mut core = self.core();
        if core.running != 0 {
            let thread = core.running;
            drop(core);
            return poll_beside(thread);
        }
        match core.step::<P>(may_serve)? {
            Step::Nothing => return Ok(0),
            Step::Moved => {}
            Step::Run(delivery, handler) => self.run::<P>(core, delivery, handler),
            Step::Return(endpoint, handler, returned) => {
                let mut turn = self.begin(core, endpoint, handler);
                match &mut turn.handler {
                    Some(Handler::Return(handler)) => handler(&returned),
                    _ => eprintln!("bellwire: an active message ({:?}, handler {}) came back: {}", returned.operation, returned.handler, returned.why),
                }
            }
            Step::Departure(endpoint, handler, departed) => {
                let mut turn = self.begin(core, endpoint, Some(handler));
                if let Some(Handler::Departure(handler)) = &mut turn.handler {
                    handler(&departed);
                }
            }
        }
        Ok(1)
    }

    #[inline]
    fn run<P: Probe<Stage>>(&self, mut core: Held<'_, Core<Handler>>, delivery: Delivery, handler: Handler) {
        core.running = thread_id();
        drop(core);
        let mut turn = Turn { bundle: self, delivery, handler: Some(handler), _probe: PhantomData::<P> };
        if let Some(Handler::Message(handler)) = &mut turn.handler {
            handler(&mut Message { bundle: self, delivery: &mut turn.delivery });
        }
    }

    fn begin<'a>(&'a self, mut core: Held<'_, Core<Handler>>, endpoint: u32, handler: Option<Handler>) -> BackTurn<'a> {
        core.running = thread_id();
        BackTurn { bundle: self, endpoint, handler }
    }

    /// Sleeps until there is something to poll for, or `timeout` has passed (`None`: for ever).
    /// `false`: it has passed.
    ///
    /// # Errors
    /// As of [`poll`](Self::poll).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let end = timeout.map(|t| Instant::now() + t);
        loop {
            let mut core = self.core();
            if core.running == thread_id() {
                return Err(Error::BadArgument);
            }
            core.send_waiting();
            core.pump_all();
            if core.has_something()? {
                return Ok(true);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            let queue = core.queues.first().map(|queues| queues.receive).ok_or(Error::BadArgument)?;
            let is_short = !core.waiting.is_empty()
                || !core.pumping.is_empty()
                || core.queues.len() > 1
                || core.shares
                || core.maps.values().any(|m| m.state == State::Asking);
            let is_out = core.maps.values().any(|m| m.outstanding() != 0);
            drop(core);
            let slice = match (is_short, is_out) {
                (true, _) => Some(SLICE),
                (_, true) => Some(SLICE_OUT),
                _ => None,
            };
            let slice = [slice, left].into_iter().flatten().min();
            let milliseconds = slice.map_or(INFINITE, |slice| (slice.as_millis() as u64).clamp(1, 1 << 30));
            if let Some(vi) = self.inner.shared.nic.cq_wait(queue, milliseconds).map_err(|_| Error::InUse)? {
                self.core().noticed.push_back((vi, 0));
                return Ok(true);
            }
        }
    }

    /// Whether [`wait_for_event`](Self::wait_for_event) is to return when the bundle is not empty.
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
struct Turn<'a, P: Probe<Stage>> {
    bundle: &'a Bundle,
    delivery: Delivery,
    handler: Option<Handler>,
    _probe: PhantomData<P>,
}

impl<P: Probe<Stage>> Drop for Turn<'_, P> {
    fn drop(&mut self) {
        let mut core = self.bundle.core();
        core.running = 0;
        let delivery = &self.delivery;
        let slot = core.endpoints.get_mut(&delivery.endpoint).and_then(|e| e.handlers.slot(delivery.head.handler));
        let unused = self.handler.take().and_then(|handler| Slot::put_back(slot, handler));
        if delivery.head.kind.is_request() && !delivery.has_replied {
            let handled = Head::new(Kind::Handled, 0, delivery.head.slot, &[]);
            core.answer((delivery.map, delivery.lane), handled, NO_DATA, None);
        }
        P::mark(Stage::Finished);
        core.done_with_probed::<P>(delivery);
        drop(core);
        drop(unused); // With no lock held: it may own anything.
    }
}

/// While an error handler, or one of departures, runs.
struct BackTurn<'a> {
    bundle: &'a Bundle,
    endpoint: u32,
    handler: Option<Handler>,
}

impl Drop for BackTurn<'_> {
    fn drop(&mut self) {
        let mut core = self.bundle.core();
        core.running = 0;
        let of = core.endpoints.get_mut(&self.endpoint);
        let unused = self.handler.take().and_then(|handler| {
            let slot = match &handler {
                Handler::Departure(_) => of.map(|e| &mut e.on_departure),
                _ => of.and_then(|e| e.handlers.slot(0)),
            };
            Slot::put_back(slot, handler)
        });
        drop(core);
        drop(unused);
    }
}
