// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the events of the launcher's loop are about, in the 64 bits that epoll gives back.

use rustix::event::epoll;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Signals,
    Outputs,
    Sinks,
    Input,
    Exit(usize),
    Pmi(usize),
}

impl Source {
    /// As epoll keeps it.
    pub(crate) fn data(self) -> epoll::EventData {
        let (kind, rank) = match self {
            Self::Signals => (0, 0),
            Self::Outputs => (1, 0),
            Self::Sinks => (2, 0),
            Self::Input => (3, 0),
            Self::Exit(rank) => (4, rank),
            Self::Pmi(rank) => (5, rank),
        };
        epoll::EventData::new_u64(kind | (rank as u64) << 8)
    }

    /// Back from there.
    pub(crate) fn of(data: u64) -> Self {
        let rank = (data >> 8) as usize;
        match data & 0xff {
            0 => Self::Signals,
            1 => Self::Outputs,
            2 => Self::Sinks,
            3 => Self::Input,
            4 => Self::Exit(rank),
            _ => Self::Pmi(rank),
        }
    }
}
