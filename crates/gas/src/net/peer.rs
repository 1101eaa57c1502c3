// SPDX-License-Identifier: MIT OR Apache-2.0
//! One other process, reached by a VI: credits, what it owes us, what we owe it.
//!
//! Its flow control and its sending side are those of all layers ([`Credits`], [`Channel`]); a peer
//! is also told when it has asked to be. Messages are handled in order, and what they ask for is
//! done then: so "handled" is also the acknowledgement of puts and stores, one for several.
//!
//! Answers need no credit: there are never more than requests without an answer, of which the
//! requester has at most [`PENDING_MAX`].
//!
//! Short requests of a burst join others in a [`Pack`].

mod answers;

use std::collections::VecDeque;

use bellwire_peer::{Channel, Credits, Death, Put};
use bellwire_via::Engine;
use bellwire_via::frame::INLINE_BYTES_MAX;
use bellwire_via::wire::Wire;

use super::header::{BULK_HEAD_BYTES, Head, Kind, TELL};
use super::pack::{LONE_MAX, Pack, Record};
use crate::probe::{Off, Probe, Stage};
pub(super) use answers::Answer;
use answers::Answers;

/// Messages that may be out.
pub(super) const WINDOW: u32 = 256;
/// Messages taken that a peer is told of at once.
const TELL_AFTER: u32 = WINDOW / 4;
/// Requests that may wait for an answer, and bytes that they have asked for.
pub(super) const PENDING_MAX: usize = 1024;
const PENDING_BYTES_MAX: usize = 1 << 20;
/// Messages that may wait in the inbox: with a credit, answers, the further parts of long ones, and
/// what needs neither.
pub(super) const INBOX_LIMIT: u32 = WINDOW + PENDING_MAX as u32 + (PENDING_BYTES_MAX / PART_BYTES_MIN) as u32 + 16;
/// Least bytes of a part of an answer: no wire has shorter packets.
const PART_BYTES_MIN: usize = 1024;

/// How a process says good-bye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Farewell {
    pub status: i32,
    /// Collective calls that it has made.
    pub calls: u64,
}

/// How it stands with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// This process itself.
    Own,
    Connecting,
    Open,
    /// Its connection has ended, or never began.
    Gone(Death),
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub to: *mut u8,
    pub bytes: usize,
}

/// Whether a request has left, or joined others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Yes,
    /// The peer has to take something first, and will say so.
    NoCredit,
    /// There is no room on its way, and nobody says when there is some.
    NoRoom,
}

/// Another process.
#[derive(Debug)]
pub(super) struct Peer {
    pub channel: Channel,
    pub state: State,
    pub credits: Credits,
    /// Number of the last put, and of the last message with which it was asked to tell.
    pub put_mark: u32,
    pub asked: u32,
    /// It wants to be told what is handled.
    must_tell: bool,
    pub pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// No more is asked for until half of what is outstanding has come: a request for each answer
    /// would never find company.
    is_choked: bool,
    /// Short requests that wait for company; requests since the program last waited, which was its
    /// wait of this number.
    pack: Pack,
    burst: (u32, u32),
    /// Number of the program's wait after which the last long request was the first.
    long_burst: Option<u32>,
    pub answers: Answers,
    /// Gets of it so far.
    pub gets: u32,
    pub farewell: Option<Farewell>,
    pub is_told_farewell: bool,
    /// Longest payload of a message with an address that leaves in one frame, bytes.
    pub part_bytes: usize,
}

// SAFETY: the places of answers are the program's memory, which is this process's: whichever thread
// takes the answer may write it.
unsafe impl Send for Peer {}

impl Peer {
    pub(super) fn new(state: State) -> Self {
        Self {
            channel: Channel::default(),
            state,
            credits: Credits::new(WINDOW, TELL_AFTER),
            put_mark: 0,
            asked: 0,
            must_tell: false,
            pending: VecDeque::new(),
            pending_bytes: 0,
            is_choked: false,
            pack: Pack::default(),
            burst: (0, 0),
            long_burst: None,
            answers: Answers::default(),
            gets: 0,
            farewell: None,
            is_told_farewell: false,
            part_bytes: 0,
        }
    }

    /// It is connected.
    pub(super) fn open<W: Wire>(&mut self, engine: &Engine<W>) {
        self.state = State::Open;
        self.channel.open();
        self.part_bytes = engine.whole_message_bytes(self.channel.vi()).saturating_sub(BULK_HEAD_BYTES).max(INLINE_BYTES_MAX);
    }

    /// Whether a message that needs a credit may leave now.
    fn has_credit(&self) -> bool {
        self.channel.is_open() && self.credits.has_credit()
    }

    /// Whether another answer may be asked for.
    #[inline]
    pub(super) fn has_room(&mut self, bytes: usize) -> bool {
        self.is_choked |= self.pending.len() >= PENDING_MAX || (self.pending_bytes != 0 && self.pending_bytes + bytes > PENDING_BYTES_MAX);
        !self.is_choked
    }

    /// The number of the message that carries the last request, which may not have left yet.
    pub(super) fn mark(&self) -> u32 {
        self.credits.sent().wrapping_add(u32::from(self.is_packing()))
    }

    /// Whether requests wait for company in a pack.
    pub(super) fn is_packing(&self) -> bool {
        !self.pack.is_empty()
    }

    /// Whether requests wait for company.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_packing() || self.channel.queued() != 0
    }

    /// A long request: whether it is the first since the program's wait of this number.
    #[inline]
    pub(super) fn is_first_long(&mut self, wait: u32) -> bool {
        self.long_burst.replace(wait) != Some(wait)
    }

    /// Whether it has taken message number `mark` and those before.
    pub(super) fn has_taken(&self, mark: u32) -> bool {
        self.credits.acked().wrapping_sub(mark).cast_signed() >= 0
    }

    /// A message of it is taken. `false`: it had no credit for that.
    pub(super) fn take(&mut self, head: &Head) -> bool {
        if head.kind.needs_credit() {
            self.credits.has_handled();
            self.must_tell |= head.flags & TELL != 0;
        }
        self.credits.untold() <= WINDOW
    }

    fn must_tell_now(&self) -> bool {
        self.credits.owes() || (self.must_tell && self.credits.untold() != 0)
    }

    /// Whether something could leave that nobody will ask for again.
    pub(super) fn has_unsent(&self) -> bool {
        self.channel.is_open() && (self.channel.has_rest() || !self.answers.is_empty() || self.must_tell_now())
    }

    /// Tells how many messages are taken, if it is time.
    pub(super) fn tell<W: Wire>(&mut self, engine: &mut Engine<W>) {
        if self.channel.is_open() && self.must_tell_now() {
            // SAFETY: no payload.
            unsafe { self.send(engine, &Head::new(Kind::Taken, [0; 3]), (std::ptr::null(), 0)) };
        }
    }

    /// An answer is expected.
    pub(super) fn expect(&mut self, to: *mut u8, bytes: usize) {
        self.pending.push_back(Pending { to, bytes });
        self.pending_bytes += bytes;
    }

    /// So many bytes have come of the oldest answers expected: where the first of them go, and how
    /// many. `None`: nothing was expected.
    #[inline]
    pub(super) fn expected(&mut self, bytes: usize) -> Option<Pending> {
        let first = self.pending.front_mut()?;
        let Pending { to, bytes: of_first } = *first;
        let n = of_first.min(bytes);
        self.pending_bytes -= n;
        if n < of_first {
            // A long answer comes in several messages.
            *first = Pending { to: to.wrapping_add(n), bytes: of_first - n };
        } else {
            self.pending.pop_front();
        }
        self.is_choked &= self.pending.len() > PENDING_MAX / 2 || self.pending_bytes > PENDING_BYTES_MAX / 2;
        Some(Pending { to, bytes: n })
    }

    /// Sends a request as a message of its own, behind those that wait for company.
    ///
    /// # Safety
    /// The payload is readable for its length.
    #[inline]
    pub(super) unsafe fn request<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, payload: (*const u8, usize)) -> Left {
        // SAFETY: the caller's.
        let left = unsafe { self.request_later::<Off, W>(engine, head, payload) };
        self.flush(engine);
        left
    }

    /// As [`request`](Self::request), but a long one may wait for [`flush`](Self::flush).
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn request_later<P: Probe<Stage>, W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, payload: (*const u8, usize)) -> Left {
        match self.send_pack(engine, 0) {
            Left::Yes if !self.has_credit() => Left::NoCredit,
            // SAFETY: the caller's.
            Left::Yes if !unsafe { self.put::<P, W>(engine, head, payload) } => Left::NoRoom,
            left => left,
        }
    }

    /// Lets long messages leave that have found room on the way.
    #[inline]
    pub(super) fn flush<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.channel.flush(engine);
    }

    /// Sends a short request, or lets it wait for company. `wait`: number of the program's last
    /// wait. Afterwards [`is_packing`](Self::is_packing) says what it was.
    ///
    /// # Safety
    /// `from` is readable for what a Put or Store carries.
    #[inline]
    pub(super) unsafe fn join<P: Probe<Stage>, W: Wire>(&mut self, engine: &mut Engine<W>, record: &Record, from: *const u8, wait: u32) -> Left {
        self.burst = if self.burst.0 == wait { (wait, self.burst.1.saturating_add(1)) } else { (wait, 1) };
        let is_lone = !self.is_packing() && self.burst.1 <= LONE_MAX && self.pending.len() < LONE_MAX as usize;
        if is_lone || !record.is_short() {
            let head = record.head();
            // SAFETY: the caller's.
            let left = unsafe { self.request_later::<P, W>(engine, &head, (from, if record.kind == Kind::Get { 0 } else { record.bytes })) };
            self.flush(engine);
            return left;
        }
        if !self.pack.has_room(record) {
            let left = self.send_pack(engine, 0);
            if left != Left::Yes {
                return left;
            }
        }
        // SAFETY: the caller's.
        unsafe { self.pack.push(record, from) };
        Left::Yes
    }

    /// Sends the requests that wait for company, if there are any.
    #[inline]
    pub(super) fn send_pack<W: Wire>(&mut self, engine: &mut Engine<W>, flags: u8) -> Left {
        if !self.is_packing() {
            return Left::Yes;
        }
        if !self.has_credit() {
            return Left::NoCredit;
        }
        let head = Head { flags, ..Head::new(Kind::Pack, [0; 3]) };
        // SAFETY: a vector of ours.
        if !unsafe { self.send(engine, &head, self.pack.payload()) } {
            return Left::NoRoom;
        }
        self.pack.clear();
        Left::Yes
    }

    /// Sends a message now, or what can leave of it; the rest is kept. `false`: nothing of it has
    /// left, and nothing is done.
    ///
    /// # Safety
    /// The payload is readable for its length.
    #[inline]
    pub(super) unsafe fn send<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, payload: (*const u8, usize)) -> bool {
        // SAFETY: the caller's.
        let left = unsafe { self.put::<Off, W>(engine, head, payload) };
        self.flush(engine);
        left
    }

    /// As [`send`](Self::send), but a long one may wait for [`flush`](Self::flush).
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn put<P: Probe<Stage>, W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, payload: (*const u8, usize)) -> bool {
        if !self.channel.push(engine) {
            return false;
        }
        P::mark(Stage::Allowed);
        let words = head.store(self.credits.handled());
        // SAFETY: words are bytes, and there are as many.
        let head_bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), head.len()) };
        P::mark(Stage::Built);
        // SAFETY: the caller's.
        let put = unsafe { self.channel.put(engine, head_bytes, payload) };
        P::mark(Stage::Sent);
        if put == Put::Stuck {
            return false;
        }
        // A connection that is broken says so in the inbox.
        self.must_tell = false;
        self.credits.has_told();
        if head.kind.needs_credit() {
            self.credits.has_sent();
        }
        true
    }
}
