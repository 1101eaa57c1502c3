// SPDX-License-Identifier: MIT OR Apache-2.0
//! The virtual interface: its state, queues and connection.

use crate::attributes::{ViAttributes, ViState};
use crate::cause::Cause;
use crate::frame::{Head, INLINE_BYTES_MAX, NO_HEAD, Op};
use crate::handle::Handle;
use crate::handles::{CqHandle, SrqHandle};
use crate::limits::{PLACE_BYTES_MIN, POST_COPY_BYTES_MAX};
use crate::parcel::InboxEnd;
use crate::time::{Duration, Instant};
use crate::wire::LinkId;
use crate::work_queue::{ReceiveQueue, SendQueue};
use std::collections::VecDeque;

/// Names one connection of a VI; never the same twice within four thousand million.
#[derive(Debug)]
pub struct Connection {
    /// Index of the VI.
    pub(crate) vi: u32,
}
/// A connection's id.
pub type ConnectionId = Handle<Connection>;

/// Reading done for the peer, in frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadJob {
    pub address: u64,
    pub handle: u32,
    pub length: u32,
    pub work: u32,
    pub moved: u32,
}

/// What a VI counts, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViCounters {
    /// Requests sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages received into descriptors.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Requests whose bytes were copied once by cross-memory attach.
    pub attached: u64,
    /// Requests whose bytes went straight into (or came straight out of) the peer's memory.
    pub direct: u64,
    /// Messages dropped (unreliable only).
    pub dropped: u64,
    /// Times that the peer had no receive descriptor and we waited.
    pub receiver_not_ready: u64,
    /// Requests that completed with an error, flushed ones included.
    pub errors: u64,
}

/// What the fast paths (`fast.rs`) may do on a VI. Worked out anew by [`Vi::update_paths`] whenever
/// something changes that decides it, so that a message costs one comparison for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// Word 0, under [`WHOLE_MASK`], of a whole message in a line that may go straight to the
    /// descriptor at the front; [`NO_HEAD`] if none may.
    pub whole_in: u64,
    /// Word 0 of a whole message to the peer, length 0.
    pub whole_out: u64,
    /// One more than the length of the longest message that may leave in a line at once; 0 if none
    /// may.
    pub send_limit: u32,
    /// One more than the length of the longest message that may leave in one frame with payload at
    /// once; 0 if none may.
    pub copy_limit: u32,
    /// One more than the length of the longest RDMA write that may be done at once; 0 if none may.
    pub write_limit: u32,
    /// Whether a receive may be posted by putting it into the queue, nothing more.
    pub plain_receives: bool,
    /// Whether somebody is to be told of completions of a queue: a completion queue, a handler.
    pub announced: [bool; 2],
}

impl Paths {
    /// Nothing is as usual.
    const NONE: Self = Self { whole_in: NO_HEAD, whole_out: 0, send_limit: 0, copy_limit: 0, write_limit: 0, plain_receives: false, announced: [true; 2] };
}

/// A virtual interface.
#[derive(Debug)]
pub struct Vi {
    // What every message needs comes first.
    pub(crate) paths: Paths,
    pub(crate) state: ViState,
    /// Sends complete by an acknowledgement (reliable reception, or the peer may say "receiver not
    /// ready").
    pub(crate) acknowledged: bool,
    /// We acknowledge.
    pub(crate) acknowledges: bool,
    pub(crate) attributes: ViAttributes,
    pub(crate) ptag: u32,
    pub(crate) link: LinkId,
    pub(crate) remote_connection: u32,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) send: SendQueue,
    pub(crate) receive: ReceiveQueue,
    pub(crate) send_cq: Option<CqHandle>,
    pub(crate) receive_cq: Option<CqHandle>,
    pub(crate) srq: Option<SrqHandle>,
    /// Its messages go to an inbox, not into descriptors.
    pub(crate) inbox: Option<Box<InboxEnd>>,
    /// Handlers waiting for one completion each, by queue.
    pub(crate) notify: [u32; 2],
    /// Its requests are captured: they have no leases, and so go the general way.
    pub(crate) captured: bool,
    pub(crate) counters: ViCounters,
    /// Why its last connection broke; kept until it is connected again.
    pub(crate) cause: Option<Cause>,

    // Sending side of the connection.
    pub(crate) remote_ptag: u32,
    pub(crate) remote_write: bool,
    pub(crate) remote_read: bool,
    /// The peer may refuse messages for want of a receive descriptor.
    pub(crate) remote_rnr: bool,
    /// RDMA writes have gone as frames; the wire's mark behind the last of them. A direct access
    /// waits for them: it must not overtake them.
    pub(crate) wrote_frames: Option<u32>,
    /// Our request that the peer copies out of our memory now. Nothing else is sent before its
    /// answer.
    pub(crate) pulling: Option<u32>,
    /// A part of the write that we copy out of the peer's memory could not be had.
    pub(crate) pull_failed: bool,
    pub(crate) next_sequence: u32,
    pub(crate) next_message: u32,
    /// Sends in a row for which the peer had advertised nothing.
    pub(crate) unadvertised: u32,
    pub(crate) reads_outstanding: u32,
    pub(crate) not_ready_until: Instant,
    pub(crate) not_ready_backoff: Duration,

    // Receiving side of the connection.
    /// A message is partly in the descriptor at `receive.done`.
    pub(crate) arriving: bool,
    /// The rest of the message in progress is thrown away (unreliable).
    pub(crate) discarding: bool,
    pub(crate) arrived: u32,
    pub(crate) expected_sequence: u32,
    pub(crate) acknowledged_sequence: u32,
    /// We told the peer "not ready" and have not taken its message yet.
    pub(crate) told_not_ready: bool,
    pub(crate) ready_due: bool,
    /// Number of the message for the descriptor at `receive.done`.
    pub(crate) message: u32,
    /// Posted receives up to this index are advertised.
    pub(crate) advertised_to: u32,
    /// The peer sends large messages: advertise.
    pub(crate) advertises: bool,
    /// Small messages in a row.
    pub(crate) small_in_a_row: u32,
    pub(crate) read_jobs: VecDeque<ReadJob>,
    /// Bytes that it may send before it is others' turn; and what a turn of its own is worth
    /// (`schedule.rs`).
    pub(crate) credit: u32,
    pub(crate) weight: u8,
}

impl Vi {
    pub(crate) fn new(attributes: ViAttributes, send_cq: Option<CqHandle>, receive_cq: Option<CqHandle>, srq: Option<SrqHandle>) -> Self {
        let mut vi = Self {
            paths: Paths::NONE,
            state: ViState::Idle,
            acknowledged: false,
            acknowledges: false,
            ptag: attributes.ptag.map_or(0, Handle::raw),
            attributes,
            link: LinkId::from_raw(0),
            remote_connection: 0,
            connection: None,
            send: SendQueue::default(),
            receive: ReceiveQueue::default(),
            send_cq,
            receive_cq,
            srq,
            inbox: None,
            notify: [0; 2],
            captured: false,
            counters: ViCounters::default(),
            cause: None,
            remote_ptag: 0,
            remote_write: false,
            remote_read: false,
            remote_rnr: false,
            wrote_frames: None,
            pulling: None,
            pull_failed: false,
            next_sequence: 0,
            next_message: 0,
            unadvertised: 0,
            reads_outstanding: 0,
            not_ready_until: Instant(0),
            not_ready_backoff: Duration(0),
            arriving: false,
            discarding: false,
            arrived: 0,
            expected_sequence: 0,
            acknowledged_sequence: 0,
            told_not_ready: false,
            ready_due: false,
            message: 0,
            advertised_to: 0,
            advertises: false,
            small_in_a_row: 0,
            read_jobs: VecDeque::new(),
            credit: 0,
            weight: 1,
        };
        vi.update_paths();
        vi
    }

    /// Forgets the connection; queues and counters stay.
    pub(crate) fn reset_connection(&mut self) {
        self.acknowledged = false;
        self.acknowledges = false;
        self.link = LinkId::from_raw(0);
        self.remote_connection = 0;
        self.remote_ptag = 0;
        (self.remote_write, self.remote_read, self.remote_rnr) = (false, false, false);
        self.wrote_frames = None;
        self.pulling = None;
        self.pull_failed = false;
        self.next_sequence = 0;
        self.next_message = 0;
        self.unadvertised = 0;
        self.reads_outstanding = 0;
        self.not_ready_until = Instant(0);
        self.not_ready_backoff = Duration(0);
        (self.arriving, self.discarding) = (false, false);
        self.arrived = 0;
        self.expected_sequence = 0;
        self.acknowledged_sequence = 0;
        (self.told_not_ready, self.ready_due) = (false, false);
        self.message = 0;
        self.advertises = false;
        self.small_in_a_row = 0;
        self.read_jobs.clear();
        self.update_paths();
    }

    /// To be called after every change of what [`Paths`] depend on.
    pub(crate) fn update_paths(&mut self) {
        self.paths = self.paths_now();
    }

    /// What the fast paths may do as things stand.
    pub(crate) fn paths_now(&self) -> Paths {
        let connected = self.state == ViState::Connected;
        let announced = [self.send_cq.is_some() || self.notify[0] != 0, self.receive_cq.is_some() || self.notify[1] != 0];
        let plain_receives = self.srq.is_none() && self.inbox.is_none() && self.state != ViState::Error && !self.advertises && !self.told_not_ready;
        let mut paths = Paths { plain_receives, announced, ..Paths::NONE };
        if connected && !self.acknowledges && !self.arriving && !self.advertises && self.srq.is_none() {
            paths.whole_in = self.connection.map_or(NO_HEAD, |c| Head::new(Op::Send, c.raw()).0);
        }
        if connected && !self.acknowledged {
            let transfer_max = self.attributes.max_transfer_bytes;
            paths.whole_out = Head::new(Op::Send, self.remote_connection).0;
            paths.send_limit = transfer_max.min(INLINE_BYTES_MAX as u64) as u32 + 1;
            paths.copy_limit = transfer_max.min(u64::from(PLACE_BYTES_MIN) - 1) as u32 + 1;
            if self.remote_write && self.remote_ptag != 0 {
                paths.write_limit = transfer_max.min(u64::from(POST_COPY_BYTES_MAX)) as u32 + 1;
            }
        }
        paths
    }

    pub(crate) fn set_state(&mut self, state: ViState) {
        self.state = state;
        self.update_paths();
    }

    /// A message is partly in the descriptor at the front, or no longer.
    pub(crate) fn set_arriving(&mut self, arriving: bool) {
        if self.arriving != arriving {
            self.arriving = arriving;
            self.update_paths();
        }
    }

    /// Heap memory of the queues, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.send.works.memory_bytes()
            + self.send.segments.memory_bytes()
            + self.send.inline.memory_bytes()
            + self.receive.works.memory_bytes()
            + self.receive.segments.memory_bytes()
    }
}
