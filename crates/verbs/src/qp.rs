// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue pair: what it is made with, its attributes, and both of its queues.

use crate::connection::ConnectionId;
use crate::fates::Judged;
use crate::header::{Ends, Head};
use crate::memory::Grant;
use crate::name::Name;
use crate::queue::{Pieces, Receive, ReceiveQueue};
use crate::reason::Reason;
use crate::ring::Ring;
use crate::types::{Access, Completion, Gid, Opcode, QpKind, QpState, SendFlags, Sge, WcStatus};
use crate::watch::Watch;
use crate::windows::Bind;
use bellwire_faults::Fates;

/// Requests that one queue may hold.
pub const QUEUE_MAX: u32 = 1 << 15;
/// Pieces of one request.
pub const PIECES_MAX: u32 = 16;
/// Bytes that a request may carry inline.
pub const INLINE_MAX: u32 = 1024;
/// Longest message.
pub const MESSAGE_MAX: u64 = 1 << 30;
/// Bytes of a datagram: what the largest MTU takes.
pub const DATAGRAM_MAX: u64 = 4096;

/// Sizes of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Requests in the send queue.
    pub sends: u32,
    /// Requests in the receive queue.
    pub receives: u32,
    /// Pieces of a send.
    pub send_pieces: u32,
    /// Pieces of a receive.
    pub receive_pieces: u32,
    /// Bytes inline.
    pub inline: u32,
}

/// How a queue pair is to be made.
#[derive(Clone, Copy, Debug)]
pub struct QpInit {
    /// Service.
    pub kind: QpKind,
    /// Protection domain. For [`QpKind::XrcReceive`], which has none, its XRC domain.
    pub domain: u32,
    /// Where sends complete; 0 for [`QpKind::XrcReceive`], which has none.
    pub send_cq: u32,
    /// Where receives complete; 0 for the XRC kinds, which have none of their own.
    pub receive_cq: u32,
    /// Where receives are taken from, if not from its own queue.
    pub srq: Option<u32>,
    /// Sizes.
    pub caps: Caps,
    /// Every send gives a completion.
    pub signal_all: bool,
    /// The program's name for it, in events.
    pub cookie: u64,
}

impl QpInit {
    /// The completion queues that it uses.
    pub(crate) fn cqs(&self) -> impl Iterator<Item = u32> + use<> {
        [self.send_cq, self.receive_cq].into_iter().filter(|cq| *cq != 0)
    }

    pub(crate) fn check(&self) -> Result<(), crate::types::Error> {
        let c = &self.caps;
        let fits = c.sends <= QUEUE_MAX && c.receives <= QUEUE_MAX && c.send_pieces <= PIECES_MAX && c.receive_pieces <= PIECES_MAX && c.inline <= INLINE_MAX;
        if fits { Ok(()) } else { Err(crate::types::Error::Invalid) }
    }
}

/// What a peer's request may reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiving {
    /// The queue pair.
    pub number: u32,
    pub domain: u32,
    pub access: Access,
}

/// The attributes that `modify` sets. Times as the interface encodes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpAttributes {
    /// What the peer may do.
    pub access: Access,
    /// The peer's address, and whether there is one (else the peer is on this host).
    pub gid: Option<Gid>,
    /// The peer's queue pair.
    pub peer: u32,
    /// Key that datagrams must have.
    pub qkey: u32,
    /// Number of the first packet sent.
    pub send_number: u32,
    /// Number of the first packet received.
    pub receive_number: u32,
    /// Wait for an answer: 4.096 us times two to that power; 0: for ever.
    pub timeout: u8,
    /// How often it is waited again.
    pub retries: u8,
    /// How often a send is tried again that found no receive; 7: for ever.
    pub rnr_retries: u8,
    /// How long a peer is to wait that found no receive.
    pub rnr_timer: u8,
    /// Reads and atomics that may be out.
    pub reads_out: u8,
    /// Reads and atomics that may be asked for.
    pub reads_in: u8,
    /// MTU, as the interface encodes it.
    pub mtu: u8,
    /// Port.
    pub port: u8,
    /// Moving to SQD: an event is to say when the sends that have begun are complete. Queried: they
    /// are not yet.
    pub drains: bool,
}

/// Where a request's bytes are.
#[derive(Debug)]
pub(crate) enum Data {
    Pieces(Pieces),
    Inline([u8; 64], u8),
    Owned(Box<[u8]>),
}

impl Default for Data {
    fn default() -> Self {
        Self::Pieces(Pieces::default())
    }
}

impl Data {
    pub(crate) fn pieces(&self) -> &[Sge] {
        if let Self::Pieces(p) = self { p.get() } else { &[] }
    }

    pub(crate) fn owned(&self) -> Option<&[u8]> {
        match self {
            Self::Pieces(_) => None,
            Self::Inline(bytes, n) => Some(&bytes[..usize::from(*n)]),
            Self::Owned(bytes) => Some(bytes),
        }
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The device; `None`: this one.
    pub gid: Option<Gid>,
    /// The queue pair there.
    pub qp: u32,
    /// Its key.
    pub qkey: u32,
}

/// A part that only few requests have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// The peer's shared receive queue that is to take the message ([`QpKind::XrcSend`]).
    Srq(u32),
    /// The window to bind, and to what ([`Opcode::Bind`]).
    Bind(Bind),
}

/// A request of the send queue.
#[derive(Debug, Default)]
pub(crate) struct Send {
    pub wr_id: u64,
    pub opcode: Opcode,
    pub flags: SendFlags,
    pub immediate: u32,
    pub length: u32,
    pub address: u64,
    pub key: u32,
    pub operands: [u64; 2],
    pub extra: Extra,
    pub data: Data,
    pub to: Option<Destination>,
    /// Bytes that have come back, or all of an atomic.
    pub fetched: u32,
    pub done: bool,
    pub judged: Judged,
}

/// A request as the program makes it.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// The program's name for it.
    pub wr_id: u64,
    /// What to do.
    pub opcode: Opcode,
    /// How.
    pub flags: SendFlags,
    /// The program's memory.
    pub pieces: &'a [Sge],
    /// Immediate data.
    pub immediate: u32,
    /// The peer's memory.
    pub address: u64,
    /// Its key.
    pub key: u32,
    /// Added or swapped in; compared with.
    pub operands: [u64; 2],
    /// A part that few requests have.
    pub extra: Extra,
    /// Where a datagram goes.
    pub to: Option<Destination>,
}

/// A message of several packets that is coming.
#[derive(Debug)]
pub(crate) struct Arriving {
    pub receive: Option<Receive>,
    pub total: u32,
    pub got: u32,
}

/// The ends of usual messages of a reliable queue pair, in both directions: the short ways compare
/// and write them as words.
///
/// Q1: each stands for many fields (`Qp::takes_shortly`, `Qp::sends_shortly`). It is set where they
/// are as they must be, and forgotten where one of them may change: [`Core::qp`] forgets.
///
/// [`Core::qp`]: crate::core::Core::qp
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    /// Of a message that may be taken, and over what it comes.
    pub takes: Ends,
    pub by: Option<ConnectionId>,
    /// Of one that may be sent.
    pub sends: Ends,
}

impl Usual {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self { takes: Ends::NONE, by: None, sends: Ends::NONE };
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    pub number: u32,
    pub usual: Usual,
    pub init: QpInit,
    pub state: QpState,
    pub attributes: QpAttributes,

    /// How often it has begun, and the same of the peer's, as it says; never 0.
    pub life: u8,
    pub peer_life: u8,

    // Sending.
    /// Requests that are not complete, oldest first.
    pub sends: Ring<Send>,
    /// Number of the first of `sends`.
    pub first: u32,
    /// Of `sends`, those that have left.
    pub left: usize,
    /// Bytes of the next one that have left.
    pub part: u32,
    /// Every other try, after a refusal: refusals of the try before are known already. False if
    /// nothing is out.
    pub again: bool,
    /// Reads and atomics that are out.
    pub fetching: u32,
    pub connection: Option<ConnectionId>,
    /// Memory of the peer that we may reach ourselves.
    pub grants: Vec<Grant>,
    /// It is in its connection's `ready`.
    pub is_ready: bool,
    /// Nothing is sent before that, ns; 0: now.
    pub pause: u64,
    /// Times that a peer without a receive may still be asked.
    pub rnr_left: u8,
    /// When the peer was first found absent, ns; 0: it was not.
    pub absent_since: u64,
    /// The peer is gone: requests that wait fail when the pause is over.
    pub is_deserted: bool,
    /// When it fails, since the process of its peer is gone; 0: never.
    pub orphaned: u64,
    /// Why requests fail from now on, if their status does not say it.
    pub reason: Reason,
    /// The same because the port is down.
    pub is_cut: bool,
    /// In SQD: of `sends`, those that had begun, which go on.
    pub begun: usize,
    /// An event is to say when those are complete.
    pub tells_drained: bool,
    /// The faults that its requests are to meet.
    pub fates: Option<Box<Fates>>,

    // Receiving.
    pub receives: ReceiveQueue,
    /// Number of the next request.
    pub expected: u32,
    /// What the peer has been told, and over what.
    pub told: u32,
    pub came_by: Option<ConnectionId>,
    /// The same, while it is known to be the peer's (C2).
    pub known_by: Option<ConnectionId>,
    pub arriving: Option<Arriving>,
    /// Keys of memory that the peer has been told how to reach.
    pub told_grants: Vec<u32>,
    /// It is in the core's `owing`.
    pub is_owing: bool,
    /// Bytes of the message under way that have come: its next packet goes on there. After a
    /// refusal nothing does, until the message begins again.
    pub came: u32,
    /// The peer of before the last reset and how often it had begun then: what it sent so is no
    /// request to this queue pair.
    pub past: (u32, u8),
    pub established: bool,
    /// What the strict mode knows.
    pub watch: Option<Box<Watch>>,
    /// Program's handles of it ([`QpKind::XrcReceive`] can be opened more than once).
    pub handles: u32,
}

impl Qp {
    pub(crate) fn new(number: u32, init: QpInit) -> Self {
        Self {
            number,
            usual: Usual::NONE,
            init,
            state: QpState::Reset,
            attributes: QpAttributes::default(),
            life: 1,
            peer_life: 0,
            sends: Ring::default(),
            first: 0,
            left: 0,
            part: 0,
            again: false,
            fetching: 0,
            connection: None,
            grants: Vec::new(),
            is_ready: false,
            pause: 0,
            rnr_left: 0,
            absent_since: 0,
            is_deserted: false,
            orphaned: 0,
            reason: Reason::None,
            is_cut: false,
            begun: 0,
            tells_drained: false,
            fates: None,
            receives: ReceiveQueue::new(init.caps.receives as usize, init.caps.receive_pieces as usize, init.domain),
            expected: 0,
            told: 0,
            came_by: None,
            known_by: None,
            arriving: None,
            told_grants: Vec::new(),
            is_owing: false,
            came: 0,
            past: (0, 0),
            established: false,
            watch: None,
            handles: 1,
        }
    }

    /// The process that it is connected to.
    pub(crate) fn peer_name(&self, own: &Gid) -> Name {
        Name::of(self.attributes.gid.unwrap_or(*own), self.attributes.peer)
    }

    /// Back to the beginning: nothing is posted, nobody is known.
    pub(crate) fn reset(&mut self) {
        let (is_ready, is_owing, handles) = (self.is_ready, self.is_owing, self.handles);
        let life = self.life.checked_add(1).unwrap_or(1);
        let past = if self.peer_life == 0 { self.past } else { (self.attributes.peer, self.peer_life) };
        *self = Self { is_ready, is_owing, handles, life, past, fates: self.fates.take(), ..Self::new(self.number, self.init) };
    }

    /// Receives may be posted, and stay.
    #[inline(always)]
    pub(crate) fn keeps_receives(&self) -> bool {
        !matches!(self.state, QpState::Reset | QpState::Err)
    }

    pub(crate) fn takes_requests(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd)
    }

    /// Whether a packet is one of the connection of before the last reset: on its way since then,
    /// with a number that may fit. (An unreliable sender may go on as it was.)
    #[inline]
    pub(crate) fn is_past(&self, head: &Head) -> bool {
        self.past == (head.from, head.life) && self.init.kind.is_reliable()
    }

    /// Of its requests, how many may leave.
    #[inline]
    pub(crate) fn may_leave(&self) -> usize {
        match self.state {
            QpState::Rts => self.sends.len(),
            QpState::Sqd => self.begun,
            _ => 0,
        }
    }

    /// No request begins any more; those that have go on. Whether there are none, and the program
    /// is to be told.
    pub(crate) fn drain(&mut self, tells: bool) -> bool {
        // A request that was refused, and waits to leave again, has begun too.
        let has_begun = self.part != 0 || self.pause != 0;
        self.begun = self.sends.len().min(self.left + usize::from(has_begun));
        self.tells_drained = tells && self.begun != 0;
        tells && self.begun == 0
    }

    /// One of those that had begun is complete. Whether it was the last, and the program is to be
    /// told.
    #[cold]
    pub(crate) fn drains_one(&mut self) -> bool {
        self.begun -= 1;
        self.begun == 0 && self.state == QpState::Sqd && core::mem::take(&mut self.tells_drained)
    }

    /// Whether a send is to give a completion.
    pub(crate) fn is_told(&self, send: &Send, status: WcStatus) -> bool {
        self.init.signal_all || send.flags.contains(SendFlags::SIGNALED) || status != WcStatus::Success
    }

    pub(crate) fn completion(&self, send: &Send, status: WcStatus) -> Completion {
        let reason = if status == WcStatus::Success { Reason::None } else { self.reason };
        Completion { reason, ..Completion::of_send(send.wr_id, send.opcode, self.number, status, send.length) }
    }

    /// Nanoseconds after which a peer that does not answer is given up; `None`: never.
    pub(crate) fn patience(&self) -> Option<u64> {
        let a = &self.attributes;
        (a.timeout != 0).then(|| (4096u64 << a.timeout.min(31)).saturating_mul(u64::from(a.retries) + 1))
    }

    /// Begins again with the request of that number.
    pub(crate) fn go_back(&mut self, to: usize) {
        self.left = to;
        self.part = 0;
        self.again = !self.again;
        self.fetching = self.sends.iter().take(to).filter(|s| s.opcode.fetches() && !s.done).count() as u32;
    }
}

/// Nanoseconds of the times that a receiver asks a sender to wait, by their code.
pub(crate) fn rnr_time(code: u8) -> u64 {
    const UNIT: u64 = 10_000;
    const TIMES: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576,
        32_768, 49_152,
    ];
    TIMES[usize::from(code & 31)] * UNIT
}
