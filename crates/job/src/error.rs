// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of joining a job and exchanging blocks. These errors are rare and read by
//! people, so they carry text.

use std::fmt;
use std::time::Duration;

/// Why a call of [`crate::Job`] failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The environment promises a launcher, but not in a way that can be used.
    Environment(String),
    /// Another copy of this crate, in the same process, has joined the job already.
    JoinedBefore,
    /// The launcher said something that the protocol does not allow here.
    Protocol {
        /// The expected text.
        expected: &'static str,
        /// The text that came instead, shortened.
        got: String,
    },
    /// The launcher answered that it could not do it.
    Refused {
        /// The request.
        what: String,
        /// Its reason.
        why: String,
    },
    /// The launcher did not answer in time.
    Timeout {
        /// The awaited event.
        what: &'static str,
        /// For so long.
        after: Duration,
    },
    /// The launcher has gone.
    LauncherGone,
    /// Nobody has put a block under this key before the last fence.
    NotFound {
        /// Whose block.
        rank: u32,
        /// Its name.
        key: String,
    },
    /// A block longer than [`crate::BLOCK_MAX_BYTES`].
    TooLong {
        /// Its length, bytes.
        bytes: usize,
    },
    /// A key that is empty, longer than [`crate::KEY_MAX_BYTES`], or with other characters than
    /// letters, digits, `.`, `-` and `_`.
    BadKey(String),
    /// No process has this number.
    NoSuchRank {
        /// The number.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// A call that may not be made now: a barrier inside a barrier, for instance.
    WrongMoment(&'static str),
    /// A system call failed.
    Os {
        /// During what.
        what: &'static str,
        /// Its error number.
        errno: i32,
    },
}

impl Error {
    /// What a system call's failure becomes.
    pub(crate) fn os(what: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| Self::Os { what, errno: errno.raw_os_error() }
    }

    /// A reply that is not what it should be; shortened, for it may be anything.
    pub(crate) fn protocol(expected: &'static str, got: &[u8]) -> Self {
        const SHOWN_MAX: usize = 120;
        let shown: String = got.iter().take(SHOWN_MAX).flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).collect();
        let more = if got.len() > SHOWN_MAX { "..." } else { "" };
        Self::Protocol { expected, got: format!("{shown}{more}") }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(what) => f.write_str(what),
            Self::JoinedBefore => f.write_str(
                "another library of this process has joined the job already: link all of them with libbellwire_job (pkg-config bellwire-job), so that they share one connection",
            ),
            Self::Protocol { expected, got } => write!(f, "the launcher was expected to say \"{expected}\", but said \"{got}\""),
            Self::Refused { what, why } => write!(f, "the launcher refused {what}: {why}"),
            Self::Timeout { what, after } => write!(
                f,
                "the launcher did not answer within {} s (waiting for {what}); BELLWIRE_JOB_TIMEOUT_S changes the time",
                after.as_secs_f32()
            ),
            Self::LauncherGone => f.write_str("the launcher has closed the connection: it, or the whole job, is ending"),
            Self::NotFound { rank, key } => write!(f, "rank {rank} has put nothing under \"{key}\" before the last fence"),
            Self::TooLong { bytes } => write!(f, "a block of {bytes} bytes; at most {} can be exchanged", crate::BLOCK_MAX_BYTES),
            Self::BadKey(key) => write!(f, "\"{}\" is no key: 1 to {} letters, digits, '.', '-' or '_'", key.escape_default(), crate::KEY_MAX_BYTES),
            Self::NoSuchRank { rank, size } => write!(f, "there is no rank {rank}: the job has {size} processes"),
            Self::WrongMoment(why) => f.write_str(why),
            Self::Os { what, errno } => write!(f, "{what}: {}", std::io::Error::from_raw_os_error(*errno)),
        }
    }
}

impl std::error::Error for Error {}
