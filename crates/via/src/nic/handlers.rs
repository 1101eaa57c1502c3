// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notify handlers and the error handler.
//!
//! A handler waits in [`Handlers`] (under the token) and the engine is asked for one event per
//! handler. The helper thread takes the event, dequeues what it is about, pairs it with the oldest
//! handler, lets the token go and runs the pair (N2). When a poll was quicker, the engine is asked
//! again.

use super::handler_list::{CqHandler, ErrorHandler, QueueHandler};
use super::port::{DUTY, EVENTS};
use super::state::Shared;
use super::{Core, lock};
use crate::complete::Completion;
use crate::error::Error;
use crate::event::{AsyncError, Event};
use crate::handles::{CqHandle, ViHandle, WorkQueueKind};
use bellwire_memory::token::Claim;
use core::panic::AssertUnwindSafe;
use std::collections::VecDeque;

/// Handlers that may wait at a time, of all queues.
const HANDLERS_MAX: usize = 1 << 16;
/// Errors kept for a handler that is set later.
const ERRORS_KEPT_MAX: usize = 64;

/// Something to do without the token.
pub(super) enum Job {
    /// A completion for its handler.
    Queue(QueueHandler, ViHandle, Completion),
    /// An entry for its handler.
    Cq(CqHandler, ViHandle, WorkQueueKind),
    /// An asynchronous error.
    Error(AsyncError),
    /// Handlers whose object is gone: their owners' values are dropped.
    Discard(Discarded),
}

/// Handlers that will not be called.
#[derive(Default)]
pub(super) struct Discarded {
    queues: Vec<VecDeque<QueueHandler>>,
    cqs: Vec<VecDeque<CqHandler>>,
}

/// Takes the engine's events and pairs them with handlers. With the token held.
pub(super) fn collect(core: &mut Core, jobs: &mut Vec<Job>) {
    core.events_told = false;
    // As many as there are now: a notify that is asked for again may bring its event at once.
    while let Some(event) = core.engine.poll_event() {
        match event {
            Event::AsyncError(error) => jobs.push(Job::Error(error)),
            Event::Notify(vi, queue) => {
                let done = match queue {
                    WorkQueueKind::Send => core.engine.send_done(vi),
                    WorkQueueKind::Receive => core.engine.receive_done(vi),
                };
                match done {
                    Ok(Some(completion)) => jobs.extend(core.handlers.pop_queue((vi, queue)).map(|h| Job::Queue(h, vi, completion))),
                    // A poll was quicker.
                    Ok(None) => drop(core.engine.notify(vi, queue)),
                    Err(_) => {}
                }
            }
            Event::NotifyCq(cq) => match core.engine.cq_done(cq) {
                Ok(Some((vi, queue))) => jobs.extend(core.handlers.pop_cq(cq).map(|h| Job::Cq(h, vi, queue))),
                Ok(None) => drop(core.engine.notify_cq(cq)),
                Err(_) => {}
            },
        }
    }
}

/// Handlers of objects that are no more. With the token held; drop them without it.
pub(super) fn take_orphans(nic: &mut Core) -> Option<Job> {
    let Core { handlers, engine, .. } = nic;
    let mut gone = Discarded::default();
    handlers.queues.retain(|(vi, _), q| {
        let alive = engine.vis.get(*vi).is_some();
        if !alive {
            handlers.count -= q.len();
            gone.queues.push(core::mem::take(q));
        }
        alive
    });
    handlers.cqs.retain(|cq, q| {
        let alive = engine.has_cq(*cq);
        if !alive {
            handlers.count -= q.len();
            gone.cqs.push(core::mem::take(q));
        }
        alive
    });
    (!gone.queues.is_empty() || !gone.cqs.is_empty()).then_some(Job::Discard(gone))
}

/// Runs jobs in order, on the helper thread. A handler that panics has been called.
pub(super) fn run(shared: &Shared, jobs: &mut Vec<Job>) {
    for job in jobs.drain(..) {
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| match job {
            Job::Queue(handler, vi, completion) => handler(vi, completion),
            Job::Cq(handler, vi, queue) => handler(vi, queue),
            Job::Error(error) => report(shared, error),
            Job::Discard(gone) => drop(gone),
        }));
        if outcome.is_err() {
            eprintln!("bellwire: a handler panicked");
        }
    }
}

fn report(shared: &Shared, error: AsyncError) {
    let handler = {
        let mut errors = lock(&shared.errors);
        if errors.handler.is_none() {
            if errors.kept.len() == ERRORS_KEPT_MAX {
                errors.kept.pop_front();
            }
            errors.kept.push_back(error);
        }
        errors.handler.clone()
    };
    match handler {
        Some(handler) => handler(error),
        None => log(error),
    }
}

/// The report that VIA asks for when there is no handler.
fn log(error: AsyncError) {
    let of = match (error.vi, error.cq) {
        (_, Some(cq)) => format!(" on completion queue {cq:?}"),
        (Some(vi), None) => format!(" on VI {vi:?}"),
        (None, None) => String::new(),
    };
    // One write: the processes of a job hear of a death together, and would mix their pieces.
    let line = format!("bellwire: asynchronous error: {:?}{of}\n", error.code);
    eprint!("{line}");
}

/// Tells a handler of the errors that came before it. On the helper thread.
pub(super) fn report_kept(shared: &Shared) {
    loop {
        let next = {
            let mut errors = lock(&shared.errors);
            errors.handler.clone().and_then(|h| errors.kept.pop_front().map(|e| (h, e)))
        };
        let Some((handler, error)) = next else { return };
        if std::panic::catch_unwind(AssertUnwindSafe(|| handler(error))).is_err() {
            eprintln!("bellwire: a handler panicked");
        }
    }
}

/// `watched`: errors are to be heard of even while the application computes.
pub(super) fn set_error_handler(shared: &Shared, handler: Option<ErrorHandler>, watched: bool) {
    let old = {
        let mut errors = lock(&shared.errors);
        core::mem::replace(&mut errors.handler, handler)
    };
    drop(old);
    let mut core = shared.token.enter(Claim::Bias);
    core.watched = watched;
    core.tell(&shared.port, EVENTS);
}

pub(super) fn notify(shared: &Shared, vi: ViHandle, queue: WorkQueueKind, handler: QueueHandler) -> Result<(), Error> {
    add(shared, |core| {
        core.engine.notify(vi, queue)?;
        core.handlers.queues.entry((vi, queue)).or_default().push_back(handler);
        Ok(())
    })
}

pub(super) fn notify_cq(shared: &Shared, cq: CqHandle, handler: CqHandler) -> Result<(), Error> {
    add(shared, |core| {
        core.engine.notify_cq(cq)?;
        core.handlers.cqs.entry(cq).or_default().push_back(handler);
        Ok(())
    })
}

fn add(shared: &Shared, insert: impl FnOnce(&mut Core) -> Result<(), Error>) -> Result<(), Error> {
    let mut orphans = None;
    let outcome = {
        let mut core = shared.token.enter(Claim::Bias);
        if core.handlers.count >= 64 && core.handlers.count.is_power_of_two() {
            orphans = take_orphans(&mut core);
        }
        let outcome = if core.handlers.count >= HANDLERS_MAX { Err(Error::Resource) } else { insert(&mut core) };
        if outcome.is_ok() {
            core.handlers.count += 1;
            if core.deep_until != crate::time::Instant(0) && (core.bell_is_waiters || !core.lingers) {
                core.tell(&shared.port, DUTY);
            }
        }
        if core.needs_settling() {
            core.settle(shared);
        }
        outcome
    };
    drop(orphans);
    outcome
}
