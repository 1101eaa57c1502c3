// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues, and queues of receives.

use crate::channel::Channel;
use crate::ring::Ring;
use crate::types::{Completion, Sge, Stamp, WcFlags};
use std::sync::Arc;

/// Entries that a completion queue may have.
pub const CQ_ENTRIES_MAX: usize = 1 << 22;

/// Which completion is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    /// The next one that is solicited, or an error.
    Solicited,
    Any,
}

/// The channel that is told of completions, if there is one.
pub type Listener = Option<Arc<Channel<u64>>>;

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    pub entries: Ring<Completion>,
    pub capacity: usize,
    pub users: u32,
    overrun: bool,
    armed: Armed,
    listener: Listener,
    /// The program's name for it, in events.
    pub cookie: u64,
    /// Entries up to which the short way may add one: `capacity`, or 0 if entries get a stamp.
    short_capacity: usize,
    stamps: Option<Box<Stamps>>,
}

/// When the entries of a queue came: the last stamp is the last entry's. Polls that do not ask for
/// stamps leave them, so there may be more stamps than entries.
#[derive(Debug)]
struct Stamps {
    clock: fn() -> Stamp,
    all: Ring<Stamp>,
}

impl Stamps {
    /// Drops the stamps of entries that have been taken.
    fn settle(&mut self, entries: usize) {
        while self.all.len() > entries {
            self.all.take_front();
        }
    }
}

impl Cq {
    pub(crate) fn new(capacity: usize, listener: Listener, cookie: u64) -> Self {
        Self { entries: Ring::default(), capacity, users: 0, overrun: false, armed: Armed::No, listener, cookie, short_capacity: capacity, stamps: None }
    }

    /// Changes its length.
    pub(crate) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.short_capacity = if self.stamps.is_some() { 0 } else { capacity };
    }

    /// Gives entries a stamp from now on.
    pub(crate) fn stamp(&mut self, clock: fn() -> Stamp) {
        (self.short_capacity, self.stamps) = (0, Some(Box::new(Stamps { clock, all: Ring::default() })));
    }

    /// Takes the first entry, with its stamp if entries have one.
    pub(crate) fn take_stamped(&mut self) -> Option<(Completion, Stamp)> {
        let count = self.entries.len();
        let entry = self.entries.pop_front()?;
        let stamp = self.stamps.as_mut().and_then(|s| {
            s.settle(count);
            s.all.pop_front()
        });
        Some((entry, stamp.unwrap_or_default()))
    }

    /// Adds an entry. `false`: there is no room.
    ///
    /// Its fields are stored one by one where it lies: an entry that is made elsewhere is moved by
    /// wide loads, which wait for the narrow stores that made it (`ring.rs`). So no reference to
    /// `completion` may be taken here.
    #[inline(always)]
    pub(crate) fn push(&mut self, completion: Completion) -> bool {
        if self.entries.len() >= self.short_capacity && !self.has_room() {
            return false;
        }
        let place = self.entries.add();
        place.wr_id = completion.wr_id;
        place.status = completion.status;
        place.reason = completion.reason;
        place.opcode = completion.opcode;
        place.byte_len = completion.byte_len;
        place.immediate = completion.immediate;
        place.qp = completion.qp;
        place.source = completion.source;
        place.flags = completion.flags;
        true
    }

    /// Whether there is room for an entry, which gets its stamp if entries have one.
    #[cold]
    #[inline(never)]
    fn has_room(&mut self) -> bool {
        if self.entries.len() >= self.capacity {
            return false;
        }
        if let Some(stamps) = &mut self.stamps {
            stamps.settle(self.entries.len());
            stamps.all.push_back((stamps.clock)());
        }
        true
    }

    /// An entry was lost. Whether it is the first one.
    pub(crate) fn overruns(&mut self) -> bool {
        !core::mem::replace(&mut self.overrun, true)
    }

    /// An entry was added. Whether the program is told of it.
    pub(crate) fn hears(&mut self, is_solicited: bool) -> bool {
        let is_told = self.armed == Armed::Any || (self.armed == Armed::Solicited && is_solicited);
        if is_told {
            self.tell();
        }
        is_told
    }

    #[cold]
    fn tell(&mut self) {
        self.armed = Armed::No;
        if let Some(channel) = &self.listener {
            channel.push(self.cookie);
        }
    }

    /// The next completion is to be told of. A wish for any is not made less by one for solicited
    /// ones.
    pub(crate) fn arm(&mut self, solicited_only: bool) {
        if !(solicited_only && self.armed == Armed::Any) {
            self.armed = if solicited_only { Armed::Solicited } else { Armed::Any };
        }
    }

    /// A program that sleeps on that channel would not be told of entries that are left here: it is
    /// told now. Returns the oldest of them.
    pub(crate) fn tell_left(&mut self, channel: &Channel<u64>) -> Option<Completion> {
        let is_of = self.listener.as_deref().is_some_and(|own| core::ptr::eq(own, channel));
        if !is_of || self.armed != Armed::Any || self.entries.is_empty() {
            return None;
        }
        self.tell();
        self.entries.iter().next().copied()
    }

    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed != Armed::No
    }

    /// A queue pair is no more, or starts anew: nothing of it is left here.
    pub(crate) fn forget(&mut self, qp: u32) {
        if let Some(stamps) = &mut self.stamps {
            stamps.settle(self.entries.len());
            let mut entries = self.entries.iter();
            stamps.all.retain(|_| entries.next().is_some_and(|e| e.qp != qp));
        }
        self.entries.retain(|e| e.qp != qp);
    }
}

/// The pieces of a request: mostly one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    one: [Sge; 1],
    more: Option<Box<[Sge]>>,
    count: u8,
}

impl Pieces {
    #[inline]
    pub(crate) fn of(pieces: &[Sge]) -> Self {
        match pieces {
            [] => Self::default(),
            [only] => Self { one: [*only], more: None, count: 1 },
            more => Self { one: [Sge::default()], more: Some(more.into()), count: 2 },
        }
    }

    /// These pieces, in the place of others.
    #[inline(always)]
    pub(crate) fn set(&mut self, pieces: &[Sge]) {
        match pieces {
            [only] if self.more.is_none() => (self.one, self.count) = ([*only], 1),
            _ => *self = Self::of(pieces),
        }
    }

    /// This piece, in the place of others.
    #[inline(always)]
    pub(crate) fn set_one(&mut self, piece: &Sge) {
        self.set(core::slice::from_ref(piece));
    }

    /// The only piece, if there is but one.
    #[inline(always)]
    pub(crate) fn only(&self) -> Option<&Sge> {
        if self.count == 1 { self.one.first() } else { None }
    }

    #[inline]
    pub(crate) fn get(&self) -> &[Sge] {
        match &self.more {
            Some(more) => more,
            None => &self.one[..usize::from(self.count)],
        }
    }

    /// Bytes of all.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.get().iter().map(|p| u64::from(p.length)).sum()
    }
}

/// A receive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receive {
    pub wr_id: u64,
    pub pieces: Pieces,
    /// The protection domain of the queue that it was posted to.
    pub domain: u32,
    /// The receive queue for XRC that it was taken from; 0: it is of another kind.
    pub srq: u32,
}

/// Receives that are posted.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    pub posted: Ring<Receive>,
    pub capacity: usize,
    pub pieces_max: usize,
    pub domain: u32,
}

impl ReceiveQueue {
    pub(crate) fn new(capacity: usize, pieces_max: usize, domain: u32) -> Self {
        Self { posted: Ring::default(), capacity, pieces_max, domain }
    }

    /// Adds a receive of one piece, if it may have one and there is room. `false`: nothing is done.
    #[inline(always)]
    pub(crate) fn post_one(&mut self, wr_id: u64, piece: &Sge) -> bool {
        if self.pieces_max == 0 || self.posted.len() >= self.capacity {
            return false;
        }
        let receive = self.posted.add();
        (receive.wr_id, receive.domain) = (wr_id, self.domain);
        receive.pieces.set_one(piece);
        true
    }

    #[inline]
    pub(crate) fn post(&mut self, wr_id: u64, pieces: &[Sge]) -> Result<(), crate::types::Error> {
        if pieces.len() > self.pieces_max {
            return Err(crate::types::Error::Invalid);
        }
        if self.posted.len() >= self.capacity {
            return Err(crate::types::Error::NoMemory);
        }
        let receive = self.posted.add();
        (receive.wr_id, receive.domain) = (wr_id, self.domain);
        receive.pieces.set(pieces);
        Ok(())
    }
}

/// What a receive queue for XRC has besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Xrc {
    pub domain: u32,
    pub cq: u32,
}

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct Srq {
    pub queue: ReceiveQueue,
    /// Below so many an event is given, once; 0: never.
    pub limit: usize,
    pub users: u32,
    pub cookie: u64,
    /// The number by which peers name it.
    pub number: u32,
    /// It is for extended reliable connections.
    pub xrc: Option<Xrc>,
}

impl Srq {
    /// After a receive was taken: whether there are now fewer than the limit, of which the program
    /// is told once, by its name for the queue.
    #[inline]
    pub(crate) fn runs_low(&mut self) -> Option<u64> {
        if self.limit == 0 || self.queue.posted.len() >= self.limit {
            return None;
        }
        self.limit = 0;
        Some(self.cookie)
    }
}

/// The head of a datagram as the receiver finds it in front of the data.
pub(crate) fn route_header(from: &[u8; 16], to: &[u8; 16], payload: usize) -> [u8; 40] {
    let mut grh = [0; 40];
    grh[0] = 0x60;
    // The headers and checks that would be between this one and the data on a wire.
    grh[4..6].copy_from_slice(&((payload + 28).min(0xffff) as u16).to_be_bytes());
    (grh[6], grh[7]) = (17, 64);
    grh[8..24].copy_from_slice(from);
    grh[24..40].copy_from_slice(to);
    grh
}

/// Flags of a receive's completion.
#[inline]
pub(crate) fn receive_flags(has_immediate: bool, has_route: bool) -> WcFlags {
    let mut flags = WcFlags::empty();
    flags.set(WcFlags::WITH_IMM, has_immediate);
    flags.set(WcFlags::GRH, has_route);
    flags
}
