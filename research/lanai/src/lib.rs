// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC's share of the AMVIA paper: its Table 2 on simulated machines, on which the mappings of
//! `crates/amvia` run as they are.
//!
//! ```text
//!   share.rs     all that is shown ── fit.rs   the costs left open
//!   program.rs   LogP: a program on each host, and a raw VI
//!   crates/amvia, crates/vipl-calls
//!   library.rs   the VIPL calls that they use; each lets its time pass
//!   world.rs     two hosts and their virtual time
//!   nic.rs       firmware: looks at VIs in turn, doorbells, DMA, completion queues
//!   costs.rs     what everything costs: the figures of paper.rs, and the fits
//! ```

pub mod costs;
pub mod fit;
pub mod library;
pub mod nic;
pub mod paper;
pub mod program;
mod seen;
pub mod share;
pub mod world;

use std::fmt;

/// Why a simulation has failed, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    fn failed(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
