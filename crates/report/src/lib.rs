// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of experiments: tables and plots as data ([`model`]), as text and CSV ([`text`]), as SVG
//! ([`plot`], [`bars`]; feature `svg`), as HTML ([`html`]), what commands need to print and write
//! them ([`output`]), and cases that run on all processors with a line of progress ([`cases`]). It
//! knows nothing of what is measured or simulated.

#![forbid(unsafe_code)]

pub mod bars;
pub mod cases;
pub mod html;
pub mod model;
pub mod output;
#[cfg(feature = "svg")]
pub mod picture;
#[cfg(feature = "svg")]
pub mod plot;
pub mod text;

pub use cases::{Progress, with_progress};
pub use model::Report;
