// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's agents: a line of JSON to one is answered by one. Used by `bellwire vn` and `bellwire top`.
//!
//! As with NICs, nothing in an answer is believed: sizes and times are bounded, and what is shown is made printable by who shows it.

use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with};
use serde_json::Value;
use std::fs;
use std::net::IpAddr;

/// Longest answer that is taken, bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long an agent may take.
const TIME_MAX: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Most agents that are found.
const AGENTS_MAX: usize = 64;
const PREFIX: &str = "bellwire/agent/";

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
///
/// # Errors
/// There is none, it does not answer in time, or it answers with an error.
pub fn ask(address: Option<IpAddr>, command: &Value) -> Result<Value, Error> {
    let name = address.map_or_else(|| "bellwire/agent".to_owned(), |ip| format!("{PREFIX}{ip}"));
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?).is_err() {
        let at = address.map_or(String::new(), |ip| format!(" at {ip}"));
        return Err(Error::failed(format!("no agent answers{at}: start bellwired")));
    }
    send(&socket, command.to_string().as_bytes(), SendFlags::NOSIGNAL)?;
    if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&TIME_MAX))? == 0 {
        return Err(Error::failed("the agent does not answer"));
    }
    let mut text = vec![0; ANSWER_BYTES_MAX];
    let (length, _) = recv(&socket, text.as_mut_slice(), RecvFlags::empty())?;
    let answer: Value = serde_json::from_slice(&text[..length.min(text.len())]).map_err(|_| Error::failed("the answer of the agent makes no sense"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(Error::failed(error.chars().filter(|c| !c.is_control()).take(300).collect::<String>())),
        None => Ok(answer),
    }
}
