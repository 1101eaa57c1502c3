// SPDX-License-Identifier: MIT OR Apache-2.0
//! How wide the reader's screen is.

use std::io::{self, IsTerminal};

use rustix::termios::tcgetwinsize;

/// Narrower than any.
const LEAST: usize = 32;

/// Columns of the screen that reads standard output: what `COLUMNS` says, else the terminal's; of a
/// file or a pipe as many as are wanted.
pub fn columns() -> usize {
    let stated = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let of_terminal = || io::stdout().is_terminal().then(|| tcgetwinsize(io::stdout()).ok()).flatten().map(|size| usize::from(size.ws_col));
    stated.or_else(of_terminal).filter(|columns| *columns > 0).map_or(usize::MAX, |columns| columns.max(LEAST))
}
