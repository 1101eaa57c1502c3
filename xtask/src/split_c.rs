// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask split-c DIR FIRST COUNT PROCESSES`: random Split-C programs, by seed, and beside
//! each what it has to print on so many processes, found by a sequential interpreter of its
//! meaning. `splitcc/tests/random.sh` compiles and runs them.
//!
//! A program is a row of phases. In a phase each place of memory is written by one statement at
//! most and then read by no other, so its outcome does not depend on who is faster; what completes
//! the phase's split-phase operations stands at its end. Every process prints a sum of each of its
//! arrays after every phase.
//!
//! | file | what |
//! |---|---|
//! | `program.rs` | programs, and how a random one is made |
//! | `text.rs` | a program as Split-C |
//! | `meaning.rs` | what it does |

mod meaning;
mod program;
mod text;

use std::path::Path;

/// Writes programs number `first` to `first + count - 1` and what they print on `processes`
/// processes. Returns how many.
///
/// # Errors
/// What the file system says.
pub fn write(folder: &Path, first: u64, count: u64, processes: usize) -> std::io::Result<u64> {
    std::fs::create_dir_all(folder)?;
    for seed in first..first + count {
        let program = program::Program::random(seed);
        std::fs::write(folder.join(format!("{seed}.sc")), text::source(&program, seed))?;
        std::fs::write(folder.join(format!("{seed}.expected.{processes}")), meaning::output(&program, processes))?;
    }
    Ok(count)
}
