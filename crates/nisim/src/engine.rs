// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual time: a queue of events, and the tasks (programs of processors, engines of NIs) that they wake.
//!
//! A task is a future, polled only by [`Engine::run`]. It gives up the processor by [`Engine::sleep_until`] or by waiting for a [`Signal`], and for one
//! thing at a time: there is no join or select within a task. Events of the same time happen in the order in which they were made.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::time::Time;

type Task = Pin<Box<dyn Future<Output = ()>>>;
type Call = Box<dyn FnOnce()>;

/// Events carry a task's number, or that of a call with this bit.
const CALL: u32 = 1 << 23;

/// When, in which order, and what: in one number, so that the queue compares only numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event(u128);

impl Event {
    /// Bits of what is to happen, and of the place among events of the same time: enough for years of simulation.
    const WHAT: u32 = 24;
    const ORDER: u32 = 40;

    fn new(time: Time, order: u64, what: u32) -> Self {
        debug_assert!(what >> Self::WHAT == 0 && order >> Self::ORDER == 0, "an event's parts fit");
        Self(u128::from(time.0) << 64 | u128::from(order << Self::WHAT | u64::from(what)))
    }

    fn time(self) -> Time {
        Time((self.0 >> 64) as u64)
    }

    fn what(self) -> u32 {
        self.0 as u32 & ((1 << Self::WHAT) - 1)
    }
}

/// Virtual time and what is to happen in it.
#[derive(Default)]
pub struct Engine {
    now: Cell<Time>,
    sequence: Cell<u64>,
    events: RefCell<BinaryHeap<Reverse<Event>>>,
    /// What happens at the present time, behind events of the queue that do: those were made earlier.
    present: RefCell<VecDeque<u32>>,
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

    /// Starts a task at the present time. The run ends when all that are `program`s have ended; the others serve them.
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
        self.push(time, slot | CALL);
    }

    fn push(&self, time: Time, what: u32) {
        debug_assert!(time >= self.now.get(), "events are not in the past");
        if time == self.now.get() {
            return self.present.borrow_mut().push_back(what);
        }
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        self.events.borrow_mut().push(Reverse(Event::new(time, sequence, what)));
    }

    /// The next event, out of the queue.
    fn next(&self) -> Option<(Time, u32)> {
        let (mut events, now) = (self.events.borrow_mut(), self.now.get());
        if events.peek().is_none_or(|Reverse(event)| event.time() != now)
            && let Some(what) = self.present.borrow_mut().pop_front()
        {
            return Some((now, what));
        }
        events.pop().map(|Reverse(event)| (event.time(), event.what()))
    }

    /// Lets time pass until `time`. If nothing happens before, the task goes on at once.
    pub async fn sleep_until(&self, time: Time) {
        if time <= self.now.get() {
            return;
        }
        let quiet = self.present.borrow().is_empty() && self.events.borrow().peek().is_none_or(|Reverse(next)| next.time() > time);
        // Beyond the limit only `run` goes, so that a program that polls forever is found out.
        if quiet && time <= self.limit.get() && self.spawned.borrow().is_empty() {
            self.now.set(time);
            return;
        }
        self.push(time, self.current.get());
        poll_fn(|_| if self.now.get() >= time { Poll::Ready(()) } else { Poll::Pending }).await;
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
            // What was spawned goes first: it starts now.
            for (task, program) in self.spawned.take() {
                programs += usize::from(program);
                self.push(self.now(), tasks.len() as u32);
                tasks.push(Some((task, program)));
            }
            if programs == 0 {
                return Ok(());
            }
            let Some((time, what)) = self.next() else { return Err(Stuck::Deadlock { time: self.now(), programs }) };
            if time > limit {
                return Err(Stuck::TooLong(limit));
            }
            self.now.set(time);
            self.happened.set(self.happened.get() + 1);
            if what & CALL != 0 {
                self.call(what);
                continue;
            }
            self.current.set(what);
            let Some((task, program)) = &mut tasks[what as usize] else { continue };
            if task.as_mut().poll(&mut context).is_ready() {
                programs -= usize::from(*program);
                tasks[what as usize] = None;
            }
        }
    }

    /// Lets what is under way after the end come to its end: calls happen, tasks do nothing any more.
    pub fn settle(&self) {
        while let Some((time, what)) = self.next() {
            self.now.set(time);
            if what & CALL != 0 {
                self.call(what);
            }
        }
    }

    fn call(&self, what: u32) {
        self.free_calls.borrow_mut().push(what & !CALL);
        let call = self.calls.borrow_mut()[(what & !CALL) as usize].take();
        call.into_iter().for_each(|call| call());
    }

    /// Forgets all that was to happen: breaks the circles of references at the end of a simulation.
    pub fn clear(&self) {
        self.events.borrow_mut().clear();
        self.present.borrow_mut().clear();
        self.calls.borrow_mut().clear();
        self.spawned.borrow_mut().clear();
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

    /// Gives it: who waits goes on at the present time.
    pub fn give(&self, engine: &Engine) {
        self.count.set(self.count.get() + 1);
        let now = engine.now();
        self.waiting.borrow_mut().drain(..).for_each(|task| engine.push(now, task));
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
