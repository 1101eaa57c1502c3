// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's agents (`bellwired`): a command as JSON to one is answered by one. Used by `bellwire
//! vn` and `bellwire top`.
//!
//! An agent is asked only if it is root's or this user's own, for a command may hold a key, and
//! anybody may take an abstract name. Nothing in an answer is believed all the same: sizes and
//! times are bounded, text is made printable, fields that are missing are zero.

use crate::error::{Error, printable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::net::IpAddr;

/// Longest answer that is taken, bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long an agent may take.
const TIME_MAX: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Most agents that are found, and most networks of one.
const AGENTS_MAX: usize = 64;
const NETWORKS_MAX: usize = 1 << 16;
/// Beginning of the sockets' names; the agent's address follows.
const PREFIX: &str = "bellwire/agent/";

/// What an agent has done, and has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as in the answer; docs/guide/agent.md says what they are")]
pub struct Status {
    pub address: String,
    pub frames: u64,
    pub resident: u64,
    pub waiting: u64,
    pub endpoints: u64,
    pub networks: u64,
    pub faults: u64,
    pub loads: u64,
    pub unloads: u64,
    pub attached: u64,
    pub refused: u64,
    pub broken: u64,
    pub foreign: u64,
    pub not_resident: u64,
    pub dropped: u64,
    pub packets: u64,
    pub datagrams: u64,
    pub sleeps: u64,
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
    let table = fs::read("/proc/net/unix").map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let name = |line: &str| line.split_whitespace().nth(7)?.strip_prefix('@')?.strip_prefix(PREFIX)?.parse().ok();
    let mut found: Vec<IpAddr> = table.lines().filter_map(name).collect();
    found.sort();
    found.dedup();
    found.truncate(AGENTS_MAX);
    found
}

/// Asks the agent of an address, or the host's first one.
fn ask(address: Option<IpAddr>, command: &Value) -> Result<Value, Error> {
    let name = address.map_or_else(|| "bellwire/agent".to_owned(), |ip| format!("{PREFIX}{ip}"));
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?).is_err() {
        let at = address.map_or(String::new(), |ip| format!(" --address {ip}"));
        return Err(Error::failed(format!("no agent accepts at @{name}; start bellwired{at}")));
    }
    let uid = socket_peercred(&socket)?.uid;
    if !uid.is_root() && uid != rustix::process::geteuid() {
        return Err(Error::failed(format!("the process at @{name} is user {}'s; only root's agent and your own are asked", uid.as_raw())));
    }
    send(&socket, command.to_string().as_bytes(), SendFlags::NOSIGNAL)?;
    if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&TIME_MAX))? == 0 {
        return Err(Error::failed("the agent does not answer"));
    }
    let mut text = vec![0; ANSWER_BYTES_MAX];
    let (length, _) = recv(&socket, text.as_mut_slice(), RecvFlags::empty())?;
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
/// There is none, it is another user's, it does not answer in time, or its answer makes no sense.
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
