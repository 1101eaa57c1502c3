// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of this node that are under way, or over and not yet looked at.
//!
//! Invariant E1: a call goes from under way to over once, in [`Calls::end`]; whatever comes later
//! names a use of its place that is over, and is dropped.

use crate::assembly::Assembly;
use crate::error::CallError;
use crate::wire::{CallId, INLINE_MAX};
use std::task::Waker;
use std::time::Instant;

/// Results up to so many bytes are kept without memory of their own: those that come within the
/// arguments.
const SMALL_MAX: usize = INLINE_MAX;

/// A result as it came.
#[derive(Debug)]
pub(crate) enum Data {
    Small([u8; SMALL_MAX], u8),
    Large(Vec<u8>),
}

impl Data {
    /// Data of at most as many bytes, in as many.
    #[inline]
    pub(crate) fn small(bytes: [u8; SMALL_MAX], length: usize) -> Self {
        debug_assert!(length <= SMALL_MAX);
        Self::Small(bytes, length as u8)
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.len() > SMALL_MAX {
            return Self::Large(bytes.to_vec());
        }
        let mut small = [0; SMALL_MAX];
        small[..bytes.len()].copy_from_slice(bytes);
        Self::Small(small, bytes.len() as u8)
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Small(bytes, length) => &bytes[..usize::from(*length)],
            Self::Large(bytes) => bytes,
        }
    }
}

/// How a call ended.
pub(crate) type Outcome = Result<Data, CallError>;

#[derive(Debug)]
enum State {
    Free,
    UnderWay,
    Over(Outcome),
}

/// A place for a call.
#[derive(Debug)]
pub(crate) struct Slot {
    generation: u32,
    state: State,
    /// Where it went, and which of the names known there it used.
    pub(crate) route: u32,
    pub(crate) known: u32,
    pub(crate) deadline: Option<Instant>,
    /// The waiter for its end.
    pub(crate) waker: Option<Waker>,
    /// A large result that is arriving.
    pub(crate) assembly: Option<Assembly>,
}

/// How far the call of a place is.
pub(crate) enum Stage<'a> {
    UnderWay,
    /// It has ended, by a result or an error.
    Over(Option<&'a CallError>),
    /// Its outcome was taken.
    Taken,
}

/// A place, for those that compare.
pub(crate) struct Place<'a> {
    pub generation: u32,
    pub route: u32,
    pub known: u32,
    pub stage: Stage<'a>,
}

/// What a call that has ended leaves.
pub(crate) struct Ended {
    pub route: u32,
    pub assembly: Option<Assembly>,
    pub waker: Option<Waker>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Not later than the first deadline of a call under way; `None`: there is none.
    pub(crate) first_deadline: Option<Instant>,
}

impl Calls {
    /// A new call.
    #[inline]
    pub(crate) fn begin(&mut self, route: u32, known: u32, deadline: Option<Instant>) -> CallId {
        if let Some(deadline) = deadline {
            self.first_deadline = Some(self.first_deadline.map_or(deadline, |first| first.min(deadline)));
        }
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::UnderWay;
        (slot.route, slot.known, slot.deadline) = (route, known, deadline);
        CallId { index, generation: slot.generation }
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Slot { generation: 0, state: State::Free, route: 0, known: 0, deadline: None, waker: None, assembly: None });
        self.slots.len() as u32 - 1
    }

    /// A call that is under way.
    #[inline]
    pub(crate) fn under_way(&mut self, id: CallId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation && matches!(slot.state, State::UnderWay))
    }

    /// Ends a call that is under way.
    #[inline]
    pub(crate) fn end(&mut self, id: CallId, outcome: Outcome) -> Option<Ended> {
        let slot = self.under_way(id)?;
        slot.state = State::Over(outcome);
        Some(Ended { route: slot.route, assembly: slot.assembly.take(), waker: slot.waker.take() })
    }

    /// Whether a call is over, and perhaps taken.
    #[inline]
    pub(crate) fn is_over(&self, id: CallId) -> bool {
        self.slots.get(id.index as usize).is_none_or(|slot| slot.generation != id.generation || !matches!(slot.state, State::UnderWay))
    }

    /// Takes the outcome of a call that is over; its place is free then.
    #[inline]
    pub(crate) fn take(&mut self, id: CallId) -> Option<Outcome> {
        let slot = self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        match core::mem::replace(&mut slot.state, State::Free) {
            State::Over(outcome) => {
                self.free.push(id.index);
                Some(outcome)
            }
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// Calls under way that `which` picks.
    pub(crate) fn pick(&self, which: impl Fn(&Slot) -> bool) -> Vec<CallId> {
        let under_way = self.slots.iter().zip(0..).filter(|(slot, _)| matches!(slot.state, State::UnderWay) && which(slot));
        under_way.map(|(slot, index)| CallId { index, generation: slot.generation }).collect()
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.slots.len()
    }

    /// A place as it is now, for those that compare.
    pub(crate) fn place(&self, at: usize) -> Option<Place<'_>> {
        let slot = self.slots.get(at)?;
        let stage = match &slot.state {
            State::UnderWay => Stage::UnderWay,
            State::Over(outcome) => Stage::Over(outcome.as_ref().err()),
            State::Free => Stage::Taken,
        };
        Some(Place { generation: slot.generation, route: slot.route, known: slot.known, stage })
    }

    /// Finds the first deadline anew.
    pub(crate) fn look_for_deadlines(&mut self) {
        let under_way = self.slots.iter().filter(|slot| matches!(slot.state, State::UnderWay));
        self.first_deadline = under_way.filter_map(|slot| slot.deadline).min();
    }
}
