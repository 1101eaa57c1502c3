// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of the verbs interface: kinds, states, flags, statuses, with its numbers.

use crate::reason::Reason;
use core::fmt;

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Caller: an argument, attribute or state does not allow it.
    Invalid,
    /// A queue is full, or there is no room for one object more.
    NoMemory,
    /// The object is still in use.
    Busy,
    /// Not done here.
    Unsupported,
    /// The memory is not there, or may not be written.
    Fault,
    /// This is the child of a `fork`, which has none of its parent's device.
    InChild,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "an argument, attribute or state does not allow it",
            Self::NoMemory => "a queue is full, or there is no room for one object more",
            Self::Busy => "the object is still in use",
            Self::Unsupported => "not supported",
            Self::Fault => "the memory is not there, or may not be written",
            Self::InChild => "the device belongs to the parent of this process",
        })
    }
}

impl std::error::Error for Error {}

impl From<bellwire_via::Error> for Error {
    fn from(e: bellwire_via::Error) -> Self {
        match e {
            bellwire_via::Error::Resource => Self::NoMemory,
            bellwire_via::Error::InvalidState => Self::InChild,
            _ => Self::Invalid,
        }
    }
}

bitflags::bitflags! {
    /// Rights on memory.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Access: u32 {
        /// The owner's requests may write it.
        const LOCAL_WRITE = 1;
        /// Peers may write it.
        const REMOTE_WRITE = 2;
        /// Peers may read it.
        const REMOTE_READ = 4;
        /// Peers may do atomics on it.
        const REMOTE_ATOMIC = 8;
        /// Memory windows may be bound to it.
        const WINDOW_BIND = 16;
        /// It need not be there before a request uses it.
        const ON_DEMAND = 64;
    }

    /// How a request is to be done.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u32 {
        /// Not before all reads and atomics before it are done.
        const FENCE = 1;
        /// Gives a completion.
        const SIGNALED = 2;
        /// Wakes a receiver who waits for solicited messages.
        const SOLICITED = 4;
        /// The data is copied at the call.
        const INLINE = 8;
    }

    /// The fields of a completion that are valid.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WcFlags: u32 {
        /// The first 40 bytes of the buffer say who sent it.
        const GRH = 1;
        /// Immediate data.
        const WITH_IMM = 2;
        /// The message has invalidated a key, which stands in the place of immediate data.
        const WITH_INVALIDATED = 8;
    }
}

/// Service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QpKind {
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagrams.
    Ud = 4,
    /// The sending side of an extended reliable connection (XRC): it has no receives.
    XrcSend = 9,
    /// The receiving side of one: each message names the shared receive queue that takes it.
    XrcReceive = 10,
}

impl QpKind {
    /// Whether requests are answered, and sent again until they are.
    #[inline]
    pub(crate) fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::XrcSend | Self::XrcReceive)
    }
}

/// State of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum QpState {
    /// Nothing.
    Reset = 0,
    /// Receives may be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// Sends are held back.
    Sqd = 4,
    /// Sends fail (unreliable services, after a send that failed).
    Sqe = 5,
    /// Everything fails.
    Err = 6,
}

impl QpState {
    /// By its number.
    pub fn from_number(n: u32) -> Option<Self> {
        [Self::Reset, Self::Init, Self::Rtr, Self::Rts, Self::Sqd, Self::Sqe, Self::Err].get(n as usize).copied()
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Opcode {
    /// Write the peer's memory.
    Write = 0,
    /// The same, and use up a receive there.
    WriteImm = 1,
    /// Send.
    #[default]
    Send = 2,
    /// Send with immediate data.
    SendImm = 3,
    /// Read the peer's memory.
    Read = 4,
    /// Compare and swap eight bytes of it.
    CompareSwap = 5,
    /// Add to eight bytes of it.
    FetchAdd = 6,
    /// Make a key of this side invalid. Nothing is sent.
    LocalInvalidate = 7,
    /// Bind a memory window to a range of a region. Nothing is sent.
    Bind = 8,
    /// Send, and make a key of the receiver's invalid.
    SendInvalidate = 9,
}

impl Opcode {
    /// By its number.
    pub fn from_number(n: u32) -> Option<Self> {
        const ALL: [Opcode; 10] = [
            Opcode::Write,
            Opcode::WriteImm,
            Opcode::Send,
            Opcode::SendImm,
            Opcode::Read,
            Opcode::CompareSwap,
            Opcode::FetchAdd,
            Opcode::LocalInvalidate,
            Opcode::Bind,
            Opcode::SendInvalidate,
        ];
        ALL.get(n as usize).copied()
    }

    /// Something comes back.
    pub(crate) fn fetches(self) -> bool {
        matches!(self, Self::Read | Self::CompareSwap | Self::FetchAdd)
    }

    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// It changes keys of this side and sends nothing.
    pub(crate) fn is_local(self) -> bool {
        matches!(self, Self::LocalInvalidate | Self::Bind)
    }

    pub(crate) fn has_immediate(self) -> bool {
        matches!(self, Self::WriteImm | Self::SendImm)
    }

    fn completion(self) -> WcOpcode {
        match self {
            Self::Write | Self::WriteImm => WcOpcode::Write,
            Self::Send | Self::SendImm | Self::SendInvalidate => WcOpcode::Send,
            Self::Read => WcOpcode::Read,
            Self::CompareSwap => WcOpcode::CompareSwap,
            Self::FetchAdd => WcOpcode::FetchAdd,
            Self::LocalInvalidate => WcOpcode::LocalInvalidate,
            Self::Bind => WcOpcode::Bind,
        }
    }
}

/// What a completion is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum WcOpcode {
    /// Send.
    #[default]
    Send = 0,
    /// RDMA write.
    Write = 1,
    /// RDMA read.
    Read = 2,
    /// Compare and swap.
    CompareSwap = 3,
    /// Fetch and add.
    FetchAdd = 4,
    /// A memory window was bound.
    Bind = 5,
    /// A key was made invalid.
    LocalInvalidate = 6,
    /// A message received.
    Receive = 128,
    /// A receive used up by a write.
    ReceiveWrite = 129,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u16)]
pub enum WcStatus {
    /// Well.
    #[default]
    Success = 0,
    /// Too long for the receive, or for the service.
    LocalLength = 1,
    /// The request cannot be done by this queue pair.
    LocalQpOperation = 2,
    /// Local memory is not registered so, or of another protection domain.
    LocalProtection = 4,
    /// Not done: the queue pair has failed, or was stopped.
    Flushed = 5,
    /// The memory window cannot be bound so.
    WindowBind = 6,
    /// The peer found the request invalid.
    RemoteInvalid = 9,
    /// The peer's memory is not registered so.
    RemoteAccess = 10,
    /// The peer could not do it.
    RemoteOperation = 11,
    /// The peer does not answer.
    RetryExceeded = 12,
    /// The peer had no receive posted for too long.
    RnrExceeded = 13,
}

/// One entry of a completion queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The program's name for the request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// Why it failed, if the status does not say it.
    pub reason: Reason,
    /// What it was.
    pub opcode: WcOpcode,
    /// Bytes received, read, or of an atomic.
    pub byte_len: u32,
    /// Immediate data, as the sender gave it.
    pub immediate: u32,
    /// The queue pair.
    pub qp: u32,
    /// The sender's queue pair.
    pub source: u32,
    /// The fields that are valid.
    pub flags: WcFlags,
}

impl Completion {
    pub(crate) fn of_send(wr_id: u64, opcode: Opcode, qp: u32, status: WcStatus, byte_len: u32) -> Self {
        Self { wr_id, status, reason: Reason::None, opcode: opcode.completion(), byte_len, immediate: 0, qp, source: 0, flags: WcFlags::empty() }
    }

    pub(crate) fn of_receive(wr_id: u64, qp: u32, status: WcStatus) -> Self {
        Self { wr_id, status, reason: Reason::None, opcode: WcOpcode::Receive, byte_len: 0, immediate: 0, qp, source: 0, flags: WcFlags::empty() }
    }
}

/// When a completion came into its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds of the monotonic clock.
    pub monotonic: u64,
    /// Nanoseconds since 1970.
    pub real: u64,
}

/// What happens beside the queues. Numbers are the interface's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AsyncKind {
    /// A completion was lost: the queue is too short.
    CqError = 0,
    /// A queue pair failed.
    QpFatal = 1,
    /// A peer asked for what cannot be.
    QpRequestError = 2,
    /// A peer asked for memory that it may not have.
    QpAccessError = 3,
    /// The first message came before the program said that it is connected.
    Established = 4,
    /// The sends that had begun when the queue pair moved to SQD are complete.
    Drained = 5,
    /// The device is out of order.
    DeviceFatal = 8,
    /// The port works again.
    PortActive = 9,
    /// The port is down.
    PortError = 10,
    /// A shared receive queue runs low.
    SrqLimit = 15,
    /// A failed queue pair takes no more receives of its shared queue.
    LastWqe = 16,
    /// The addresses of the port changed.
    GidChange = 18,
}

/// Memory of the program: one piece of a request. Laid out as the interface has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sge {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Local key.
    pub key: u32,
}

/// An address of a device.
pub type Gid = [u8; 16];
