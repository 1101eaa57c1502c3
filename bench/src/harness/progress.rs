// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress on standard error: a bar on a terminal, a line per round elsewhere. Nothing is drawn
//! while a measurement runs.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Least time between two redraws of the label.
const REDRAW: Duration = Duration::from_millis(200);

/// Where the run stands.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    start: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// Progress over `steps` measurements in all.
    pub fn new(steps: usize, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            // Drawn by hand only: a background tick would run on a processor that is being
            // measured.
            let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr_with_hz(5));
            if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta}  {msg:40!}") {
                bar.set_style(style);
            }
            bar
        });
        Progress { bar, quiet, start: Instant::now(), drawn: None }
    }

    /// A round begins.
    pub fn round(&mut self, round: usize, rounds: usize) {
        match &self.bar {
            Some(bar) => bar.set_prefix(format!("round {round}/{rounds}")),
            None if !self.quiet => eprintln!("round {round} of {rounds} ({:.0} s)", self.start.elapsed().as_secs_f64()),
            None => {}
        }
    }

    /// A round begins that measures again what met a slow machine.
    pub fn make_up(&mut self, round: usize, steps: usize) {
        let text = format!("the machine was slow: measuring {steps} again, pass {round}");
        match &self.bar {
            Some(bar) => {
                bar.set_prefix("again");
                bar.set_message(text);
            }
            None if !self.quiet => eprintln!("{text} ({:.0} s)", self.start.elapsed().as_secs_f64()),
            None => {}
        }
    }

    /// A measurement begins.
    pub fn step(&mut self, label: &str) {
        let Some(bar) = &self.bar else { return };
        if self.drawn.is_none_or(|drawn| drawn.elapsed() > REDRAW) {
            bar.set_message(label.to_owned());
            self.drawn = Some(Instant::now());
        }
        bar.inc(1);
    }

    /// The run is over.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
