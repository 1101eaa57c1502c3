// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is simulated: sizes and times.

pub mod costs;
pub mod knobs;
pub mod parameters;

pub use costs::Costs;
pub use knobs::Knob;
pub use parameters::Parameters;
