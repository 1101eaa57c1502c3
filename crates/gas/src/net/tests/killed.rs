// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that is killed: what another one learns that waits for it, and one that asks
//! afterwards. The killed process is a real one.

use super::*;
use bellwire_via::wire::LinkFailure;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(line: &str) -> Vec<u8> {
    let digits: Vec<u8> = line.trim().chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
#[ignore = "the process that the tests below kill"]
fn victim() {
    let mut memory = Memory::new();
    let gather = |block: &[u8]| {
        println!("block {}", to_hex(block));
        std::io::stdout().flush().unwrap();
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        Ok(vec![from_hex(&line), block.to_vec()])
    };
    let _net = Net::open((1, 2), config(false), memory.window(), gather).unwrap();
    println!("there");
    std::io::stdout().flush().unwrap();
    // It computes until it is killed, or its parent has died.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Process 0, connected to a victim.
fn with_victim(memory: &mut Memory) -> (Net, Child) {
    let arguments = ["--exact", "net::tests::killed::victim", "--ignored", "--nocapture"];
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let block = said.find_map(|line| line.split_once("block ").map(|(_, hex)| from_hex(hex))).expect("its block");
    let stdin = child.stdin.as_mut().unwrap();
    let gather = |own: &[u8]| {
        writeln!(stdin, "{}", to_hex(own)).unwrap();
        Ok(vec![own.to_vec(), block])
    };
    let net = Net::open((0, 2), config(false), memory.window(), gather).unwrap();
    assert!(said.any(|line| line.ends_with("there")));
    (net, child)
}

fn check(outcome: Result<(), Error>) {
    let died = Death::Broken(Cause::Link(LinkFailure::PeerDied));
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::Trouble(Trouble::Gone(1, death)) if death == died), "{error:?}");
    assert_eq!(error.to_string(), "process 1 of the job is gone: the peer process exited");
}

#[test]
fn one_that_waits_for_a_killed_process_learns_why() {
    let mut memory = Memory::new();
    let (net, mut child) = with_victim(&mut memory);
    std::thread::scope(|scope| {
        // It never makes a collective call.
        let waiting = scope.spawn(|| net.gather(None).map(drop));
        while net.core().peers[1].credits.sent() == 0 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        check(waiting.join().unwrap());
    });
}

#[test]
fn one_that_asks_a_killed_process_learns_why() {
    let mut memory = Memory::new();
    let (net, mut child) = with_victim(&mut memory);
    child.kill().unwrap();
    child.wait().unwrap();
    // The helper hears of it.
    while net.core().trouble.is_none() {
        std::thread::yield_now();
    }
    let word = 1u64;
    // SAFETY: C1: a word of ours.
    check(unsafe { net.put(1, memory.at(0), (&raw const word).cast(), 8) });
    check(net.sync());
}
