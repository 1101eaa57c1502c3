// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start-up for programs that run as many equal processes (SPMD) and talk by Active Messages: one
//! call, and entry *i* of the endpoint's translation table is process *i*.
//!
//! ```no_run
//! let team = bellwire_spmd::Team::start(bellwire_job::Job::join()?)?;
//! println!("{} of {}", team.rank(), team.size());
//! team.barrier()?;
//! team.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | concern |
//! |---|---|
//! | `exchange.rs` | the services of a launcher: rank, size, and a first all-gather |
//! | `team.rs` | endpoints, names, the table; how it ends |
//! | `collective.rs` | barrier and all-gather by messages |
//! | `layer.rs` | what both need of Active Messages |
//!
//! It sits above `bellwire-am` and `bellwire-job`, which know nothing of each other. A dead process
//! is noticed: requests to it come back to the endpoint's error handler, collective calls fail with
//! its rank ([`Error::Lost`]), in all processes, whether or not the launcher ends the job.

#![forbid(unsafe_code)]

mod collective;
mod exchange;
pub mod layer;
mod team;

pub use collective::BLOCK_MAX_BYTES;
pub use exchange::Exchange;
pub use team::{Team, open_device};

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The launcher, or the exchange of names.
    Launcher(String),
    /// The NIC cannot be opened.
    Device(String),
    /// A call of Active Messages failed.
    Messages(bellwire_am::Error),
    /// A process of the job is gone: its number.
    Lost(u32),
    /// A block longer than [`BLOCK_MAX_BYTES`].
    TooLong {
        /// Its length, bytes.
        bytes: usize,
    },
    /// Within a handler, or while another thread is in a collective call.
    WrongMoment,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Launcher(what) | Self::Device(what) => f.write_str(what),
            Self::Messages(e) => e.fmt(f),
            Self::Lost(rank) => write!(f, "process {rank} of the job is gone"),
            Self::TooLong { bytes } => write!(f, "a block of {bytes} bytes; at most {BLOCK_MAX_BYTES} can be gathered"),
            Self::WrongMoment => f.write_str("not within a handler, and one collective call at a time"),
        }
    }
}

impl std::error::Error for Error {}

impl From<bellwire_am::Error> for Error {
    fn from(e: bellwire_am::Error) -> Self {
        Self::Messages(e)
    }
}
