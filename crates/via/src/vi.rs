// SPDX-License-Identifier: MIT OR Apache-2.0
//! The virtual interface: its state, queues and connection.

use crate::attributes::{ViAttributes, ViState};
use crate::completion_queue::CqHandle;
use crate::handle::Handle;
use crate::shared_receive_queue::SrqHandle;
use crate::time::{Duration, Instant};
use crate::wire::LinkId;
use crate::work_queue::{ReceiveQueue, SendQueue};
use std::collections::VecDeque;

/// Names a VI.
pub type ViHandle = Handle<Vi>;

/// One of a VI's two work queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum WorkQueueKind {
    /// Sends, RDMA writes and reads.
    Send = 0,
    /// Receives.
    Receive = 1,
}

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
    /// Requests whose bytes went straight into (or came straight out of) the peer's memory.
    pub direct: u64,
    /// Messages dropped (unreliable only).
    pub dropped: u64,
    /// Times that the peer had no receive descriptor and we waited.
    pub receiver_not_ready: u64,
}

/// A virtual interface.
#[derive(Debug)]
pub struct Vi {
    // What every message needs comes first.
    pub(crate) state: ViState,
    /// Sends complete by an acknowledgement (reliable reception, or the peer may say "receiver not ready").
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
    /// Handlers waiting for one completion each, by queue.
    pub(crate) notify: [u32; 2],
    pub(crate) counters: ViCounters,

    // Sending side of the connection.
    pub(crate) remote_ptag: u32,
    pub(crate) remote_write: bool,
    pub(crate) remote_read: bool,
    /// The peer may refuse messages for want of a receive descriptor.
    pub(crate) remote_rnr: bool,
    /// RDMA writes have gone as frames; the wire's mark behind the last of them. A direct access waits for them: it must not overtake them.
    pub(crate) wrote_frames: Option<u32>,
    pub(crate) next_sequence: u32,
    pub(crate) next_message: u32,
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
}

impl Vi {
    pub(crate) fn new(attributes: ViAttributes, send_cq: Option<CqHandle>, receive_cq: Option<CqHandle>, srq: Option<SrqHandle>) -> Self {
        Self {
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
            notify: [0; 2],
            counters: ViCounters::default(),
            remote_ptag: 0,
            remote_write: false,
            remote_read: false,
            remote_rnr: false,
            wrote_frames: None,
            next_sequence: 0,
            next_message: 0,
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
        }
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
        self.next_sequence = 0;
        self.next_message = 0;
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
