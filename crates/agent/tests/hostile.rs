// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that does what it likes with its memory and its connection: its neighbours notice
//! nothing.

mod common;

use bellwire_memory::region::{Access, RemoteRegion};
use bellwire_memory::{event, fd_passing};
use bellwire_wire::Transmit;
use bellwire_wire::agent::messages::{Label, MESSAGE_BYTES_MAX, ToAgent, ToProgram};
use bellwire_wire::agent::name_of_agent;
use bellwire_wire::packet::PacketPort;
use common::{Running, address, config, endpoint, take};
use rustix::fd::{AsFd, OwnedFd};
use std::net::SocketAddr;

fn send(port: &mut impl PacketPort, to: SocketAddr, bytes: &[u8]) {
    assert!(port.is_ready());
    port.send(&Transmit { to, bytes, segment: None, fragment: false, session: None });
}

/// Attaches by hand: the connection, and the memory.
fn attach(at: SocketAddr) -> Option<(fd_passing::Socket, RemoteRegion, OwnedFd)> {
    let socket = fd_passing::connect_abstract(&name_of_agent(Some(at.ip()))).ok()?;
    let (bell, ringer) = event::pipe_of_bell().unwrap();
    let attach = ToAgent::Attach { number: 0, network: Label::default(), key: Label::default() }.store();
    fd_passing::send(socket.as_fd(), &attach, &[ringer.as_fd()]).ok()?;
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    for _ in 0..1_000_000 {
        match fd_passing::receive(socket.as_fd(), &mut bytes) {
            Ok(mut received) => {
                let Some(ToProgram::Attached { .. }) = ToProgram::load(&bytes[..received.len]) else { return None };
                let segment = received.fds.remove(0);
                return Some((socket, RemoteRegion::map(segment, 1, 1 << 30, Access::ReadWrite).unwrap(), bell));
            }
            Err(bellwire_memory::MemoryError::WouldBlock) => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
    None
}

/// Two endpoints exchange packets; how many times one had to be sent again.
fn exchange(ports: &mut [bellwire_wire::agent::AgentPort; 2], rounds: u32) {
    for round in 0..rounds {
        for i in 0..2 {
            let (to, from) = (ports[1 - i].address(), ports[i].address());
            let bytes = [&[0x10], round.to_le_bytes().as_slice()].concat();
            send(&mut ports[i], to, &bytes);
            assert_eq!(take(&mut ports[1 - i]), (from, bytes));
        }
    }
}

#[test]
fn any_words_in_a_segment() {
    let at = address();
    let agent = Running::start(config(at, 8));
    let mut ports = [endpoint(at), endpoint(at)];
    let mut random = 1u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..60 {
        let Some((socket, segment, _bell)) = attach(at) else { panic!("round {round}: an endpoint for each") };
        for _ in 0..200 {
            let place = match next() % 3 {
                // The words, the tx ring's beginning, or anywhere.
                0 => next() % 512,
                1 => 512 + next() % 256,
                _ => next() % (segment.len() as u64 - 4),
            } & !3;
            let word = if next() % 2 == 0 { next() as u32 } else { (next() % 4096) as u32 & !15 };
            segment.bytes().copy_in(place as usize, &word.to_ne_bytes()).unwrap();
        }
        let _ = fd_passing::send(socket.as_fd(), &ToAgent::Ring.store(), &[]);
        // Its answer comes after the ring was heard; the exchange takes the agent's turns after it.
        let _ = fd_passing::send(socket.as_fd(), &ToAgent::Listen(7).store(), &[]);
        while fd_passing::receive(socket.as_fd(), &mut [0; MESSAGE_BYTES_MAX]).is_err_and(|e| e == bellwire_memory::MemoryError::WouldBlock) {
            std::thread::yield_now();
        }
        exchange(&mut ports, 3);
    }
    let counters = agent.end();
    assert!(counters.broken > 0, "{counters:?}");
}

/// Rings without end, nonsense on the connection, and thousands of attachments.
#[test]
fn noise_and_floods() {
    let at = address();
    let settings = bellwire_agent::AgentConfig { endpoints: 40, ..config(at, 8) };
    let agent = Running::start(settings);
    let mut ports = [endpoint(at), endpoint(at)];
    let (noisy, _segment, _bell) = attach(at).expect("room");
    let mut kept = Vec::new();
    let attachments: u32 = std::env::var("BELLWIRE_ATTACHMENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    for i in 0..attachments {
        for _ in 0..20 {
            let _ = fd_passing::send(noisy.as_fd(), &ToAgent::Ring.store(), &[]);
        }
        if let Some(attached) = attach(at) {
            kept.push(attached);
        }
        if i % 50 == 0 {
            exchange(&mut ports, 2);
        }
        if let Ok(socket) = fd_passing::connect_abstract(&name_of_agent(Some(at.ip()))) {
            let _ = fd_passing::send(socket.as_fd(), &vec![i as u8; 1 + (i % 80) as usize], &[]);
        }
        // Commands without end, of which no answer is read; nested ones, and longer than any.
        if let Ok(socket) = fd_passing::connect_abstract(&name_of_agent(Some(at.ip()))) {
            for command in [r#"{"ask":"status"}"#.to_owned(), "{\"ask\":".repeat(400), format!("{{{}", " ".repeat(i as usize * 20))] {
                let _ = fd_passing::send(socket.as_fd(), command.as_bytes(), &[]);
            }
        }
    }
    assert_eq!(kept.len(), 37, "no more than there is room for");
    exchange(&mut ports, 10);
    drop(kept);
    exchange(&mut ports, 10);
    let counters = agent.end();
    assert!(counters.refused >= u64::from(attachments) - 37, "{counters:?}");
}

/// An endpoint with an endless backlog, beside one that has a packet now and then: each round gives
/// both a turn.
#[test]
fn a_backlog_starves_nobody() {
    let at = address();
    let agent = Running::start(config(at, 8));
    let mut busy = endpoint(at);
    let mut sink = endpoint(at);
    let mut ports = [endpoint(at), endpoint(at)];
    let to = sink.address();
    let mut pushed = 0u32;
    for _ in 0..50 {
        while busy.is_ready() {
            send(&mut busy, to, &[0x10; 1000]);
            pushed += 1;
            if pushed.is_multiple_of(4096) {
                break;
            }
        }
        // A packet of each comes within a bounded number of the other's.
        exchange(&mut ports, 1);
        while sink.receive().is_some() {}
    }
    let counters = agent.end();
    assert!(pushed > 1000 && counters.broken == 0, "{pushed} {counters:?}");
}

/// Datagrams as agents send them, but longer than any program's packet; from another address of
/// this host, whose port any user can take. Their receiver does not leave its agent.
#[test]
fn packets_longer_than_any() {
    let (at, other) = (address(), address());
    let agent = Running::start(config(at, 8));
    let mut ports = [endpoint(at), endpoint(at)];
    exchange(&mut ports, 1);
    let forger = std::net::UdpSocket::bind(other).unwrap();
    let mut datagram = vec![0; 16 + 40_000];
    (datagram[0], datagram[1]) = (0xe1, 0x11);
    datagram[2..4].copy_from_slice(&ports[0].address().port().to_le_bytes());
    for _ in 0..10 {
        forger.send_to(&datagram, at).unwrap();
        exchange(&mut ports, 1);
    }
    let before = ports[0].address();
    // One that is short enough comes through: the header is as it should be.
    forger.send_to(&datagram[..16 + 100], at).unwrap();
    assert_eq!(take(&mut ports[0]).0.ip(), other.ip());
    assert!(ports[0].is_attached() && ports[0].address() == before);
    assert_eq!(agent.end().attached, 2, "nobody had to come back");
}

/// An agent that always has something to do ends when it is told to.
#[test]
fn traffic_without_end_keeps_no_agent() {
    let at = address();
    let agent = Running::start(config(at, 8));
    let (mut busy, sink) = (endpoint(at), endpoint(at));
    let to = sink.address();
    let done = std::sync::Arc::new(bellwire_memory::atomic::AtomicBool::new(false));
    let stop = std::sync::Arc::clone(&done);
    let sender = std::thread::spawn(move || {
        // Relaxed: only that it ends matters.
        while !stop.load(bellwire_memory::atomic::Ordering::Relaxed) && busy.is_attached() {
            busy.handle_control();
            if busy.is_ready() {
                send(&mut busy, to, &[0x10; 64]);
            }
        }
    });
    // The first packets have been routed: there is something in the ring of their receiver.
    let mut sink = sink;
    take(&mut sink);
    let counters = agent.end();
    // Relaxed: as above.
    done.store(true, bellwire_memory::atomic::Ordering::Relaxed);
    sender.join().unwrap();
    assert!(counters.packets > 0);
    drop(sink);
}
