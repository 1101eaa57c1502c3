// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of sessions: those that are up, those being made, and free places. A session id names
//! its place, so that no packet costs a search.

use crate::ids::SessionId;
use crate::opening::{Half, Opening};
use crate::session::Session;
use std::collections::VecDeque;

/// The content of a place.
#[derive(Debug)]
pub(crate) enum Place<B> {
    Free,
    /// We began, and wait for an answer.
    Opening(Box<Opening>),
    /// A peer began, and has not shown that it got our answer.
    Half(Box<Half>),
    /// Up, closing, or down with something to be fetched.
    Live(Box<Session<B>>),
}

/// Queues that a place stands in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    pub(crate) transmit: bool,
    pub(crate) deliver: bool,
}

/// All places.
#[derive(Debug)]
pub(crate) struct Places<B> {
    places: Vec<Place<B>>,
    generations: Vec<u16>,
    pub(crate) queued: Vec<Queued>,
    /// First freed, first used again: old ids stay void for long.
    free: VecDeque<u16>,
    max: usize,
}

impl<B> Places<B> {
    pub(crate) fn new(max: usize) -> Self {
        Self { places: Vec::new(), generations: Vec::new(), queued: Vec::new(), free: VecDeque::new(), max }
    }

    /// Puts something into a free place. It is told its id; `None`: there is none.
    pub(crate) fn insert(&mut self, random: u32, make: impl FnOnce(SessionId) -> Place<B>) -> Option<SessionId> {
        let slot = if self.places.len() < self.max {
            self.places.push(Place::Free);
            self.generations.push(0);
            self.queued.push(Queued::default());
            (self.places.len() - 1) as u16
        } else {
            self.free.pop_front()?
        };
        let generation = &mut self.generations[usize::from(slot)];
        *generation = generation.wrapping_add(1);
        let id = SessionId::new(slot, *generation, random);
        self.places[usize::from(slot)] = make(id);
        Some(id)
    }

    /// Frees a place.
    pub(crate) fn remove(&mut self, id: SessionId) -> Place<B> {
        self.free.push_back(id.slot() as u16);
        core::mem::replace(&mut self.places[id.slot()], Place::Free)
    }

    /// Puts something else into a place that is taken.
    pub(crate) fn replace(&mut self, id: SessionId, by: Place<B>) {
        debug_assert!(!matches!(self.places[id.slot()], Place::Free));
        self.places[id.slot()] = by;
    }

    /// A place with everything in it.
    #[inline]
    pub(crate) fn at(&mut self, slot: usize) -> &mut Place<B> {
        &mut self.places[slot]
    }

    /// A place by a number that a stranger may have written.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<&Place<B>> {
        self.places.get(slot)
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut Place<B>> {
        self.places.get_mut(slot)
    }

    /// The session of an id that a stranger may have written, whatever its generation.
    pub(crate) fn live_at(&mut self, slot: usize) -> Option<&mut Session<B>> {
        match self.places.get_mut(slot) {
            Some(Place::Live(s)) => Some(s),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn live(&mut self, id: SessionId) -> Option<&mut Session<B>> {
        match self.places.get_mut(id.slot()) {
            Some(Place::Live(s)) if s.id == id => Some(s),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn live_ref(&self, id: SessionId) -> Option<&Session<B>> {
        match self.places.get(id.slot()) {
            Some(Place::Live(s)) if s.id == id => Some(s),
            _ => None,
        }
    }

    /// The id of a session that is up, closing or down.
    #[inline]
    pub(crate) fn id_at(&self, slot: usize) -> Option<SessionId> {
        match self.places.get(slot) {
            Some(Place::Live(s)) => Some(s.id),
            _ => None,
        }
    }

    pub(crate) fn opening_ref(&self, id: SessionId) -> Option<&Opening> {
        match self.places.get(id.slot()) {
            Some(Place::Opening(o)) if o.id == id => Some(o),
            _ => None,
        }
    }

    pub(crate) fn opening(&mut self, id: SessionId) -> Option<&mut Opening> {
        match self.places.get_mut(id.slot()) {
            Some(Place::Opening(o)) if o.id == id => Some(o),
            _ => None,
        }
    }

    pub(crate) fn half(&self, id: SessionId) -> Option<&Half> {
        match self.places.get(id.slot()) {
            Some(Place::Half(h)) if h.id == id => Some(h),
            _ => None,
        }
    }

    pub(crate) fn half_mut(&mut self, id: SessionId) -> Option<&mut Half> {
        match self.places.get_mut(id.slot()) {
            Some(Place::Half(h)) if h.id == id => Some(h),
            _ => None,
        }
    }

    /// Places taken.
    pub(crate) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
