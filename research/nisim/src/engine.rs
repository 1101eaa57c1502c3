// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual time: a queue of events, and the tasks (programs of processors, engines of NIs) that
//! they wake.
//!
//! A task is a future, polled only by [`Engine::run`]. It gives up the processor by
//! [`Engine::sleep_until`] or by waiting for a [`Signal`], and for one thing at a time: there is no
//! join or select within a task.
//!
//! Events of the same time happen in an order that does not depend on how many others there were:
//! calls first, in the order in which they were made, then tasks in the order in which they were
//! spawned. So a processor that is simulated in fewer steps gives the same times.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::queue::{Event, Queue, What};
use crate::time::Time;

type Task = Pin<Box<dyn Future<Output = ()>>>;
type Call = Box<dyn FnOnce()>;

/// Virtual time and what is to happen in it.
#[derive(Default)]
pub struct Engine {
    now: Cell<Time>,
    sequence: Cell<u64>,
    events: RefCell<Queue>,
    calls: RefCell<Vec<Option<Call>>>,
    free_calls: RefCell<Vec<u32>>,
    spawned: RefCell<Vec<(Task, bool)>>,
    current: Cell<u32>,
    happened: Cell<u64>,
    limit: Cell<Time>,
}

/// How a run ended that did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Programs wait and nothing will happen any more.
    Deadlock {
        /// When.
        time: Time,
        /// How many programs had not ended.
        programs: usize,
    },
    /// The limit of time was reached.
    TooLong(Time),
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deadlock { time, programs } => write!(f, "deadlock at {time}: {programs} programs wait, and nothing will happen"),
            Self::TooLong(time) => write!(f, "the programs have not ended by {time}"),
        }
    }
}

impl std::error::Error for Stuck {}

impl Engine {
    /// The time.
    pub fn now(&self) -> Time {
        self.now.get()
    }

    /// Events so far.
    pub fn happened(&self) -> u64 {
        self.happened.get()
    }

    /// Starts a task at the present time. The run ends when all that are `program`s have ended; the
    /// others serve them.
    pub fn spawn(&self, program: bool, task: impl Future<Output = ()> + 'static) {
        self.spawned.borrow_mut().push((Box::pin(task), program));
    }

    /// Calls `call` at `time`.
    pub fn at(&self, time: Time, call: impl FnOnce() + 'static) {
        let mut calls = self.calls.borrow_mut();
        let slot = self.free_calls.borrow_mut().pop().unwrap_or_else(|| {
            calls.push(None);
            calls.len() as u32 - 1
        });
        calls[slot as usize] = Some(Box::new(call));
        let number = self.sequence.replace(self.sequence.get() + 1);
        self.push(Event::call(time, number, slot));
    }

    fn push(&self, event: Event) {
        debug_assert!(event.time() >= self.now.get(), "events are not in the past");
        self.events.borrow_mut().push(event);
    }

    /// The next event, out of the queue.
    fn next(&self) -> Option<Event> {
        self.events.borrow_mut().pop()
    }

    /// Lets time pass until `time`. If nothing happens before, the task goes on at once.
    pub fn sleep_until(&self, time: Time) -> Sleep<'_> {
        Sleep { engine: self, until: time, asleep: false }
    }

    /// Whether time can pass until `time` at once, as nothing happens before; if so, it does.
    #[inline]
    fn passes(&self, time: Time) -> bool {
        if time <= self.now.get() {
            return true;
        }
        let mut events = self.events.borrow_mut();
        let quiet = events.next_time().is_none_or(|next| next > time);
        // Beyond the limit only `run` goes, so that a program that polls forever is found out.
        let passes = quiet && time <= self.limit.get() && self.spawned.borrow().is_empty();
        if passes {
            events.advance(time);
            self.now.set(time);
        }
        passes
    }

    /// Runs until all programs have ended.
    ///
    /// # Errors
    /// If they cannot end, or have not by `limit`.
    pub fn run(&self, limit: Time) -> Result<(), Stuck> {
        self.limit.set(limit);
        let mut tasks: Vec<Option<(Task, bool)>> = Vec::new();
        let mut programs = 0;
        let mut context = Context::from_waker(Waker::noop());
        loop {
            // A spawned task goes first: it starts now.
            for (task, program) in self.spawned.take() {
                programs += usize::from(program);
                self.push(Event::task(self.now(), tasks.len() as u32));
                tasks.push(Some((task, program)));
            }
            if programs == 0 {
                return Ok(());
            }
            let Some(event) = self.next() else { return Err(Stuck::Deadlock { time: self.now(), programs }) };
            if event.time() > limit {
                return Err(Stuck::TooLong(limit));
            }
            self.now.set(event.time());
            self.happened.set(self.happened.get() + 1);
            let number = match event.what() {
                What::Call(place) => {
                    self.call(place);
                    continue;
                }
                What::Task(number) => number,
            };
            self.current.set(number);
            let Some((task, program)) = &mut tasks[number as usize] else { continue };
            if task.as_mut().poll(&mut context).is_ready() {
                programs -= usize::from(*program);
                tasks[number as usize] = None;
            }
        }
    }

    /// Lets what is under way after the end come to its end: calls happen, tasks do nothing any
    /// more.
    pub fn settle(&self) {
        while let Some(event) = self.next() {
            self.now.set(event.time());
            if let What::Call(place) = event.what() {
                self.call(place);
            }
        }
    }

    fn call(&self, place: u32) {
        self.free_calls.borrow_mut().push(place);
        let call = self.calls.borrow_mut()[place as usize].take();
        call.into_iter().for_each(|call| call());
    }

    /// Forgets all that was to happen: breaks the circles of references at the end of a simulation.
    pub fn clear(&self) {
        self.events.borrow_mut().clear();
        self.calls.borrow_mut().clear();
        self.spawned.borrow_mut().clear();
    }
}

/// A task's wait for a time.
pub struct Sleep<'a> {
    engine: &'a Engine,
    until: Time,
    asleep: bool,
}

impl Future for Sleep<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let engine = self.engine;
        if self.asleep {
            return if engine.now.get() >= self.until { Poll::Ready(()) } else { Poll::Pending };
        }
        if engine.passes(self.until) {
            return Poll::Ready(());
        }
        self.asleep = true;
        engine.push(Event::task(self.until, engine.current.get()));
        Poll::Pending
    }
}

/// Something that tasks wait for: a number that rises.
#[derive(Default)]
pub struct Signal {
    count: Cell<u64>,
    waiting: RefCell<Vec<u32>>,
}

impl Signal {
    /// How often it was given.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Gives it: the waiter goes on at the present time.
    pub fn give(&self, engine: &Engine) {
        self.count.set(self.count.get() + 1);
        let now = engine.now();
        self.waiting.borrow_mut().drain(..).for_each(|task| engine.push(Event::task(now, task)));
    }

    /// Waits until it was given more than `seen` times.
    pub async fn past(&self, engine: &Rc<Engine>, seen: u64) {
        if self.count.get() > seen {
            return;
        }
        self.waiting.borrow_mut().push(engine.current.get());
        poll_fn(|_| if self.count.get() > seen { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}
