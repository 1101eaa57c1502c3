// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the controller of an experiment tells its processes, and what they answer. One JSON object
//! a line, over a socket pair.

use serde::{Deserialize, Serialize};

/// The tag of all endpoints.
pub const TAG: u64 = 0x636f_6e74;
/// The handler of requests, at the server.
pub const PING: u8 = 1;
/// The handler of replies, at the client.
pub const PONG: u8 = 2;

/// How the server is made.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Serving {
    /// Endpoints.
    pub endpoints: usize,
    /// Whether each has a thread that waits for its events; else one thread polls.
    pub threads: bool,
    /// Whether each has a network interface of its own, also with one thread.
    pub nics: bool,
}

/// What a process is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Role {
    /// Answers.
    Server(Serving),
    /// Asks, with so many requests out.
    Client {
        /// Requests out.
        window: usize,
        /// Bytes of a request beside its arguments.
        bytes: usize,
        /// Whether it answers, too.
        answers: bool,
    },
}

/// To a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Ask {
    /// First of all.
    Be(Role),
    /// To a client that answers: what its own endpoint is called.
    Name,
    /// To a client: the name of the endpoint to ask, as bytes.
    Meet(Vec<u8>),
    /// To a client: begin to ask; count from `start` to `end`, nanoseconds of the monotonic clock.
    Run {
        /// From when on replies count.
        start: u64,
        /// Until when.
        end: u64,
    },
}

/// What a client has counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Replies.
    pub replies: u64,
    /// How often a response took so many nanoseconds.
    pub times: Vec<(u64, u64)>,
}

/// From a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    /// The names of its endpoints that answer, as bytes.
    Names(Vec<Vec<u8>>),
    /// Of a client: a first request was answered.
    Ready,
    /// Of a client, at the end.
    Counted(Counted),
    /// What went wrong.
    Failed(String),
}

/// Now, nanoseconds of the monotonic clock, which is the same for all processes.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
