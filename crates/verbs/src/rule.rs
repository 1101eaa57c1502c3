// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that the strict mode watches, and its reports.

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// Memory of a request belongs to the device until its completion.
    InUse,
    /// A message needs a receive.
    NoReceive,
    /// Keys, protection domains, ranges, rights.
    Key,
    /// Only a completion that was polled frees places of the send queue.
    QueueFull,
    /// A datagram's receive begins with 40 bytes of header.
    RouteRoom,
    /// Completions are told of as they come, not while they lie there.
    Left,
}

impl Rule {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::InUse => "memory-in-use",
            Self::NoReceive => "missing-receive",
            Self::Key => "key",
            Self::QueueFull => "send-queue-full",
            Self::RouteRoom => "grh-room",
            Self::Left => "completions-left",
        }
    }

    /// What it says.
    pub fn text(self) -> &'static str {
        match self {
            Self::InUse => "the memory of a request belongs to the device from the post until its completion is polled",
            Self::NoReceive => "each send, and each write with immediate data, uses up a receive that was posted before",
            Self::Key => "memory is used by a key of a registration that covers it, with the rights that the use needs, of the queue pair's protection domain",
            Self::QueueFull => "a request keeps its place in the send queue until a completion of it, or of one posted after it, is polled",
            Self::RouteRoom => "a receive for datagrams has room for 40 bytes (the GRH) in front of the message",
            Self::Left => "an event tells of the next completion after the queue was armed, not of those that lie there",
        }
    }

    /// What to do.
    pub fn advice(self) -> &'static str {
        match self {
            Self::InUse => "poll the completion before the memory is written or its registration ends, or send inline",
            Self::NoReceive => "post receives before the peer sends, and others as they are used up",
            Self::Key => "pass lkey in pieces and rkey to the peer, register for what is done, and with the domain that the queue pair was made with",
            Self::QueueFull => "signal at least one request in each queue's length, and poll its completion",
            Self::RouteRoom => "make the receive 40 bytes longer; the message is behind them",
            Self::Left => "after arming poll until nothing is left, then wait for the event",
        }
    }
}

/// One report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The rule.
    pub rule: Rule,
    /// The queue pair.
    pub qp: u32,
    /// The program's name for the request, if it is of one.
    pub request: Option<u64>,
    /// What happened.
    pub what: String,
}

/// Is told of broken rules.
pub type Reporter = Box<dyn FnMut(&Report) + std::marker::Send>;
