// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwired`, the host's agent: the network interface that the programs of many users share, with
//! more endpoints than it has frames.
//!
//! ```text
//!   program ── tx ring ──>           ┌──> rx ring ── program            (the same host)
//!   program ── tx ring ──>   Agent  ─┤
//!   program ── tx ring ──>           └──> UDP ── agent of another host
//! ```
//!
//! An *endpoint* is a segment of memory (`bellwire_wire::agent::segment`) that the agent made for
//! one NIC of one program. A *frame* is what it takes to serve one: the segment mapped here, and a
//! turn in each round. Which endpoints have frames is decided by `bellwire-residency`; the others
//! cost a memfd and a table entry. The agent keeps no state of any session: what it loses when it
//! ends are packets.
//!
//! | file | concern |
//! |---|---|
//! | `config.rs` | the settings |
//! | `agent.rs` | the agent: rounds, sleep, frames |
//! | `endpoints.rs` | the tables of endpoints, numbers and names |
//! | `attach.rs` | connections: programs come and go, quotas |
//! | `networks.rs` | virtual networks: names, keys, members |
//! | `commands.rs` | the commands of people: status and networks |
//! | `serve.rs` | an endpoint's turn: where its packets go |
//! | `network.rs` | the UDP socket, and the header between agents |
//! | `main.rs` | the command |
//!
//! Invariants
//! - A1: a packet is delivered with the address of the endpoint in whose ring it lay, or with that
//!   of the agent that sent it: no program chooses its source.
//! - A2: a packet reaches only an endpoint of the same virtual network.
//! - A3: an endpoint that breaks its end of a ring is ended, and no other.
//! - A4: a turn is bounded in packets and bytes, and a full ring of a receiver costs that
//!   receiver's packets only: so no endpoint waits longer than a round for its turn.
//! - A5: nothing that a program does makes the agent wait.

#![forbid(unsafe_code)]

mod agent;
mod attach;
mod commands;
mod config;
mod endpoints;
mod network;
mod networks;
mod serve;

pub use agent::{Agent, Counters};
pub use config::{AgentConfig, OpenError};
