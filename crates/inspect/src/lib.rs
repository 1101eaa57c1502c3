// SPDX-License-Identifier: MIT OR Apache-2.0
//! This crate inspects a host and the processes on it: the host's facts ([`host`]: `bellwire info`)
//! and the counters of running NICs ([`stat`]: `bellwire top`). The measurements of `bench/` use
//! its parts too.
//!
//! | module | contents |
//! |---|---|
//! | [`host`] | facts about this host and about one process, each with its reason and advice |
//! | [`stat`] | the live view: NICs found, asked, and their answers taken with care |
//! | [`agent`] | the host's agents: their counts and their virtual networks |
//! | [`vipl_abi`] | libvipl, found and loaded at run time, through its C interface |
//! | [`pin`], [`channel`], [`cleanup`] | processes: where they run, what they are told, that nothing stays behind |
//! | [`shared`], [`exchange`], [`clock`], [`stats`] | memory of two processes, the least that a message can cost on it, time, the median |
//! | [`error`] | why something cannot be found out |
//!
//! Called by the `bellwire` command and by `bellwire-bench`: [`host::inspect`],
//! [`host::peer::inspect`], [`stat::ask`].

pub mod agent;
pub mod channel;
pub mod cleanup;
pub mod clock;
pub mod error;
pub mod exchange;
pub mod host;
pub mod pin;
pub mod shared;
pub mod stat;
pub mod stats;
pub mod vipl_abi;

pub use error::{Error, json_text};
