// SPDX-License-Identifier: MIT OR Apache-2.0
//! kill -9 of a server, and of a client, at random moments: the other goes on, each call ends once.
//! The test starts its own program again. Rounds: `BELLWIRE_KILLS`.

mod common;

use bellwire_rpc::{Address, CallError, Death, Node, Peer, Procedure, Responder};
use bellwire_via::Cause;
use bellwire_via::wire::LinkFailure;
use common::{PATIENCE, pattern};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ECHO: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("echo", 1);
const LATER: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("later", 1);
/// "server", or "client ADDRESS".
const VARIABLE: &str = "BELLWIRE_RPC_TEST";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

/// Calls that a server keeps without an answer.
const KEPT: usize = 5;

type Held = Arc<Mutex<Vec<(Vec<u8>, Responder<Vec<u8>>)>>>;

fn serves(node: &Node) -> Held {
    let held = Held::default();
    let keeps = Arc::clone(&held);
    node.serve(&ECHO, |data, _| Ok(data)).unwrap();
    node.serve_later(&LATER, move |data, responder| keeps.lock().unwrap().push((data, responder))).unwrap();
    held
}

/// Answers some of what is held.
fn answer(held: &Held, keep: usize) {
    let mut held = held.lock().unwrap();
    while held.len() > keep {
        let (data, responder) = held.remove(0);
        responder.reply(Ok(data));
    }
}

/// Not a test of its own: what a child process does, until it is killed.
#[test]
fn child() {
    let Ok(role) = std::env::var(VARIABLE) else { return };
    let node = Node::open().unwrap();
    if role == "server" {
        let held = serves(&node);
        println!("address {}", hex(&node.address().to_bytes()));
        loop {
            answer(&held, KEPT);
            if node.poll().unwrap() == 0 {
                node.wait(Some(Duration::from_millis(1))).unwrap();
            }
        }
    }
    let address = Address::from_bytes(&unhex(role.strip_prefix("client ").expect("a role"))).unwrap();
    let peer = node.connect(&address).unwrap();
    println!("address -");
    for i in 0.. {
        let data = pattern(i, i * 7919 % 200_000);
        let calls = [node.start(peer, &ECHO, &data, None).unwrap(), node.start(peer, &LATER, &data, None).unwrap()];
        for call in calls {
            assert!(call.wait().unwrap() == data);
        }
    }
}

fn start(role: &str) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.args(["--exact", "child", "--nocapture"]).env(VARIABLE, role).stdout(Stdio::piped()).spawn().expect("it starts");
    // The test runner's own words may stand before it in the line.
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find_map(|line| line.split_once("address ").map(|(_, address)| address.to_owned()));
    (child, line.expect("an address"))
}

fn kills() -> u32 {
    std::env::var("BELLWIRE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn servers_are_killed() {
    let node = Node::open().unwrap();
    for kill in 0..kills() {
        let (child, address) = start("server");
        let peer = node.connect(&Address::from_bytes(&unhex(&address)).unwrap()).unwrap();
        let (mut child, at) = (Some(child), Instant::now() + Duration::from_micros(u64::from(kill) * 7919 % 40_000 + 2000));
        let (mut well, mut gone) = (0, 0);
        let until = Instant::now() + PATIENCE;
        for i in 0.. {
            let data = pattern(i, i * 7919 % 150_000);
            let calls: Vec<_> = (0..20).map(|k| node.start(peer, if k % 2 == 0 { &ECHO } else { &LATER }, &data, None).unwrap()).collect();
            let waits = |left: usize| calls.iter().filter(|call| !call.is_done()).count() > left;
            let drive = |left| node.drive(|| !waits(left) || Instant::now() > until).unwrap();
            let is_dead = Instant::now() > at;
            // It is killed with calls on their way; every other time with calls that it has and
            // keeps.
            if !is_dead || kill % 2 == 0 {
                drive(KEPT);
            }
            if is_dead {
                // Time for the server to say that it has them: they do not come back then, only its
                // end is told.
                let then = Instant::now() + Duration::from_millis(if kill % 2 == 0 { 20 } else { 0 });
                while Instant::now() < then {
                    node.poll().unwrap();
                }
                end(child.take().expect("killed once"));
                drive(0);
            }
            assert!(Instant::now() < until, "calls to a server that was killed do not end");
            for call in calls {
                if !call.is_done() {
                    continue;
                }
                match call.wait() {
                    Ok(back) => {
                        assert!(back == data, "another call's data");
                        well += 1;
                    }
                    Err(e) => {
                        assert!(is_dead && matches!(e, CallError::Gone(_)), "{e}");
                        gone += 1;
                    }
                }
            }
            if is_dead {
                break;
            }
        }
        assert!(well + gone > 0);
        node.disconnect(peer).unwrap();
    }
}

/// Why calls to a process that was killed end.
fn is_exited(outcome: Result<Vec<u8>, CallError>) -> bool {
    const EXITED: Death = Death::Broken(Cause::Link(LinkFailure::PeerDied));
    match outcome {
        Err(e @ CallError::Gone(gone)) => {
            assert_eq!(e.to_string(), "the peer is gone: the peer process exited");
            gone.death() == Some(EXITED)
        }
        _ => false,
    }
}

#[test]
fn calls_tell_that_the_process_exited() {
    let node = Node::open().unwrap();
    let connect = || {
        let (child, address) = start("server");
        let peer = node.connect(&Address::from_bytes(&unhex(&address)).unwrap()).unwrap();
        assert_eq!(node.call(peer, &ECHO, &vec![1]), Ok(vec![1]));
        (child, peer)
    };
    // The death is noticed before the call: it has ended a call that the server kept.
    let (child, peer) = connect();
    let kept = node.start(peer, &LATER, &vec![2], None).unwrap();
    assert_eq!(node.call(peer, &ECHO, &vec![3]), Ok(vec![3]));
    end(child);
    assert!(is_exited(kept.wait()), "the call that was kept");
    assert!(is_exited(node.call(peer, &ECHO, &vec![4])), "the call after the notice");
    assert!(is_exited(node.call(peer, &ECHO, &vec![5])), "the call after a call that found nobody");
    // And after the call: it has left, and nobody has looked for news of the peer.
    let (child, peer) = connect();
    end(child);
    let call = node.start(peer, &ECHO, &vec![6], None).unwrap();
    assert!(is_exited(call.wait()), "the call before the notice");
}

#[test]
fn clients_are_killed() {
    let node = Node::open().unwrap();
    let held = serves(&node);
    let address = hex(&node.address().to_bytes());
    let other = Node::open().unwrap();
    let peer: Peer = other.connect(&node.address()).unwrap();
    for kill in 0..kills() {
        let (child, _) = start(&format!("client {address}"));
        let at = Instant::now() + Duration::from_micros(u64::from(kill) * 9973 % 50_000 + 5000);
        let until = Instant::now() + PATIENCE;
        // Somebody else is served all the while, also after it.
        let mut call = other.start(peer, &ECHO, &pattern(1, 1000), None).unwrap();
        let (mut child, mut answered) = (Some(child), 0);
        loop {
            node.poll().unwrap();
            other.poll().unwrap();
            if call.is_done() {
                assert!(call.wait().unwrap() == pattern(1, 1000));
                answered += u32::from(child.is_none());
                call = other.start(peer, &ECHO, &pattern(1, 1000), None).unwrap();
            }
            if Instant::now() < at {
                answer(&held, 0);
            } else if let Some(child) = child.take() {
                // With a call that is not answered, if there is one.
                end(child);
            } else if answered >= 2 && held.lock().unwrap().iter().all(|(_, responder)| responder.is_cancelled()) {
                break;
            }
            assert!(Instant::now() < until, "the server does not hear that its client is gone, or does not go on serving: {answered}");
        }
        held.lock().unwrap().clear();
        drop(call);
    }
}
