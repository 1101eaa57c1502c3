// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures about waiting: `waiting wake` compares a sleeping round trip with one over bare
//! eventfds; `waiting crowd` runs pairs of processes on fewer processors.
//!
//! ```text
//! cargo run --release -p bellwire-via --example waiting -- wake [ROUNDS]
//! cargo run --release -p bellwire-via --example waiting -- crowd poll|wait PAIRS [MILLISECONDS]
//! ```

#[path = "../tests/nic_common/mod.rs"]
mod nic_common;

use bellwire_via::nic::NicConfig;
use bellwire_via::wire::shm::ProtectionMode::Mapped;
use bellwire_via::{Nic, Reliability};
use nic_common::{End, LONG, call, named, serve};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{FdFlags, fcntl_setfd, read, write};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BATCH: usize = 1000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| arguments.get(at).map_or(otherwise, |a| a.parse().expect("a number"));
    match arguments.first().map(String::as_str) {
        Some("wake") => wake(number(1, 9)),
        Some("wake-peer") => wake_peer(&arguments),
        Some("crowd") => crowd(&arguments[1], number(2, 8), number(3, 1000) as u64),
        Some("crowd-server") => crowd_server(&arguments[1], &arguments[2]),
        Some("crowd-client") => crowd_client(&arguments[1], &arguments[2], number(3, 1000) as u64),
        _ => eprintln!("waiting wake [ROUNDS] | waiting crowd poll|wait PAIRS [MILLISECONDS]"),
    }
}

fn again(arguments: &[String]) -> Child {
    Command::new(std::env::current_exe().unwrap()).args(arguments).stdout(Stdio::piped()).spawn().unwrap()
}

fn sleepy() -> Nic {
    Nic::open(NicConfig { spin: Duration::ZERO, mode: Mapped, ..NicConfig::from_env().unwrap() }).unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn bell(fd: BorrowedFd<'_>) {
    write(fd, &1u64.to_ne_bytes()).unwrap();
}

fn await_bell(fd: BorrowedFd<'_>) {
    read(fd, &mut [0; 8]).unwrap();
}

/// One round trip through the NIC, asleep.
fn ask(end: &End<'_>) {
    end.post_receive(0, 64);
    end.send_now(64, 8);
    assert!(!end.nic.receive_wait(end.vi, LONG).unwrap().status.is_error());
}

fn wake(rounds: usize) {
    let (there, back) = (eventfd(0, EventfdFlags::empty()).unwrap(), eventfd(0, EventfdFlags::empty()).unwrap());
    for fd in [&there, &back] {
        fcntl_setfd(fd, FdFlags::empty()).unwrap();
    }
    let name = format!("waiting/{}", std::process::id());
    let words = [&name, &there.as_raw_fd().to_string(), &back.as_raw_fd().to_string(), &rounds.to_string()].map(String::clone);
    let mut peer = again(&[&["wake-peer".to_string()], &words[..]].concat());
    let nic = sleepy();
    let end = End::new(&nic, Reliability::ReliableDelivery, None);
    serve(&end, &named(&name)).unwrap();
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        for _ in 0..BATCH {
            bell(rustix::fd::AsFd::as_fd(&there));
            await_bell(rustix::fd::AsFd::as_fd(&back));
        }
        bare.push(began.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
        let began = Instant::now();
        (0..BATCH).for_each(|_| ask(&end));
        ours.push(began.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
    }
    peer.wait().unwrap();
    let ratio = median(bare.iter().zip(&ours).map(|(b, o)| o / b).collect());
    println!("round trip asleep: bare eventfds {:.2} us, bellwire {:.2} us, ratio {ratio:.2} (medians of {rounds})", median(bare), median(ours));
}

fn wake_peer(arguments: &[String]) {
    let fd = |at: usize| {
        // SAFETY: the parent left this descriptor open for us, for the life of the process.
        unsafe { BorrowedFd::borrow_raw(arguments[at].parse().unwrap()) }
    };
    let (there, back, rounds) = (fd(2), fd(3), arguments[4].parse::<usize>().unwrap());
    let nic = sleepy();
    let end = End::new(&nic, Reliability::ReliableDelivery, None);
    end.post_receive(0, 64);
    call(&end, &named(&arguments[1])).unwrap();
    for _ in 0..rounds {
        for _ in 0..BATCH {
            await_bell(there);
            bell(back);
        }
        (0..BATCH).for_each(|_| answer(&end));
    }
    end.nic.receive_wait(end.vi, Some(Duration::from_millis(200))).ok();
}

fn answer(end: &End<'_>) {
    let c = end.nic.receive_wait(end.vi, LONG).unwrap();
    assert!(!c.status.is_error());
    end.post_receive(0, 64);
    end.send_now(64, 8);
}

fn crowd(how: &str, pairs: usize, milliseconds: u64) {
    let name = |k: usize| format!("waiting/{}/{k}", std::process::id());
    let text = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut servers: Vec<Child> = (0..pairs).map(|k| again(&text(&["crowd-server", how, &name(k)]))).collect();
    let clients: Vec<Child> = (0..pairs).map(|k| again(&text(&["crowd-client", how, &name(k), &milliseconds.to_string()]))).collect();
    let mut each: Vec<u64> = Vec::new();
    for mut client in clients {
        let mut said = String::new();
        client.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        client.wait().unwrap();
        each.push(said.trim().parse().expect("the client's figure"));
    }
    servers.iter_mut().for_each(|s| drop(s.wait()));
    let sum: u64 = each.iter().sum();
    println!("{pairs} pairs, {how}: {sum} round trips/s in all; least {}, most {} of a pair", each.iter().min().unwrap(), each.iter().max().unwrap());
}

fn receive(end: &End<'_>, how: &str) -> bool {
    if how == "poll" {
        return !end.poll_receive().status.is_error();
    }
    !end.nic.receive_wait(end.vi, LONG).unwrap().status.is_error()
}

fn crowd_server(how: &str, name: &str) {
    let nic = Nic::open(NicConfig::from_env().unwrap()).unwrap();
    nic.ignore_errors();
    let end = End::new(&nic, Reliability::ReliableDelivery, None);
    end.post_receive(0, 64);
    serve(&end, &named(name)).unwrap();
    while receive(&end, how) {
        end.post_receive(0, 64);
        end.send_now(64, 8);
    }
}

fn crowd_client(how: &str, name: &str, milliseconds: u64) {
    let nic = Nic::open(NicConfig::from_env().unwrap()).unwrap();
    let end = End::new(&nic, Reliability::ReliableDelivery, None);
    call(&end, &named(name)).unwrap();
    // The others start meanwhile.
    std::thread::sleep(Duration::from_millis(500));
    let (began, mut count) = (Instant::now(), 0u64);
    while began.elapsed() < Duration::from_millis(milliseconds) {
        for _ in 0..16 {
            end.post_receive(0, 64);
            end.send_now(64, 8);
            assert!(receive(&end, how));
            count += 1;
        }
    }
    println!("{}", count * 1000 / milliseconds);
}
