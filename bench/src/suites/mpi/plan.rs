// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which patterns with which sizes are measured between how many ranks, as the program's arguments.

use crate::peers::mpi::SMALL;

/// Sizes of the ping-pong, of the stream and of what two ranks exchange: all, and if it is to be
/// quick.
const LATENCY: [&[u64]; 2] = [&[8, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20], &[8, 4 << 10, 64 << 10]];
const BANDWIDTH: [&[u64]; 2] = [&[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20], &[64 << 10, 1 << 20]];
const EXCHANGE: [&[u64]; 2] = [&[8, 1 << 10, 16 << 10, 64 << 10, 1 << 20], &[8, 64 << 10]];

/// A pattern alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// The ping-pong.
    PingPong,
    /// The stream.
    Bandwidth,
    /// The exchange.
    Sendrecv,
    /// Allreduce.
    Allreduce,
    /// Barrier.
    Barrier,
}

impl Only {
    /// All of them.
    pub const ALL: [Only; 5] = [Only::PingPong, Only::Bandwidth, Only::Sendrecv, Only::Allreduce, Only::Barrier];

    /// As the program calls it.
    fn name(self) -> &'static str {
        match self {
            Only::PingPong => "latency",
            Only::Bandwidth => "bandwidth",
            Only::Sendrecv => "sendrecv",
            Only::Allreduce => "allreduce",
            Only::Barrier => "barrier",
        }
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Points {
    /// Which patterns.
    pub only: Vec<Only>,
    /// Numbers of ranks.
    pub ranks: Vec<usize>,
    /// Fewer sizes, shorter.
    pub quick: bool,
}

impl Points {
    /// Numbers of ranks for which there is something to measure.
    pub fn ranks(&self) -> Vec<usize> {
        self.ranks.iter().copied().filter(|&ranks| !self.arguments(ranks).is_empty()).collect()
    }

    /// Milliseconds of a figure.
    pub fn budget_ms(&self) -> u32 {
        if self.quick { 10 } else { 24 }
    }

    /// The program's arguments for so many ranks: patterns with sizes. Ping-pong and stream are of
    /// two, the rest is measured by size between two, and with 8 bytes among more.
    pub fn arguments(&self, ranks: usize) -> Vec<String> {
        let sizes = |only: Only| -> &'static [u64] {
            let quick = usize::from(self.quick);
            match only {
                Only::Barrier => &[0],
                _ if ranks != 2 && matches!(only, Only::PingPong | Only::Bandwidth) => &[],
                _ if ranks != 2 => &[SMALL],
                Only::PingPong => LATENCY[quick],
                Only::Bandwidth => BANDWIDTH[quick],
                Only::Sendrecv | Only::Allreduce => EXCHANGE[quick],
            }
        };
        let argument = |only: &Only| {
            let sizes: Vec<String> = sizes(*only).iter().map(u64::to_string).collect();
            (!sizes.is_empty()).then(|| format!("{}:{}", only.name(), sizes.join(",")))
        };
        self.only.iter().filter_map(argument).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ranks_do_not_play_ping_pong() {
        let points = Points { only: Only::ALL.to_vec(), ranks: vec![2, 16], quick: true };
        assert_eq!(points.arguments(16), ["sendrecv:8", "allreduce:8", "barrier:0"]);
        assert_eq!(points.arguments(2)[0], "latency:8,4096,65536");
        let alone = Points { only: vec![Only::PingPong], ..points };
        assert_eq!(alone.ranks(), [2]);
    }
}
