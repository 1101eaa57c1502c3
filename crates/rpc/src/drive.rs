// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polling and waiting.
//!
//! Of threads that wait on one node one *drives*: it polls and sleeps on the NIC. The others
//! follow: they are woken when what they wait for has happened, or when the driver leaves.

use crate::calls::Outcome;
use crate::error::{CallError, Error};
use crate::names::Outstanding;
use crate::node::Node;
use crate::state::State;
use crate::wire::CallId;
use bellwire_memory::atomic::{AtomicBool, Ordering};
use core::future::Future;
use core::task::{Context, Poll, Waker};
use std::pin::pin;
use std::sync::Arc;
use std::task::Wake;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Polls without success before a wait sleeps.
const POLLS_IN_VAIN_MAX: u32 = 64;
/// Of the polls while there are deadlines, one in so many looks at the clock.
const POLLS_PER_CLOCK: u32 = 16;
/// Longest sleep of the driving thread, and of a following one.
pub(crate) const SLICE: Duration = Duration::from_millis(50);
/// Longest sleep while something waits to leave; while another thread may answer a call.
pub(crate) const SLICE_UNSENT: Duration = Duration::from_millis(1);
const SLICE_DEFERRED: Duration = Duration::from_millis(5);

/// Wakes a thread.
pub(crate) struct Unpark(Thread);

impl Unpark {
    /// A waker of this thread.
    pub(crate) fn waker() -> Waker {
        Waker::from(Arc::new(Self(std::thread::current())))
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Node {
    /// Handles what has come, at most one message, and sends what waits. Returns how many things
    /// were done, 0 or 1.
    ///
    /// # Errors
    /// [`Error::WrongMoment`]: within a handler; [`Error::Messages`]: in the child of a `fork`.
    #[inline]
    pub fn poll(&self) -> Result<usize, Error> {
        let handled = self.poll_messages()?;
        let state = self.inner.state();
        if !state.is_quiet() {
            drop(state);
            self.look_after(false);
        }
        Ok(handled)
    }

    #[inline]
    fn poll_messages(&self) -> Result<usize, Error> {
        self.bundle.poll().map_err(|e| match e {
            bellwire_am::Error::BadArgument => Error::WrongMoment,
            e => e.into(),
        })
    }

    /// Sleeps until there is something to poll for, or `time` has passed. `false`: it has.
    ///
    /// # Errors
    /// As of [`poll`](Self::poll).
    pub fn wait(&self, time: Option<Duration>) -> Result<bool, Error> {
        let end = time.map(|time| Instant::now() + time);
        loop {
            self.look_after(true);
            let mut slice = self.slice();
            if let Some(end) = end {
                slice = slice.min(end.saturating_duration_since(Instant::now()));
            }
            let is_there = self.bundle.wait(Some(slice)).map_err(|e| if e == bellwire_am::Error::BadArgument { Error::WrongMoment } else { e.into() })?;
            if is_there || end.is_some_and(|end| Instant::now() >= end) {
                self.look_after(true);
                return Ok(is_there);
            }
        }
    }

    /// How long a sleep may be.
    fn slice(&self) -> Duration {
        let state = self.inner.state();
        let mut slice = if !state.unsent.is_empty() {
            SLICE_UNSENT
        } else if state.deferred != 0 {
            SLICE_DEFERRED
        } else {
            SLICE
        };
        if let Some(first) = state.calls.first_deadline {
            slice = slice.min(first.saturating_duration_since(Instant::now()));
        }
        slice
    }

    /// Polls, sleeping in between, until `is_done`, which is asked after each message and at least
    /// 20 times a second.
    ///
    /// # Errors
    /// As of [`poll`](Self::poll).
    pub fn drive(&self, mut is_done: impl FnMut() -> bool) -> Result<(), Error> {
        self.wait_until(&mut |_| is_done(), &mut |_| Some(SLICE))
    }

    /// Runs a future on this thread, polling the node meanwhile.
    ///
    /// # Errors
    /// As of [`poll`](Self::poll).
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        struct Flag(AtomicBool, Thread);
        impl Wake for Flag {
            fn wake(self: Arc<Self>) {
                // Release: the cause of waking was done before; pairs with the swap in block_on().
                self.0.store(true, Ordering::Release);
                self.1.unpark();
            }
        }
        let flag = Arc::new(Flag(AtomicBool::new(true), std::thread::current()));
        let waker = Waker::from(Arc::clone(&flag));
        let mut future = pin!(future);
        loop {
            // Acquire: pairs with wake().
            if flag.0.swap(false, Ordering::Acquire)
                && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Ok(output);
            }
            // Acquire: as above.
            self.drive(|| flag.0.load(Ordering::Acquire))?;
        }
    }

    /// Drives, or follows who does, until `is_done`, which is asked with no lock held. `follow`
    /// arranges that this thread is woken then, and says how long it may sleep at most; `None`: not
    /// at all, for it is done.
    #[inline]
    pub(crate) fn wait_until(&self, is_done: &mut dyn FnMut(&Self) -> bool, follow: &mut dyn FnMut(&mut State) -> Option<Duration>) -> Result<(), Error> {
        while !is_done(self) {
            let mut state = self.inner.state();
            if !core::mem::replace(&mut state.is_driven, true) {
                drop(state);
                let driver = Driver(self);
                let outcome = self.drive_until(is_done);
                drop(driver);
                return outcome;
            }
            let Some(slice) = follow(&mut state) else { continue };
            state.followers.push(std::thread::current());
            drop(state);
            if self.bundle.is_in_handler() {
                self.unfollow();
                return Err(Error::WrongMoment);
            }
            std::thread::park_timeout(slice);
            self.unfollow();
        }
        Ok(())
    }

    /// Waits for a call and takes its outcome; `None`: it was taken. As
    /// [`wait_until`](Self::wait_until), with fewer looks at the state while this thread drives.
    #[inline]
    pub(crate) fn wait_alone(&self, id: CallId) -> Result<Option<Outcome>, Error> {
        let mut state = self.inner.state();
        if state.calls.is_over(id) {
            return Ok(state.calls.take(id));
        }
        if core::mem::replace(&mut state.is_driven, true) {
            drop(state);
            self.wait_for(Outstanding(id))?;
            return Ok(self.inner.state().calls.take(id));
        }
        drop(state);
        let driver = Driver(self);
        for _ in 0..POLLS_IN_VAIN_MAX {
            self.poll_messages()?;
            let mut state = self.inner.state();
            if let Some(outcome) = state.calls.take(id) {
                core::mem::forget(driver);
                let next = state.stop_driving();
                drop(state);
                if let Some(thread) = next {
                    thread.unpark();
                }
                return Ok(Some(outcome));
            }
            if !state.is_quiet() {
                break;
            }
        }
        self.drive_until(&mut |node| node.is_done(Outstanding(id)))?;
        drop(driver);
        Ok(self.inner.state().calls.take(id))
    }

    fn unfollow(&self) {
        let me = std::thread::current().id();
        self.inner.state().followers.retain(|thread| thread.id() != me);
    }

    #[inline]
    fn drive_until(&self, is_done: &mut dyn FnMut(&Self) -> bool) -> Result<(), Error> {
        let mut in_vain = 0;
        loop {
            let handled = self.poll()?;
            if is_done(self) {
                return Ok(());
            }
            in_vain = if handled != 0 { 0 } else { in_vain + 1 };
            if in_vain >= POLLS_IN_VAIN_MAX {
                in_vain = 0;
                let slice = self.slice();
                self.bundle.wait(Some(slice))?;
                self.look_after(true);
            }
        }
    }

    /// Sends what waits, and ends calls whose time is over.
    #[cold]
    fn look_after(&self, has_time: bool) {
        let mut wakers = self.flush();
        let mut state = self.inner.state();
        state.polls = state.polls.wrapping_add(1);
        if let Some(first) = state.calls.first_deadline
            && (has_time || state.polls.is_multiple_of(POLLS_PER_CLOCK))
        {
            let now = Instant::now();
            if now >= first {
                for id in state.calls.pick(|slot| slot.deadline.is_some_and(|deadline| deadline <= now)) {
                    wakers.extend(state.give_up(id, CallError::Deadline));
                }
                state.calls.look_for_deadlines();
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sends what waits.
    pub(crate) fn send_now(&self) {
        self.flush().into_iter().for_each(Waker::wake);
    }

    fn flush(&self) -> Vec<Waker> {
        let mut guard = self.inner.state();
        let state = &mut *guard;
        for index in core::mem::take(&mut state.unmapped) {
            // It was mapped; nothing else unmaps.
            let _ = self.bundle.unmap(state.endpoint, index);
        }
        let mut wakers = Vec::new();
        let mut at = 0;
        while let Some(&index) = state.unsent.get(at) {
            if state.route_mut(index).is_some_and(|route| route.is_broken && !route.queue.is_empty()) {
                let _ = state.prepare(&self.bundle, index);
            }
            let endpoint = state.endpoint;
            let Some(route) = state.route_mut(index) else {
                state.unsent.swap_remove(at);
                continue;
            };
            match route.send_waiting(&self.bundle, endpoint, index) {
                Ok(true) => {
                    route.is_listed = false;
                    state.unsent.swap_remove(at);
                }
                Ok(false) => at += 1,
                Err(e) => {
                    // This message can never be sent: it is dropped, and its call, if it belongs to
                    // one, ends.
                    let call = route.queue.pop_front().and_then(|out| out.call);
                    wakers.extend(call.and_then(|id| state.end(id, Err(CallError::NotStarted(e.into())))));
                }
            }
        }
        wakers
    }
}

impl State {
    /// Nobody drives any more: the thread to wake for it.
    #[inline]
    fn stop_driving(&mut self) -> Option<Thread> {
        self.is_driven = false;
        self.followers.pop()
    }
}

/// The driving thread.
struct Driver<'n>(&'n Node);

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let next = self.0.inner.state().stop_driving();
        if let Some(thread) = next {
            thread.unpark();
        }
    }
}
