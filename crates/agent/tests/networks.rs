// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual networks: who is in one reaches who is in the same one, and nobody else.

mod common;

use bellwire_agent::AgentConfig;
use bellwire_memory::fd_passing;
use bellwire_time::Duration;
use bellwire_wire::Transmit;
use bellwire_wire::agent::messages::{Label, RefuseReason};
use bellwire_wire::agent::{AgentConfig as PortConfig, AgentFailure, AgentPort, name_of_agent};
use bellwire_wire::packet::PacketPort;
use common::{Running, address, config, endpoint, take};
use std::net::SocketAddr;
use std::os::fd::AsFd;

fn label(text: &str) -> Label {
    Label::new(text.as_bytes()).unwrap()
}

fn open(at: SocketAddr, network: &str, key: &str) -> Result<AgentPort, AgentFailure> {
    AgentPort::open(PortConfig { address: Some(at.ip()), network: label(network), key: label(key), ..PortConfig::new(7.into()) }).map_err(|e| e.failure)
}

fn send(port: &mut AgentPort, to: SocketAddr, bytes: &[u8]) {
    assert!(port.is_ready());
    port.send(&Transmit { to, bytes, segment: None, fragment: false, session: None });
}

/// What an agent answers to a command.
fn ask(at: SocketAddr, command: &str) -> String {
    let socket = fd_passing::connect_abstract(&name_of_agent(Some(at.ip()))).unwrap();
    fd_passing::send(socket.as_fd(), command.as_bytes(), &[]).unwrap();
    let mut answer = [0; 4096];
    loop {
        match fd_passing::receive(socket.as_fd(), &mut answer) {
            Ok(received) => return String::from_utf8_lossy(&answer[..received.len]).into_owned(),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Sends a packet, and then one of its own network to the receiver: the first has not come.
fn is_not_reached(from: &mut AgentPort, to: &mut AgentPort, friend: &mut AgentPort) {
    send(from, to.address(), &[0x10, 1]);
    // The agent serves the endpoints by turns, so that the friend's may be first.
    for _ in 0..3 {
        send(friend, to.address(), &[0x10, 2]);
        assert_eq!(take(to), (friend.address(), vec![0x10, 2]));
    }
}

#[test]
fn networks_are_apart_on_a_host_and_between_hosts() {
    let (here, there) = (address(), address());
    let agents = [here, there].map(|at| Running::start(config(at, 64)));
    for at in [here, there] {
        assert_eq!(ask(at, r#"{"make":{"name":"physics","key":"secret"}}"#), "{}");
        assert_eq!(ask(at, r#"{"make":{"name":"chemistry","key":"secret"}}"#), "{}");
    }
    let mut ports = [open(here, "physics", ""), open(there, "physics", ""), open(here, "chemistry", ""), open(there, "", "")].map(Result::unwrap);
    let mut friend = open(here, "physics", "secret").unwrap();
    assert_eq!(ports[0].network(), ports[1].network(), "the tag is the same on all hosts");
    assert!(ports[2].network() != 0 && ports[2].network() != ports[0].network());
    let (physics, others) = ports.split_at_mut(2);
    for to in physics {
        send(&mut friend, to.address(), &[0x10, 7]);
        assert_eq!(take(to), (friend.address(), vec![0x10, 7]));
        for from in &mut *others {
            is_not_reached(from, to, &mut friend);
        }
    }
    drop((ports, friend));
    let foreign: u64 = agents.into_iter().map(|agent| agent.end().foreign).sum();
    assert_eq!(foreign, 4, "each was counted");
}

#[test]
fn another_key_is_another_network_between_hosts() {
    let (here, there) = (address(), address());
    let agents = [here, there].map(|at| Running::start(config(at, 64)));
    for (at, key) in [(here, "secret"), (there, "guessed")] {
        assert_eq!(ask(at, &format!(r#"{{"make":{{"name":"physics","key":"{key}"}}}}"#)), "{}");
    }
    let [mut a, mut b, mut friend] = [here, there, there].map(|at| open(at, "physics", "").unwrap());
    is_not_reached(&mut a, &mut b, &mut friend);
    drop(agents);
}

#[test]
fn a_network_that_is_removed_ends_its_endpoints_and_no_others() {
    let at = address();
    let agent = Running::start(config(at, 64));
    assert_eq!(open(at, "physics", "").err(), Some(AgentFailure::Refused(RefuseReason::Network)));
    assert_eq!(ask(at, r#"{"make":{"name":"physics"}}"#), "{}");
    let (mut member, mut other) = (open(at, "physics", "").unwrap(), endpoint(at));
    assert!(ask(at, r#"{"networks":""}"#).contains(r#""endpoints":1"#));
    assert_eq!(ask(at, r#"{"remove":"physics"}"#), "{}");
    let until = member.now() + Duration::from_millis(20_000);
    while member.is_attached() {
        assert!(member.now() < until, "it was not told");
        member.handle_control();
        std::thread::yield_now();
    }
    other.handle_control();
    assert!(other.is_attached());
    assert_eq!(open(at, "physics", "").err(), Some(AgentFailure::Refused(RefuseReason::Network)));
    drop(agent);
}

/// Its endpoints come back to it with their numbers, and strangers do not.
#[test]
fn networks_outlive_the_agent() {
    let at = address();
    let directory = std::env::temp_dir().join(format!("bellwire-agent-networks-{}", std::process::id()));
    let config = || AgentConfig { networks: Some(directory.join("networks.json")), ..config(at, 64) };
    let agent = Running::start(config());
    assert_eq!(ask(at, r#"{"make":{"name":"physics","key":"secret"}}"#), "{}");
    let mut member = open(at, "physics", "secret").unwrap();
    let before = (member.address(), member.network());
    drop(agent);
    let until = member.now() + Duration::from_millis(20_000);
    let turn = |member: &mut AgentPort, is_attached: bool| {
        while member.is_attached() != is_attached {
            assert!(member.now() < until, "{is_attached}");
            member.handle_control();
            // Here it asks for an agent again, as the wire that it is the port of has it do.
            let _ = member.poll_located();
            std::thread::yield_now();
        }
    };
    turn(&mut member, false);
    let agent = Running::start(config());
    turn(&mut member, true);
    assert_eq!((member.address(), member.network()), before);
    drop(agent);
    std::fs::remove_dir_all(directory).unwrap();
}
