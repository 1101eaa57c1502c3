// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two transports with authenticated sessions, whose keys change often, on a network that the input
//! steers: packets bent, made up, held back and said again.

/// Runs one input.
pub fn run(data: &[u8]) {
    crate::transport::run_with(data, true);
}
