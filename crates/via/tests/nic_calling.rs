// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that waits for a request for a connection: messages neither wake it nor ring the NIC's
//! bell for it, and a request always wakes it, whichever thread moves the frames of its NIC.

mod nic_common;

use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_via::wire::shm::ProtectionMode::{Guarded, Mapped};
use bellwire_via::{ConnectionRequest, Error, NetAddress, Nic, Reliability};
use nic_common::*;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

const MESSAGES: u64 = 500;
const ROUNDS: usize = 6;

/// A thread in `connect_wait`.
struct Waiting<'s> {
    thread: ScopedJoinHandle<'s, Result<ConnectionRequest, Error>>,
    task: String,
}

impl<'s> Waiting<'s> {
    /// Starts one, and returns when it sleeps.
    fn start<'e>(scope: &'s Scope<'s, 'e>, nic: &'e Nic, at: NetAddress, time: Option<Duration>) -> Self {
        let (tell, told): (_, Receiver<String>) = channel();
        let thread = scope.spawn(move || {
            let id = rustix::thread::gettid();
            tell.send(format!("/proc/self/task/{}", id.as_raw_nonzero())).unwrap();
            nic.connect_wait(&at, time)
        });
        let waiting = Self { thread, task: told.recv().unwrap() };
        let begun = Instant::now();
        while !waiting.sleeps() {
            assert!(begun.elapsed() < LONG.unwrap(), "it never sleeps");
            std::thread::sleep(Duration::from_millis(1));
        }
        waiting
    }

    fn sleeps(&self) -> bool {
        let before = self.switches();
        std::thread::sleep(Duration::from_millis(2));
        let stat = std::fs::read_to_string(format!("{}/stat", self.task)).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('S') && before == self.switches()
    }

    /// Times that it has slept.
    fn switches(&self) -> u64 {
        number(&format!("{}/status", self.task), "voluntary_ctxt_switches:").unwrap()
    }
}

/// The number behind a word at the beginning of a line.
fn number(file: &str, word: &str) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

/// Times that any other thread of this process has slept: the helpers, too.
fn switches_of_others() -> u64 {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap()).filter(|task| *task.file_name() != *own);
    tasks.filter_map(|task| number(task.path().join("status").to_str().unwrap(), "voluntary_ctxt_switches:")).sum()
}

/// The tests count what all threads do.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nics(which: usize) -> (Nic, Nic, NetAddress) {
    let last = 100 + 2 * which as u8;
    let (a, b, at) = match which {
        0 => (open(Mapped), open(Mapped), address()),
        1 => (open(Guarded), open(Guarded), address()),
        _ => (open_udp(last, ""), open_udp(last + 1, ""), at(last, "calls")),
    };
    a.ignore_errors();
    b.ignore_errors();
    (a, b, at)
}

/// Two connected ends, whatever the wire.
fn joined<'a>(a: &'a Nic, b: &'a Nic, at: &NetAddress) -> (End<'a>, End<'a>) {
    let (x, y) = (End::new(a, Reliability::ReliableDelivery, None), End::new(b, Reliability::ReliableDelivery, None));
    std::thread::scope(|s| {
        s.spawn(|| serve(&x, at).unwrap());
        ask(&y, at);
    });
    (x, y)
}

fn ask(end: &End<'_>, at: &NetAddress) {
    let own = NetAddress::new(at.host(), format!("own {:?}", end.vi).as_bytes()).unwrap();
    end.nic.connect_request(end.vi, &own, at, LONG).unwrap();
}

#[test]
fn messages_wake_no_one_who_waits_for_a_connection() {
    let _alone = alone();
    for which in 0..2 {
        let (a, b, at) = nics(which);
        let (x, y) = joined(&a, &b, &at);
        std::thread::scope(|s| {
            let other = NetAddress::new(at.host(), b"somewhere else").unwrap();
            let waiting = Waiting::start(s, &a, other, Some(Duration::from_secs(4)));
            // The helper gives the bell up to a program that polls.
            at_last("a program that polls is not rung for", || {
                let (slept, others) = (waiting.switches(), switches_of_others());
                for _ in 0..MESSAGES {
                    x.post_receive(0, 64);
                    y.post_send(0, 8);
                    while y.nic.send_done(y.vi).unwrap().is_none() {}
                    x.poll_receive();
                }
                assert_eq!(waiting.switches(), slept, "messages wake it");
                switches_of_others() - others < MESSAGES / 10
            });
            let outcome = waiting.thread.join().unwrap();
            assert_eq!(outcome.err(), Some(Error::Timeout));
        });
    }
}

#[test]
fn a_nic_that_ends_wakes_who_waits_for_a_connection() {
    let _alone = alone();
    for which in 0..3 {
        let (a, _, at) = nics(which);
        std::thread::scope(|s| {
            let waiting = Waiting::start(s, &a, at, LONG);
            a.with(bellwire_via::Engine::abandon);
            assert_eq!(waiting.thread.join().unwrap().err(), Some(Error::InvalidParameter));
        });
    }
}

/// The thread that moves the frames of the NIC while another one waits there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mover {
    Helper,
    Poller,
    Leader,
    /// One that has just left, and with it the bell.
    LateLeader,
}

#[test]
fn a_request_wakes_who_waits_for_it_alone() {
    let _alone = alone();
    for which in 0..3 {
        let (a, b, at) = nics(which);
        let (x, y) = joined(&a, &b, &at);
        for mover in [Mover::Helper, Mover::Poller, Mover::Leader, Mover::LateLeader] {
            for _ in 0..ROUNDS {
                round(&a, &b, &at, (&x, &y), mover);
            }
        }
    }
}

fn round(a: &Nic, b: &Nic, at: &NetAddress, (x, y): (&End<'_>, &End<'_>), mover: Mover) {
    let (other, done) = (NetAddress::new(at.host(), b"nobody asks here").unwrap(), AtomicBool::new(false));
    let (server, client) = (End::new(a, Reliability::ReliableDelivery, None), End::new(b, Reliability::ReliableDelivery, None));
    let end_leader = || {
        x.post_receive(0, 64);
        y.send_now(0, 8);
    };
    std::thread::scope(|s| {
        let bystander = Waiting::start(s, a, other, LONG);
        let waiting = Waiting::start(s, a, *at, LONG);
        match mover {
            Mover::Helper => {}
            // Relaxed: it only ends the thread.
            Mover::Poller => {
                s.spawn(|| {
                    while !done.load(Ordering::Relaxed) && x.nic.receive_done(x.vi).unwrap().is_none() {
                        std::hint::spin_loop();
                    }
                });
            }
            Mover::Leader | Mover::LateLeader => _ = s.spawn(|| x.nic.receive_wait(x.vi, LONG).unwrap()),
        }
        if mover == Mover::LateLeader {
            end_leader();
        }
        let slept = bystander.switches();
        let asking = s.spawn(|| ask(&client, at));
        let request = waiting.thread.join().unwrap().expect("it sleeps over a request");
        assert_eq!(bystander.switches(), slept, "{mover:?}: a request for another address wakes it");
        a.with(|e| e.accept(request.incoming, server.vi)).unwrap();
        asking.join().unwrap();
        done.store(true, Ordering::Relaxed);
        if mover == Mover::Leader {
            end_leader();
        }
        // Ends the bystander.
        let last = End::new(b, Reliability::ReliableDelivery, None);
        let asked = s.spawn(move || last.nic.connect_request(last.vi, &address(), &other, LONG).err());
        let request = bystander.thread.join().unwrap().unwrap();
        a.with(|e| e.reject(request.incoming)).unwrap();
        assert_eq!(asked.join().unwrap(), Some(Error::Rejected));
    });
    for end in [server, client] {
        end.nic.with(|e| e.end_vi(end.vi));
    }
}
