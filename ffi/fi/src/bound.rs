// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint and what it is bound to: where its completions go.
//!
//! Locks are taken in this order: the list of endpoints of a queue, the endpoint, the queue's entries.

use crate::av::AvShared;
use crate::cm::Connector;
use crate::counter::CounterShared;
use crate::domain::DomainShared;
use crate::queue::{CqShared, Direct};
use crate::shared::ReceiveContext;
use bellwire_memory::atomic::{AtomicBool, AtomicU64, Ordering};
use bellwire_tag::{Completion, Endpoint, Failure, Name, Notes, Sink, Verdict};
use core::ffi::c_int;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Counters by what they count.
#[derive(Clone, Copy)]
pub(crate) enum Counted {
    Send,
    Receive,
    Read,
    Write,
    RemoteRead,
    RemoteWrite,
}

/// What the numbers mean by which calls name peers.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Addressing {
    /// They are the address vector's.
    #[default]
    Plain,
    /// Nothing: there is one peer.
    Pair,
    /// So many of the highest bits say which context of a scalable endpoint.
    Contexts(u32),
}

/// Numbers below those that say which context; so an address vector for scalable endpoints has not more names than this.
pub(crate) const CONTEXT_SHIFT: u32 = 14;

impl Addressing {
    /// The number by which the endpoint knows a peer.
    #[cold]
    pub(crate) fn number(self, named: u64) -> u64 {
        match self {
            Self::Plain => named,
            Self::Pair => crate::cm::PEER,
            Self::Contexts(bits) => {
                let (context, at) = (named >> (64 - bits), named & (u64::MAX >> bits));
                if at >> CONTEXT_SHIFT == 0 { at | context << CONTEXT_SHIFT } else { crate::flags::ADDR_NONE }
            }
        }
    }
}

/// What an endpoint is bound to; fixed when it is enabled.
#[derive(Clone, Default)]
pub(crate) struct Bindings {
    pub addressing: Addressing,
    pub tx: Option<Arc<CqShared>>,
    pub rx: Option<Arc<CqShared>>,
    /// Only what asks for it completes there.
    pub tx_selective: bool,
    pub rx_selective: bool,
    pub counters: [Option<Arc<CounterShared>>; 6],
    pub av: Option<Arc<AvShared>>,
    /// Receives that it shares with others, in place of its own.
    pub receives: Option<Arc<ReceiveContext>>,
}

/// An endpoint.
pub(crate) struct EpShared {
    pub endpoint: Endpoint,
    pub domain: Arc<DomainShared>,
    pub bindings: OnceLock<Bindings>,
    /// Of those that are connected in pairs.
    pub connector: Option<Connector>,
    /// Polls by the program, for the thread that stands in.
    polls: AtomicU64,
    counts_polls: AtomicBool,
    closing: AtomicBool,
    /// Other objects of it, with operation flags of their own.
    pub aliases: AtomicU64,
    /// Bytes before each message in the program's buffers.
    prefix: usize,
}

impl EpShared {
    pub(crate) fn new(endpoint: Endpoint, domain: Arc<DomainShared>, connector: Option<Connector>, prefix: usize) -> Self {
        let (counts_polls, closing) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { endpoint, domain, bindings: OnceLock::new(), connector, polls: AtomicU64::new(0), counts_polls, closing, aliases: AtomicU64::new(0), prefix }
    }

    /// Who hears of completions.
    #[inline]
    pub(crate) fn report(&self) -> Report<'_> {
        Report { ep: self, direct: None }
    }

    /// One look by who reads a queue: takes up to `most` things that are there. `false`: there was nothing, and if it is time to others should run.
    #[inline]
    pub(crate) fn step_into(&self, direct: &mut Direct, most: u32) -> bool {
        self.note_poll();
        let has_moved = self.endpoint.poll_some(&mut Report { ep: self, direct: Some(direct) }, most).unwrap_or(false);
        self.domain.triggers.look();
        has_moved
    }

    #[inline]
    fn note_poll(&self) {
        // Relaxed, all of it: hints for the thread that stands in.
        if self.counts_polls.load(Ordering::Relaxed) {
            self.polls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One look, by the program. `false`: there was nothing.
    #[inline]
    pub(crate) fn step(&self) -> bool {
        self.note_poll();
        self.step_unseen()
    }

    /// One look by the thread that stands in.
    #[inline]
    pub(crate) fn step_unseen(&self) -> bool {
        let has_moved = self.endpoint.poll(&mut self.report()).unwrap_or(false);
        self.domain.triggers.look();
        has_moved
    }

    /// A thread stands in when nobody polls: it wants to know. `false`: one does already.
    pub(crate) fn count_polls(&self) -> bool {
        // Relaxed: as above; of several callers one is the first.
        !self.counts_polls.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn polls(&self) -> u64 {
        // Relaxed: a hint.
        self.polls.load(Ordering::Relaxed)
    }

    pub(crate) fn is_closing(&self) -> bool {
        // Relaxed: only ends a loop.
        self.closing.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        // Relaxed: only ends a loop.
        self.closing.store(true, Ordering::Relaxed);
        self.endpoint.close(&mut self.report());
        self.endpoint.wake();
    }

    /// Lets others run after empty polls. No lock is held that others may want.
    pub(crate) fn give_way(&self) {
        self.endpoint.give_way(&mut self.report());
    }

    /// Sleeps until something comes, or `until`, at most so long.
    pub(crate) fn wait(&self, at_most: Duration, until: impl Fn() -> bool) {
        let _ = self.endpoint.wait(&mut self.report(), Some(at_most), until);
    }
}

/// Hands completions to the queues and counters of an endpoint.
pub(crate) struct Report<'a> {
    ep: &'a EpShared,
    /// Where those are written that are for the queue which is being read.
    direct: Option<&'a mut Direct>,
}

impl Report<'_> {
    /// A message's length is that with its prefix.
    #[cold]
    fn push_prefixed(&self, cq: &CqShared, c: &Completion) {
        let is_message = c.failure.is_none() && c.notes.contains(Notes::RECEIVE);
        cq.push(&Completion { length: c.length + if is_message { self.ep.prefix } else { 0 }, ..*c });
    }
}

impl Sink for Report<'_> {
    #[inline]
    fn done(&mut self, c: &Completion) {
        let Some(b) = self.ep.bindings.get() else { return };
        let is_receive = c.notes.intersects(Notes::RECEIVE | Notes::REMOTE_WRITE | Notes::REMOTE_READ);
        if let Some(counter) = counted(c.notes).and_then(|which| b.counters[which as usize].as_ref()) {
            counter.count(c.failure.is_some());
        }
        let is_told = !c.silent || c.failure.is_some() || c.notes.contains(Notes::RELEASED);
        if is_told && let Some(cq) = if is_receive { &b.rx } else { &b.tx } {
            if self.ep.prefix != 0 {
                return self.push_prefixed(cq, c);
            }
            if let Some(direct) = &mut self.direct
                && direct.take(cq, c)
            {
                return;
            }
            cq.push(c);
        }
    }

    #[inline]
    fn has_enough(&self) -> bool {
        self.direct.as_ref().is_some_and(|direct| direct.is_full())
    }

    #[inline]
    fn has_some(&self) -> bool {
        self.direct.as_ref().is_none_or(|direct| direct.has_some())
    }

    fn touched(&mut self, listener: usize, notes: Notes) {
        let which = if notes.contains(Notes::REMOTE_WRITE) { Counted::RemoteWrite } else { Counted::RemoteRead };
        if let Some(counter) = self.ep.bindings.get().and_then(|b| b.counters[which as usize].as_ref()) {
            counter.count(false);
        }
        self.ep.domain.touched(listener, which);
    }

    fn said(&mut self, from: Name, words: &[u8]) -> Verdict {
        self.ep.connector.as_ref().map_or(Verdict::Nothing, |c| c.said(from, words))
    }

    fn reached(&mut self, peer: Name) {
        self.ep.connector.iter().for_each(|c| c.reached(peer));
    }

    fn lost(&mut self, peer: Name, failure: Failure) -> Verdict {
        self.ep.connector.as_ref().map_or(Verdict::Nothing, |c| c.lost(peer, failure))
    }
}

/// The counter that a completion is for. What peers do with our memory is counted when it happens, not when it is told.
#[inline]
fn counted(notes: Notes) -> Option<Counted> {
    Some(if notes.contains(Notes::SEND) {
        Counted::Send
    } else if notes.contains(Notes::RECEIVE) {
        Counted::Receive
    } else if notes.contains(Notes::READ) {
        Counted::Read
    } else if notes.contains(Notes::WRITE) {
        Counted::Write
    } else {
        return None;
    })
}

/// Whether an operation's success is not to be told.
#[inline]
pub(crate) fn is_silent(selective: bool, flags: u64) -> bool {
    selective && flags & crate::flags::COMPLETION == 0
}

/// A failure as a number of the public interface.
pub(crate) fn failure_code(f: bellwire_tag::Failure) -> c_int {
    use crate::abi::error;
    match f {
        Failure::Truncated => error::TRUNCATED,
        Failure::Canceled => error::ECANCELED,
        Failure::ConnectionLost => error::ECONNRESET,
        Failure::Unreachable => error::EHOSTUNREACH,
        Failure::RemoteAccess => error::EACCES,
        Failure::NoMessage => error::ENOMSG,
        _ => error::EOPNOTSUPP,
    }
}
