// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of events: counts, a digest of every event, and, if wanted, a line for each. Called
//! wherever something happens to a packet, a link or a node.

use super::hash::fold;
use bellwire_faults::Cause;
use core::fmt;
use std::io::{self, Write};

/// Why the fabric lost a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropCause {
    /// By the plan, for itself.
    Loss,
    /// By the plan, in a burst.
    Burst,
    /// Its nodes are parted.
    Partition,
    /// It was on a link that was down.
    LinkDown,
    /// Its receiver has crashed.
    NodeDown,
    /// Its sender crashed before it had left.
    Crash,
    /// A queue was full.
    QueueFull,
    /// The receiver did not take what it had.
    InboxFull,
    /// Larger than a link carries.
    TooBig,
    /// Nobody is attached at the address.
    NoPort,
    /// No node has the address.
    NoRoute,
}

const CAUSES: [DropCause; 11] = [
    DropCause::Loss,
    DropCause::Burst,
    DropCause::Partition,
    DropCause::LinkDown,
    DropCause::NodeDown,
    DropCause::Crash,
    DropCause::QueueFull,
    DropCause::InboxFull,
    DropCause::TooBig,
    DropCause::NoPort,
    DropCause::NoRoute,
];

impl DropCause {
    /// All there are.
    pub const ALL: &[Self] = &CAUSES;

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Burst => "burst",
            Self::Partition => "partition",
            Self::LinkDown => "link-down",
            Self::NodeDown => "node-down",
            Self::Crash => "crash",
            Self::QueueFull => "queue-full",
            Self::InboxFull => "inbox-full",
            Self::TooBig => "too-big",
            Self::NoPort => "no-port",
            Self::NoRoute => "no-route",
        }
    }
}

impl From<Cause> for DropCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Loss => Self::Loss,
            Cause::Burst => Self::Burst,
            Cause::Partition => Self::Partition,
            Cause::Down => Self::LinkDown,
            Cause::Crash => Self::Crash,
            // No room for bandwidth: a full queue under another name.
            _ => Self::QueueFull,
        }
    }
}

/// What a fabric has done. At any time `sent + duplicated = delivered + dropped + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that `send` took.
    pub sent: u64,
    /// Packets that links made a second time.
    pub duplicated: u64,
    /// Packets put into a port's inbox.
    pub delivered: u64,
    /// Packets of an inbox that its owner closed, or crashed with, before taking them; they count
    /// as delivered too.
    pub unread: u64,
    /// Packets whose bits were flipped.
    pub corrupted: u64,
    /// Packets that were made late, so that others could overtake them.
    pub late: u64,
    /// Packets sent over a link, those included that it lost.
    pub hops: u64,
    /// How often a link had to hold a packet because the queue after it was full.
    pub held: u64,
    dropped: [u64; CAUSES.len()],
}

impl Statistics {
    /// Packets lost for one cause.
    pub const fn dropped(&self, cause: DropCause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Packets lost.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

/// What a link (one direction) has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Packets it has sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets lost on it or in front of it.
    pub dropped: u64,
    /// Most bytes that its queue has held.
    pub queue_bytes_peak: u64,
    /// How often it had to hold a packet.
    pub held: u64,
}

/// What happened, for the digest and the trace. The numbers are part of every digest: add at the
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Sent = 1,
    Passed = 2,
    Late = 3,
    Duplicated = 4,
    Corrupted = 5,
    Held = 6,
    Delivered = 7,
    Unread = 8,
    Begins = 9,
    Ends = 10,
    Crashed = 11,
    Restarted = 12,
    Healed = 13,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Passed => "passed",
            Self::Late => "late",
            Self::Duplicated => "duplicated",
            Self::Corrupted => "corrupted",
            Self::Held => "held",
            Self::Delivered => "delivered",
            Self::Unread => "unread",
            Self::Begins => "outage begins",
            Self::Ends => "outage ends",
            Self::Crashed => "crashed",
            Self::Restarted => "restarted",
            Self::Healed => "healed",
        }
    }
}

/// Digest code of drops: behind those of `What`.
const DROPPED: u64 = 128;

/// Length and hash of a packet, for the record.
#[derive(Clone, Copy, Default)]
pub(super) struct Mark {
    pub bytes: u64,
    pub hash: u64,
}

/// The record of a fabric.
#[derive(Default)]
pub(super) struct Record {
    pub statistics: Statistics,
    digest: u64,
    trace: Option<Box<dyn Write>>,
    failure: Option<io::Error>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("statistics", &self.statistics).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Record {
    /// Something happened at a place, which is named only if somebody reads the trace. `until` is
    /// the time it leads to, if any.
    #[inline]
    pub fn note(&mut self, now: u64, what: What, place: u32, mark: Mark, until: u64, name: impl FnOnce() -> String) {
        self.fold(now, what as u64, place, mark, until);
        if self.trace.is_some() {
            let until = if until == 0 { String::new() } else { format!(" until {until}") };
            self.line(format_args!("{now} {} {} {} {:016x}{until}", name(), what.name(), mark.bytes, mark.hash));
        }
    }

    /// A packet was lost.
    pub fn note_drop(&mut self, now: u64, cause: DropCause, place: u32, mark: Mark, name: impl FnOnce() -> String) {
        self.statistics.dropped[cause as usize] += 1;
        self.fold(now, DROPPED + cause as u64, place, mark, 0);
        if self.trace.is_some() {
            self.line(format_args!("{now} {} dropped:{} {} {:016x}", name(), cause.name(), mark.bytes, mark.hash));
        }
    }

    #[inline]
    fn fold(&mut self, now: u64, code: u64, place: u32, mark: Mark, until: u64) {
        let digest = fold(self.digest, now);
        let digest = fold(digest, code << 56 ^ u64::from(place) << 24 ^ mark.bytes);
        self.digest = fold(digest, mark.hash ^ until.rotate_left(17));
    }

    #[cold]
    fn line(&mut self, text: fmt::Arguments<'_>) {
        if let Some(trace) = &mut self.trace
            && let Err(error) = writeln!(trace, "{text}")
        {
            self.trace = None;
            self.failure = Some(error);
        }
    }

    pub const fn digest(&self) -> u64 {
        self.digest
    }

    pub fn trace_to(&mut self, writer: Box<dyn Write>) {
        self.trace = Some(writer);
        self.failure = None;
    }

    pub fn end_trace(&mut self) -> io::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.trace.take().map_or(Ok(()), |mut trace| trace.flush())
    }
}
