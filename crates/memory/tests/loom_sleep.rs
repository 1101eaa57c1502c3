// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model of sleeping: a sleeper arms a word, issues the heavy barrier, looks again and sleeps on
//! its bell; a sender publishes, issues the light barrier, and rings only when the word is armed.
//! No wake-up is lost. (`membarrier` is a full fence on both sides in a model.)
#![cfg(loom)]

use bellwire_memory::membarrier::{Reach, heavy, light};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

#[derive(Default)]
struct Shared {
    /// What the sender publishes: stands for the lap bit of a line.
    published: AtomicU32,
    armed: AtomicU32,
}

/// What the sender does for each message.
fn send(shared: &Shared, bell: &Notify, n: u32) {
    // Release: as the line queue publishes.
    shared.published.store(n, Ordering::Release);
    light(true);
    // Relaxed: ordered after the publication by the barrier pair; a stale "armed" costs one ring
    // too many.
    if shared.armed.load(Ordering::Relaxed) != 0 {
        bell.notify();
    }
}

/// Waits, asleep, until message `n` is there.
fn sleep_until(shared: &Shared, bell: &Notify, n: u32) {
    // Acquire: as the line queue reads.
    while shared.published.load(Ordering::Acquire) < n {
        // Relaxed: ordered before the second look by the barrier.
        shared.armed.store(1, Ordering::Relaxed);
        heavy(Reach::Registered);
        // Acquire: as the line queue reads.
        if shared.published.load(Ordering::Acquire) < n {
            // A lost wake-up ends here: the model reports the deadlock.
            bell.wait();
        }
        // Relaxed: only a hint to the sender.
        shared.armed.store(0, Ordering::Relaxed);
    }
}

fn model(messages: u32) {
    loom::model(move || {
        let (shared, bell) = (Arc::new(Shared::default()), Arc::new(Notify::new()));
        let (theirs, their_bell) = (shared.clone(), bell.clone());
        let sender = thread::spawn(move || {
            for n in 1..=messages {
                send(&theirs, &their_bell, n);
            }
        });
        for n in 1..=messages {
            sleep_until(&shared, &bell, n);
        }
        sender.join().unwrap();
    });
}

#[test]
fn one_message_wakes() {
    model(1);
}

#[test]
fn each_of_two_messages_wakes() {
    model(2);
}

/// Two senders, one bell: each has its own line, the armed word is one.
#[test]
fn two_senders_one_sleeper() {
    loom::model(|| {
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)));
        let bell = Arc::new(Notify::new());
        let senders: Vec<_> = (0..2)
            .map(|k| {
                let (words, bell) = (words.clone(), bell.clone());
                thread::spawn(move || {
                    // Release, then the light barrier: as in send().
                    if k == 0 { &words.0 } else { &words.1 }.store(1, Ordering::Release);
                    light(true);
                    // Relaxed: as in send().
                    if words.2.load(Ordering::Relaxed) != 0 {
                        bell.notify();
                    }
                })
            })
            .collect();
        // Acquire: as the line queue reads.
        let both = || words.0.load(Ordering::Acquire) == 1 && words.1.load(Ordering::Acquire) == 1;
        while !both() {
            // Relaxed: as in sleep_until().
            words.2.store(1, Ordering::Relaxed);
            heavy(Reach::Registered);
            if !both() {
                bell.wait();
            }
        }
        for sender in senders {
            sender.join().unwrap();
        }
    });
}
