// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of both simulators, tables and plots, as text, CSV and SVG; and the line of progress while they are made.

pub mod bars;
pub mod plot;
pub mod text;

use std::io::IsTerminal;

use bellwire_sim::scenario::Progress;

/// Cells of the bar.
const BAR: usize = 24;

/// Does something while progress can be told, in one line on standard error that is written over; on a terminal only, and not if `quiet`.
pub fn with_progress<T>(quiet: bool, work: impl FnOnce(&(dyn Fn(Progress<'_>) + Sync)) -> T) -> T {
    let shows = !quiet && std::io::stderr().is_terminal();
    let result = work(&|Progress { done, all, case }| {
        if shows {
            let full = done * BAR / all.max(1);
            eprint!("\r\x1b[K[{}{}] {done} of {all}: {case}", "#".repeat(full), ".".repeat(BAR - full));
        }
    });
    if shows {
        eprint!("\r\x1b[K");
    }
    result
}
