// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine: sizes and times.

pub mod costs;
pub mod knobs;
pub mod parameters;

pub use costs::Costs;
pub use knobs::Knob;
pub use parameters::Parameters;
