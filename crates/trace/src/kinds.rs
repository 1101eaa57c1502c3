// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of events: their numbers, names and fields. Writers and readers share this table, so a
//! reader shows each event by what it says of it.

/// How a field is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number.
    Number,
    /// A number that may be less than zero.
    Signed,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// A name that a program gave, an address, a key: hexadecimal.
    Hexadecimal,
    /// One of the words, by its index.
    Words(&'static [&'static str]),
    /// One of the words, by its number.
    Named(&'static [(u64, &'static str)]),
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// How it is shown.
    pub form: Form,
}

/// Layers, from the program down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Of the trace itself.
    Trace,
    /// Calls of the program.
    Calls,
    /// Queue pairs.
    Pairs,
    /// Virtual interfaces: the engine.
    Engine,
    /// Links between NICs.
    Links,
    /// Packets: what a capture is made of.
    Packets,
}

impl Layer {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Trace, Self::Calls, Self::Pairs, Self::Engine, Self::Links, Self::Packets];

    /// Its name, as `--layers` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Calls => "calls",
            Self::Pairs => "pairs",
            Self::Engine => "engine",
            Self::Links => "links",
            Self::Packets => "packets",
        }
    }
}

/// What an event is to the others of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It happens at its time.
    Moment,
    /// It begins a call.
    Begin,
    /// It ends the call that began last.
    End,
}

impl Kind {
    /// Whether it begins or ends a call whose name is the event's text.
    pub const fn is_named_call(self) -> bool {
        matches!(self, Self::Call | Self::CallEnd | Self::QuickCall | Self::QuickCallEnd)
    }

    /// Whether it is rare: such events have a log of their own, where frequent ones do not
    /// overwrite them.
    pub const fn is_rare(self) -> bool {
        matches!(self, Self::Call | Self::CallEnd | Self::PairState | Self::ViState | Self::LinkUp | Self::LinkLost | Self::Session | Self::Path)
    }
}

/// The properties of a kind.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// Its layer.
    pub layer: Layer,
    /// Whether it begins or ends something.
    pub shape: Shape,
    /// The name of what `object` numbers; empty if it numbers nothing.
    pub object: &'static str,
    /// The fields, in order; words beyond them are not shown.
    pub fields: &'static [Field],
    /// Whether bytes of text follow the first two fields.
    pub has_text: bool,
}

use Form::{Bytes, Hexadecimal, Named, Nanoseconds, Number, Signed, Words};

const OPERATIONS: &[&str] = &["send", "RDMA write", "RDMA read"];
const STATES: &[&str] = &["idle", "connected", "connect pending", "error"];
const REQUESTS: &[&str] = &[
    "RDMA_WRITE",
    "RDMA_WRITE_WITH_IMM",
    "SEND",
    "SEND_WITH_IMM",
    "RDMA_READ",
    "ATOMIC_CMP_AND_SWP",
    "ATOMIC_FETCH_AND_ADD",
    "LOCAL_INV",
    "BIND_MW",
    "SEND_WITH_INV",
];
const COMPLETIONS: &[(u64, &str)] = &[
    (0, "SEND"),
    (1, "RDMA_WRITE"),
    (2, "RDMA_READ"),
    (3, "COMP_SWAP"),
    (4, "FETCH_ADD"),
    (5, "BIND_MW"),
    (6, "LOCAL_INV"),
    (128, "RECV"),
    (129, "RECV_RDMA_WITH_IMM"),
];
const STATUSES: &[&str] = &[
    "SUCCESS",
    "LOC_LEN_ERR",
    "LOC_QP_OP_ERR",
    "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",
    "WR_FLUSH_ERR",
    "MW_BIND_ERR",
    "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",
    "REM_INV_REQ_ERR",
    "REM_ACCESS_ERR",
    "REM_OP_ERR",
    "RETRY_EXC_ERR",
    "RNR_RETRY_EXC_ERR",
    "LOC_RDD_VIOL_ERR",
    "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",
    "INV_EECN_ERR",
    "INV_EEC_STATE_ERR",
    "FATAL_ERR",
    "RESP_TIMEOUT_ERR",
    "GENERAL_ERR",
];
const SERVICES: &[(u64, &str)] = &[(2, "RC"), (3, "UC"), (4, "UD"), (9, "XRC send"), (10, "XRC receive")];
const CALLS: &[&str] = &[
    "result",
    "failed",
    "unknown procedure",
    "wrong type",
    "bad arguments",
    "bad reply",
    "overloaded",
    "too large",
    "dropped",
    "peer gone",
    "incompatible",
    "deadline",
    "cancelled",
    "not started",
];
const MESSAGES: &[&str] = &["", "short", "medium", "bulk", "short reply", "medium reply", "bulk reply", "get"];
const PAIR_STATES: &[&str] = &["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal $name:literal $layer:ident $shape:ident $object:literal [$($field:ident: $form:expr),*] $($text:ident)?;)*) => {
        /// A kind of event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Kind {
            $($(#[$doc])* $kind = $number,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The kind of a number.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$kind),)*
                    _ => None,
                }
            }

            /// Its properties.
            pub const fn about(self) -> About {
                match self {
                    $(Self::$kind => About {
                        name: $name,
                        layer: Layer::$layer,
                        shape: Shape::$shape,
                        object: $object,
                        fields: &[$(Field { name: stringify!($field), form: $form }),*],
                        has_text: kinds!(@text $($text)?),
                    },)*
                }
            }
        }
    };
    (@text text) => { true };
    (@text) => { false };
}

kinds! {
    /// The clocks beside each other: the monotonic one, and the time of day.
    Clocks = 1 "clocks" Trace Moment "" [monotonic: Nanoseconds, of_day: Nanoseconds];
    /// Looks that found nothing since the event before, and when the first began (a stamp).
    EmptyLooks = 2 "empty polls" Trace Moment "" [count: Number];

    /// `ibv_post_send` begins, for one request.
    PostSend = 16 "ibv_post_send" Calls Begin "qp" [wr_id: Hexadecimal, bytes: Bytes, opcode: Words(REQUESTS), flags: Hexadecimal, pieces: Number, remote_address: Hexadecimal, rkey: Hexadecimal];
    /// It returns: 0, or an error number.
    PostSendEnd = 17 "ibv_post_send" Calls End "qp" [result: Number];
    /// `ibv_post_recv` or `ibv_post_srq_recv` begins, for one request.
    PostReceive = 18 "ibv_post_recv" Calls Begin "qp" [wr_id: Hexadecimal, bytes: Bytes, pieces: Number];
    /// It returns.
    PostReceiveEnd = 19 "ibv_post_recv" Calls End "qp" [result: Number];
    /// `ibv_poll_cq` has found something.
    Poll = 20 "ibv_poll_cq" Calls Begin "cq" [];
    /// It returns so many.
    PollEnd = 21 "ibv_poll_cq" Calls End "cq" [result: Number];
    /// A work completion.
    WorkCompletion = 22 "completion" Calls Moment "qp" [wr_id: Hexadecimal, status: Words(STATUSES), opcode: Named(COMPLETIONS), bytes: Bytes];
    /// A call that sets something up begins; the text is its name.
    Call = 23 "call" Calls Begin "" [first: Hexadecimal, second: Hexadecimal] text;
    /// It returns.
    CallEnd = 24 "call" Calls End "" [result: Signed, errno: Number] text;
    /// The same, of calls that a program may make often.
    QuickCall = 25 "call" Calls Begin "" [first: Hexadecimal, second: Hexadecimal] text;
    /// It returns.
    QuickCallEnd = 26 "call" Calls End "" [result: Signed, errno: Number] text;

    /// `fi_send`, or one of its kind, begins. Endpoints and queues are named by their addresses,
    /// without the last four bits.
    FiSend = 112 "fi_send" Calls Begin "ep" [context: Hexadecimal, bytes: Bytes, peer: Hexadecimal, flags: Hexadecimal];
    /// It returns: 0, or an error number with a minus sign.
    FiSendEnd = 113 "fi_send" Calls End "ep" [result: Signed];
    /// `fi_tsend`, or one of its kind, begins.
    FiTaggedSend = 114 "fi_tsend" Calls Begin "ep" [context: Hexadecimal, bytes: Bytes, peer: Hexadecimal, flags: Hexadecimal, tag: Hexadecimal];
    /// It returns.
    FiTaggedSendEnd = 115 "fi_tsend" Calls End "ep" [result: Signed];
    /// `fi_recv`, or one of its kind, begins.
    FiReceive = 116 "fi_recv" Calls Begin "ep" [context: Hexadecimal, bytes: Bytes, peer: Hexadecimal, flags: Hexadecimal];
    /// It returns.
    FiReceiveEnd = 117 "fi_recv" Calls End "ep" [result: Signed];
    /// `fi_trecv`, or one of its kind, begins.
    FiTaggedReceive = 118 "fi_trecv" Calls Begin "ep" [context: Hexadecimal, bytes: Bytes, peer: Hexadecimal, flags: Hexadecimal, tag: Hexadecimal, ignore: Hexadecimal];
    /// It returns.
    FiTaggedReceiveEnd = 119 "fi_trecv" Calls End "ep" [result: Signed];
    /// `fi_read`, or one of its kind, begins.
    FiRead = 120 "fi_read" Calls Begin "ep" [context: Hexadecimal, bytes: Bytes, peer: Hexadecimal, flags: Hexadecimal, remote_address: Hexadecimal, key: Hexadecimal];
    /// It returns.
    FiReadEnd = 121 "fi_read" Calls End "ep" [result: Signed];
    /// `fi_write`, or one of its kind, begins.
    FiWrite = 122 "fi_write" Calls Begin "ep" [context: Hexadecimal, bytes: Bytes, peer: Hexadecimal, flags: Hexadecimal, remote_address: Hexadecimal, key: Hexadecimal];
    /// It returns.
    FiWriteEnd = 123 "fi_write" Calls End "ep" [result: Signed];
    /// `fi_atomic`, or one of its kind, begins.
    FiAtomic = 124 "fi_atomic" Calls Begin "ep" [context: Hexadecimal, values: Number, peer: Hexadecimal, flags: Hexadecimal, remote_address: Hexadecimal, key: Hexadecimal, data_type: Number, operation: Number];
    /// It returns.
    FiAtomicEnd = 125 "fi_atomic" Calls End "ep" [result: Signed];
    /// `fi_cq_read`, or one of its kind, has found something.
    FiPoll = 126 "fi_cq_read" Calls Begin "cq" [];
    /// It returns so many, or an error number with a minus sign.
    FiPollEnd = 127 "fi_cq_read" Calls End "cq" [result: Signed];
    /// A completion, as far as the queue's format tells it.
    FiCompletion = 128 "completion" Calls Moment "cq" [context: Hexadecimal, flags: Hexadecimal, bytes: Bytes, data: Hexadecimal, tag: Hexadecimal];

    /// A remote procedure call of this process begins; the text is the procedure's name.
    RpcCall = 136 "rpc call" Calls Moment "call" [peer: Number, under_way: Number] text;
    /// It ends.
    RpcResult = 137 "rpc result" Calls Moment "call" [outcome: Words(CALLS), under_way: Number];
    /// A procedure runs for a caller; the text is its name.
    RpcServe = 138 "rpc serve" Calls Begin "procedure" [callers: Number, deferred: Number] text;
    /// It has returned.
    RpcServeEnd = 139 "rpc serve" Calls End "procedure" [];

    /// A request of Active Messages begins; a get, too. Entries are those of the endpoint's
    /// translation table.
    AmCall = 144 "AM_Request" Calls Begin "ep" [entry: Number, bytes: Bytes, operation: Words(MESSAGES), handler: Number];
    /// It returns: 0, or an error number.
    AmCallEnd = 145 "AM_Request" Calls End "ep" [result: Number];
    /// A reply begins.
    AmReply = 146 "AM_Reply" Calls Begin "" [handler: Number, bytes: Bytes, operation: Words(MESSAGES)];
    /// It returns.
    AmReplyEnd = 147 "AM_Reply" Calls End "" [result: Number];
    /// A request has left, or is on its way: which one of its connection.
    AmRequest = 148 "request" Calls Moment "connection" [number: Number, bytes: Bytes, operation: Words(MESSAGES), handler: Number, entry: Number, ep: Number];
    /// The peer has said that it has handled the requests before that number; so many are out.
    AmHandled = 149 "handled" Calls Moment "connection" [before: Number, out: Number];
    /// The connection has ended, and the requests before that number that were out come back.
    AmReturned = 150 "came back" Calls Moment "connection" [before: Number, out: Number];
    /// A handler runs; 0 is the one of messages that come back.
    AmHandler = 151 "handler" Calls Begin "ep" [handler: Number];
    /// It has returned.
    AmHandlerEnd = 152 "handler" Calls End "ep" [];

    /// Requests of a queue pair were posted; how many wait now.
    PairPosted = 32 "posted" Pairs Moment "qp" [requests: Number, waiting: Number];
    /// Requests have left.
    PairLeft = 33 "left" Pairs Moment "qp" [requests: Number];
    /// Requests are complete: the peer has acknowledged them, or they failed.
    PairDone = 34 "acknowledged" Pairs Moment "qp" [requests: Number];
    /// The peer refused, or did not answer: sending begins again with an earlier request.
    PairAgain = 35 "sent again" Pairs Moment "qp" [requests: Number];
    /// Requests of the peer were taken.
    PairTaken = 36 "arrived" Pairs Moment "qp" [requests: Number];
    /// Its state has changed.
    PairState = 37 "state" Pairs Moment "qp" [state: Words(PAIR_STATES), peer: Hexadecimal];

    /// A request was posted to a VI's send queue.
    Posted = 48 "posted" Engine Moment "vi" [context: Hexadecimal, bytes: Bytes, operation: Words(OPERATIONS)];
    /// Requests have left this NIC.
    Left = 49 "left" Engine Moment "vi" [requests: Number];
    /// A request is complete; its status is VIA's.
    Completed = 50 "completed" Engine Moment "vi" [context: Hexadecimal, status: Hexadecimal, bytes: Bytes];
    /// Completed requests were taken off the queue.
    Dequeued = 51 "dequeued" Engine Moment "vi" [requests: Number];
    /// Receives were posted.
    ReceivesPosted = 52 "receives posted" Engine Moment "vi" [requests: Number];
    /// Messages have come, and were taken in the same call; bytes of those that are counted.
    Received = 53 "received" Engine Moment "vi" [messages: Number, bytes: Bytes];
    /// Completed receives were taken off the queue.
    ReceivesDequeued = 54 "receives dequeued" Engine Moment "vi" [requests: Number];
    /// Messages have left at once, without a place in a queue; bytes of those that did not fit into
    /// one line, which alone are counted.
    Sent = 55 "sent" Engine Moment "vi" [messages: Number, bytes: Bytes];
    /// Requests whose bytes went straight into, or out of, the peer's memory.
    Direct = 56 "by mapped memory" Engine Moment "vi" [requests: Number];
    /// Requests whose bytes were copied out of the peer's process.
    Attached = 57 "by cross-memory attach" Engine Moment "vi" [requests: Number];
    /// The peer had no receive posted.
    NotReady = 58 "receiver not ready" Engine Moment "vi" [times: Number];
    /// Messages were dropped.
    Dropped = 59 "dropped" Engine Moment "vi" [messages: Number];
    /// A VI's state has changed; the text says why, if there is a reason.
    ViState = 60 "state" Engine Moment "vi" [state: Words(STATES), link: Hexadecimal] text;

    /// Where the requests of a queue pair that follow go: GIDs in two words each. Of datagrams each
    /// says so itself.
    Path = 96 "path" Packets Moment "qp" [service: Named(SERVICES), mtu: Bytes, peer: Hexadecimal, gid: Hexadecimal, gid_low: Hexadecimal, peer_gid: Hexadecimal, peer_gid_low: Hexadecimal];
    /// A request that was posted, with the number of its first packet (PSN); the last fields are
    /// those of a datagram.
    Request = 97 "request" Packets Moment "qp" [psn: Number, bytes: Bytes, opcode: Words(REQUESTS), flags: Hexadecimal, wr_id: Hexadecimal, remote_address: Hexadecimal, rkey: Hexadecimal, immediate: Hexadecimal, operand: Hexadecimal, compare: Hexadecimal, to_qp: Hexadecimal, qkey: Hexadecimal, to_gid: Hexadecimal, to_gid_low: Hexadecimal];
    /// Bytes of the request of that number, from that offset on.
    RequestBytes = 98 "request bytes" Packets Moment "qp" [psn: Number, offset: Number, bytes: Bytes];
    /// The request has left.
    RequestLeft = 99 "request left" Packets Moment "qp" [psn: Number];
    /// The peer has not taken the request, which leaves again: it has no receive (and says with
    /// which timer to wait), or there is nobody.
    RequestRefused = 100 "request refused" Packets Moment "qp" [psn: Number, timer: Number, is_nobody: Number];
    /// Bytes that have come back, from that offset on.
    AnswerBytes = 101 "answer bytes" Packets Moment "qp" [psn: Number, offset: Number, bytes: Bytes];
    /// The request is complete.
    Answered = 102 "answered" Packets Moment "qp" [psn: Number, status: Words(STATUSES)];

    /// Bytes of the datagram of that number, from that offset on. They come before it.
    DatagramBytes = 103 "datagram bytes" Packets Moment "datagram" [unused: Number, offset: Number, bytes: Bytes];
    /// A datagram leaves by UDP; ports of both sides in one word. A fault plan may have none leave,
    /// or several, or later.
    Datagram = 104 "datagram" Packets Moment "datagram" [bytes: Bytes, ports: Hexadecimal, from: Hexadecimal, from_low: Hexadecimal, to: Hexadecimal, to_low: Hexadecimal, copies: Number, delay: Nanoseconds];

    /// A message of connection management leaves, from one GID to another, in two words each. Its
    /// bytes come next.
    Management = 105 "management" Packets Moment "link" [from: Hexadecimal, from_low: Hexadecimal, to: Hexadecimal, to_low: Hexadecimal];
    /// Bytes of it.
    ManagementBytes = 106 "management bytes" Packets Moment "link" [unused: Number, offset: Number, bytes: Bytes];

    /// A link to another NIC is there; the text says by which wire, and why.
    LinkUp = 80 "link" Links Moment "link" [peer_pid: Number, mapped: Number] text;
    /// A link has failed; the text says why.
    LinkLost = 81 "link lost" Links Moment "link" [peer_pid: Number, links_lost: Number] text;
    /// Packets of a link since the last such event: sent, received, sent again, lost. Then when the
    /// turn began in which this was (a stamp, of which readers make how long it was; 0: it may have
    /// been in more turns), and the totals, by which packets of one side are found on the other.
    Packets = 82 "packets" Links Moment "link" [sent: Number, received: Number, sent_again: Number, lost: Number, turn: Nanoseconds, all_sent: Number, all_received: Number];
    /// The ids of a link's session on both sides.
    Session = 83 "session" Links Moment "link" [own: Hexadecimal, peer: Hexadecimal];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_kinds() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind as u16), Some(kind));
            let about = kind.about();
            assert!(about.fields.len() <= 2 + crate::event::REST_MAX && (!about.has_text || about.fields.len() == 2), "{kind:?}");
        }
        assert_eq!(Kind::from_number(0), None);
    }
}
