// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs on global memory, each checked against the same work done by one process without it. The examples here run them alone; `bellwire gas` takes their figures.
//!
//! - [`em3d`]: electromagnetic waves on a graph, the program by which Split-C was introduced (D. E. Culler and others, "Parallel Programming in Split-C", 1993): values on two sides of a bipartite graph,
//!   each computed from its neighbours, of which some belong to other processes.
//! - [`sample`]: sample sort: some keys decide what goes where, every key moves once, in bulk, and each process sorts what it gets.

pub mod em3d;
pub mod sample;

/// A number made of others, the same everywhere.
pub(crate) fn scrambled(seeds: [u64; 4]) -> u64 {
    seeds.into_iter().fold(0x9e37_79b9_7f4a_7c15, |state: u64, seed| {
        let mixed = (state ^ seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}
