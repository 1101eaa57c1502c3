// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's agents (`bellwired`): a command as JSON to one is answered by one. Used by `bellwire
//! vn` and `bellwire top`.
//!
//! An agent is asked only if it is root's or this user's own, for a command may hold a key, and
//! anybody may take an abstract name. Nothing in an answer is believed all the same: sizes and
//! times are bounded, text is made printable, fields that are missing are zero.

use crate::error::{Error, printable};
use crate::stat::{await_input, unix_sockets};
use bellwire_memory::{MemoryError, fd_passing};
use bellwire_wire::agent::{AgentError, AgentFailure, connect, name_of_agent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Longest answer that is taken, bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long an agent may take.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Most agents that are found, and most networks of one.
const AGENTS_MAX: usize = 64;
const NETWORKS_MAX: usize = 1 << 16;

/// What an agent has done since it began, and has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Status {
    /// The UDP address of the agent: IP address and port.
    pub address: String,
    /// Endpoints that it serves at a time.
    pub frames: u64,
    /// Endpoints that it serves now.
    pub resident: u64,
    /// Endpoints that wait for a frame.
    pub waiting: u64,
    /// Endpoints that are attached.
    pub endpoints: u64,
    /// Virtual networks, without that of everybody.
    pub networks: u64,
    /// Times that an endpoint wanted to be served and was not.
    pub faults: u64,
    /// Endpoints loaded into frames, so far.
    pub loads: u64,
    /// Endpoints that have left their frames, so far.
    pub unloads: u64,
    /// Endpoints attached, so far.
    pub attached: u64,
    /// Programs refused, so far.
    pub refused: u64,
    /// Endpoints ended because their program broke the rules.
    pub broken: u64,
    /// Packets to an endpoint of another network.
    pub foreign: u64,
    /// Packets refused because their receiver was not served.
    pub not_resident: u64,
    /// Packets lost because their receiver's ring was full.
    pub dropped: u64,
    /// Packets that endpoints sent.
    pub packets: u64,
    /// Datagrams that came from other agents.
    pub datagrams: u64,
    /// Times that the agent has slept.
    pub sleeps: u64,
    /// Users that have endpoints.
    pub users_in_all: u64,
    /// Those with most endpoints.
    pub users: Vec<User>,
}

/// What a user has at an agent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its endpoints.
    pub endpoints: u64,
    /// Those that are served now.
    pub frames: u64,
    /// Packets that they have sent.
    pub packets: u64,
}

/// A virtual network.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Whether a key lets users in who are no members.
    pub has_key: bool,
    /// Users who need no key; `None`: this user may not know.
    pub members: Option<Vec<u32>>,
    /// Endpoints that are in it on this host.
    pub endpoints: u64,
}

/// The addresses of the agents of this host, sorted.
pub fn find() -> Vec<IpAddr> {
    let first = String::from_utf8_lossy(&name_of_agent(None)).into_owned();
    let name = |line: &str| line.split_whitespace().nth(7)?.strip_prefix('@')?.strip_prefix(&first)?.strip_prefix('/')?.parse().ok();
    let mut found: Vec<IpAddr> = unix_sockets().lines().filter_map(name).collect();
    found.sort();
    found.dedup();
    found.truncate(AGENTS_MAX);
    found
}

/// Asks the agent of an address, or the host's first one.
fn ask(address: Option<IpAddr>, command: &Value) -> Result<Value, Error> {
    let failed = |e: MemoryError| Error::failed(format!("the agent: {e}"));
    let deadline = Instant::now() + TIME_MAX;
    let socket = connect(address).map_err(|failure| match failure {
        AgentFailure::NobodyThere => {
            let at = address.map_or(String::new(), |ip| format!(" --address {ip}"));
            Error::failed(format!("no agent accepts at @{}; start bellwired{at}", String::from_utf8_lossy(&name_of_agent(address))))
        }
        failure => Error::failed(AgentError { address, failure }.to_string()),
    })?;
    fd_passing::send(socket.as_fd(), command.to_string().as_bytes(), &[]).map_err(failed)?;
    let mut text = vec![0; ANSWER_BYTES_MAX];
    let length = loop {
        await_input(socket.as_fd(), deadline)?;
        match fd_passing::receive(socket.as_fd(), &mut text) {
            Ok(received) => break received.len,
            // The wait was interrupted.
            Err(MemoryError::WouldBlock) => {}
            Err(e) => return Err(failed(e)),
        }
    };
    let answer: Value = match serde_json::from_slice(text.get(..length).unwrap_or_default()) {
        Ok(answer) => answer,
        Err(_) => return Err(Error::failed("the agent's answer makes no sense; is bellwired of this version?")),
    };
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(Error::failed(printable(&error.chars().take(300).collect::<String>()))),
        None => Ok(answer),
    }
}

fn parse<T: for<'a> Deserialize<'a>>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|e| Error::failed(format!("the agent's answer makes no sense: {}", printable(&e.to_string()))))
}

/// What an agent has done, and has.
///
/// # Errors
/// No agent accepts there, it is the agent of another user, it does not answer in time, or its
/// answer makes no sense.
pub fn status(address: Option<IpAddr>) -> Result<Status, Error> {
    let mut status: Status = parse(ask(address, &json!({ "ask": "status" }))?)?;
    status.address = printable(&status.address);
    Ok(status)
}

/// The virtual networks of an agent, by their names.
///
/// # Errors
/// As [`status`].
pub fn networks(address: Option<IpAddr>) -> Result<Vec<Network>, Error> {
    let mut all: Vec<Network> = Vec::new();
    loop {
        let after = all.last().map_or("", |n| &n.name);
        let mut answer = ask(address, &json!({ "networks": after }))?;
        let some: Vec<Network> = parse(answer["networks"].take())?;
        // Names rise, so that an agent that makes them up comes to an end.
        if some.first().is_some_and(|n| n.name.as_str() <= after && !after.is_empty()) || all.len() + some.len() > NETWORKS_MAX {
            return Err(Error::failed("the agent's answer makes no sense: the same networks again"));
        }
        let is_last = some.is_empty() || answer["more"] != json!(true);
        all.extend(some);
        if is_last {
            all.iter_mut().for_each(|n| n.name = printable(&n.name));
            return Ok(all);
        }
    }
}

/// Makes a virtual network, or changes the members of one.
///
/// # Errors
/// As [`status`]; and what the agent says: this user may not, or the network cannot be.
pub fn make_network(address: Option<IpAddr>, name: &str, key: &str, members: &[u32]) -> Result<(), Error> {
    ask(address, &json!({ "make": { "name": name, "key": key, "members": members } })).map(drop)
}

/// Removes a virtual network. Endpoints in it end.
///
/// # Errors
/// As [`make_network`].
pub fn remove_network(address: Option<IpAddr>, name: &str) -> Result<(), Error> {
    ask(address, &json!({ "remove": name })).map(drop)
}
