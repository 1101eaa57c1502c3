// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fault model: possible faults of packets, links, nodes and clocks; the same for the simulated
//! fabric and for real wires.
//!
//! ```text
//!   text  "loss=0.01,delay=2ms,partition=1s..3s:a>b,seed=7"
//!     |  parse, Display (text.rs)                    draw.rs: a plan from a seed
//!     v
//!   FaultPlan (plan.rs) ---- faults(from, to) ----> Faults: one direction of one link, packet by packet (judge.rs)
//!        |-- Timetable: when outages begin and end (timetable.rs)
//!        |-- Fates: requests of RDMA programs, one by one (requests.rs)
//!        `-- clock(node): how a node's clock runs (skew.rs)
//! ```
//!
//! A wire asks [`Faults::judge`] (or [`Faults::apply`]) about each packet and does what the
//! [`Verdict`] says. Nothing here holds packets, knows addresses, sleeps or reads a clock.
//!
//! Invariants
//! - F1: verdicts are a function of the plan, the seed and the calls. No clock, thread, address or
//!   hash order takes part, nor floating point.
//! - F2: delay and jitter keep the order of packets; only what the verdict calls late may be
//!   overtaken.
//! - F3: a plan's text form gives the same plan when it is parsed.
//!
//! ```
//! use bellwire_faults::{FaultPlan, Verdict};
//! use bellwire_time::Instant;
//!
//! let plan: FaultPlan = "loss=0.5,corrupt=0.1,seed=7".parse()?;
//! let mut faults = plan.faults("a", "b", 1);
//! let mut packet = *b"hello";
//! match faults.apply(Instant(0), &mut packet) {
//!     Verdict::Drop(cause) => println!("lost: {cause}"),
//!     Verdict::Pass(changes) => println!("{packet:?} arrives {} ns late", changes.delay.0),
//! }
//! # Ok::<(), bellwire_faults::PlanError>(())
//! ```

#![forbid(unsafe_code)]

mod draw;
mod judge;
mod names;
mod plan;
mod probability;
mod random;
mod request_faults;
mod requests;
mod skew;
mod text;
mod timetable;
pub mod units;

pub use judge::{Cause, Changes, Corruption, Faults, Verdict};
pub use names::{Names, Pattern, Way};
pub use plan::{Burst, Corrupt, FaultPlan, LinkFaults, Outage, Removal, Reorder, SkewRule, Span, Squeeze, When};
pub use probability::Probability;
pub use random::Random;
pub use request_faults::RequestFaults;
pub use requests::{Fate, Fates};
pub use skew::Clock;
pub use text::PlanError;
pub use timetable::{Change, Timetable};
