// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a job ends, and how hard it is pressed: asked (TERM), and after a grace made to (KILL). No
//! clock and no process in it.

use std::time::{Duration, Instant};

use crate::signals;

/// Exit status of a job that ran out of time, as of timeout(1).
const TIMEOUT_STATUS: i32 = 124;

/// Why the job is not well. The first reason counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A process ended with a status that is not 0.
    Status { rank: usize, pid: u32, status: i32 },
    /// A process was ended by a signal.
    Signal { rank: usize, pid: u32, signal: i32, dumped: bool },
    /// A process asked for the end.
    Exit { rank: usize, status: i32 },
    /// Something that nobody can mend: a barrier that never ends, a process that does not speak
    /// PMI-1.
    Broken { why: String },
    /// The time was over.
    Timeout { after: Duration },
    /// The launcher got a signal.
    Told { signal: i32 },
    /// A process could not be started.
    NotStarted { why: String, status: i32 },
}

impl Reason {
    /// The launcher's exit status.
    pub(crate) fn status(&self) -> i32 {
        match self {
            Self::Status { status, .. } | Self::Exit { status, .. } | Self::NotStarted { status, .. } => *status,
            Self::Signal { signal, .. } | Self::Told { signal } => 128 + signal,
            Self::Broken { .. } => 1,
            Self::Timeout { .. } => TIMEOUT_STATUS,
        }
    }

    /// The message about it; `None` if it needs none.
    pub(crate) fn text(&self) -> Option<String> {
        Some(match self {
            Self::Status { rank, pid, status } => format!("rank {rank} (process {pid}) ended with status {status}"),
            Self::Signal { rank, pid, signal, dumped } => {
                let core = if *dumped { ", core dumped" } else { "" };
                format!("rank {rank} (process {pid}) was ended by {}{core}", signals::name(*signal))
            }
            Self::Exit { status: 0, .. } => return None,
            Self::Exit { rank, status } => format!("rank {rank} ended the job with status {status}"),
            Self::Broken { why } => why.clone(),
            Self::Timeout { after } => format!("the job has not ended within {} s (--timeout)", after.as_secs_f64()),
            Self::Told { signal } => format!("ended by {}", signals::name(*signal)),
            Self::NotStarted { why, .. } => why.clone(),
        })
    }
}

/// How hard the job is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Press {
    /// Ask every process to end.
    Ask,
    /// Kill every process.
    Kill,
}

/// The end of a job, from its first reason on.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    reason: Option<Reason>,
    kill_at: Option<Instant>,
    killed: bool,
}

impl Ending {
    /// Something ends the job; the first time, everybody is to be asked. Whether this was the
    /// first.
    pub(crate) fn begin(&mut self, reason: Reason, now: Instant, grace: Duration) -> Option<Press> {
        let is_first = self.reason.is_none();
        self.reason.get_or_insert(reason);
        if self.kill_at.is_some() {
            return None;
        }
        self.kill_at = Some(now + grace);
        is_first.then_some(Press::Ask)
    }

    /// Time has passed.
    pub(crate) fn press(&mut self, now: Instant) -> Option<Press> {
        let is_due = !self.killed && self.kill_at.is_some_and(|at| now >= at);
        self.killed |= is_due;
        is_due.then_some(Press::Kill)
    }

    /// No more patience.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.kill_at = self.kill_at.map(|at| at.min(now));
    }

    /// When to call [`Ending::press`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.kill_at.filter(|_| !self.killed)
    }

    /// Whether the end has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.reason.is_some()
    }

    /// The first reason.
    pub(crate) fn reason(&self) -> Option<&Reason> {
        self.reason.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asked_then_made() {
        let (start, grace) = (Instant::now(), Duration::from_secs(5));
        let mut ending = Ending::default();
        assert_eq!((ending.press(start), ending.deadline()), (None, None));
        let first = Reason::Status { rank: 2, pid: 7, status: 3 };
        assert_eq!(ending.begin(first.clone(), start, grace), Some(Press::Ask));
        assert_eq!(ending.begin(Reason::Signal { rank: 1, pid: 6, signal: 15, dumped: false }, start, grace), None);
        assert_eq!((ending.press(start), ending.press(start + grace), ending.press(start + grace)), (None, Some(Press::Kill), None));
        assert_eq!((ending.reason(), ending.deadline()), (Some(&first), None));
        assert_eq!(first.status(), 3);
    }

    #[test]
    fn hurried() {
        let start = Instant::now();
        let mut ending = Ending::default();
        ending.hurry(start);
        assert!(!ending.has_begun());
        ending.begin(Reason::Told { signal: 2 }, start, Duration::from_secs(60));
        ending.hurry(start);
        assert_eq!(ending.press(start), Some(Press::Kill));
        assert_eq!(ending.reason().map(Reason::status), Some(130));
    }
}
