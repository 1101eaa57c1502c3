// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model of sleepers above the wire (`via/src/nic/`): a bell that stays armed between sleeps,
//! disarmed by polls in between; and a program that sleeps on the descriptor of a completion queue
//! while the helper, woken by the peer's ring, moves the frame and makes the descriptor readable. A
//! lost wake-up is a deadlock. The token is a mutex here (`loom_token` has the real one), bells are
//! edges that wait for their sleeper, as an edge-triggered set keeps them.
#![cfg(loom)]

use bellwire_memory::membarrier::{Reach, heavy, light};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;

#[derive(Default)]
struct Wire {
    /// What the peer publishes: stands for the lap bits of lines.
    published: AtomicU32,
    armed: AtomicU32,
}

impl Wire {
    fn send(&self, bell: &Notify, n: u32) {
        // Release: as the line queue publishes.
        self.published.store(n, Ordering::Release);
        light(true);
        // Relaxed: ordered after the publication by the barrier pair.
        if self.armed.load(Ordering::Relaxed) != 0 {
            bell.notify();
        }
    }

    fn seen(&self) -> u32 {
        // Acquire: as the line queue reads.
        self.published.load(Ordering::Acquire)
    }

    fn arm(&self) {
        // Relaxed: made visible before the next look by the barrier.
        self.armed.store(1, Ordering::Relaxed);
        heavy(Reach::Registered);
    }

    fn disarm(&self) {
        // Relaxed: only a hint to the peer.
        self.armed.store(0, Ordering::Relaxed);
    }
}

/// Two messages, two sleeps; the barrier is issued only when the word was not armed. `polls`: the
/// application polls in between, and disarms.
fn stays_armed(polls: bool) {
    loom::model(move || {
        let (wire, bell) = (Arc::new(Wire::default()), Arc::new(Notify::new()));
        let peer = thread::spawn({
            let (wire, bell) = (wire.clone(), bell.clone());
            move || (1..=2).for_each(|n| wire.send(&bell, n))
        });
        let mut armed = false;
        for n in 1..=2 {
            loop {
                if !armed {
                    wire.arm();
                    armed = true;
                }
                if wire.seen() >= n {
                    break;
                }
                bell.wait();
            }
            if polls {
                wire.disarm();
                armed = false;
            }
        }
        peer.join().unwrap();
    });
}

#[test]
fn a_bell_that_stays_armed_wakes_each_time() {
    stays_armed(false);
}

#[test]
fn a_bell_that_polls_disarm_wakes_each_time() {
    stays_armed(true);
}

/// What the token protects.
#[derive(Default)]
struct Core {
    taken: u32,
    entries: u32,
    queue_armed: bool,
    closing: bool,
}

/// Moves frames; tells the sleeper of an entry, once, as `Core::settle` does.
fn turn(core: &mut Core, wire: &Wire, descriptor: &Notify) {
    let seen = wire.seen();
    core.entries += seen - core.taken;
    core.taken = seen;
    if core.queue_armed && core.entries != 0 {
        core.queue_armed = false;
        descriptor.notify();
    }
}

#[test]
fn an_armed_completion_queue_wakes_its_program() {
    loom::model(|| {
        let (wire, bell) = (Arc::new(Wire::default()), Arc::new(Notify::new()));
        let (core, descriptor) = (Arc::new(Mutex::new(Core::default())), Arc::new(Notify::new()));
        let peer = thread::spawn({
            let (wire, bell) = (wire.clone(), bell.clone());
            move || wire.send(&bell, 1)
        });
        let helper = thread::spawn({
            let (wire, bell, core, descriptor) = (wire.clone(), bell.clone(), core.clone(), descriptor.clone());
            move || {
                // Rings by the peer, by the program when it closes, or by nobody.
                loop {
                    bell.wait();
                    let mut core = core.lock().unwrap();
                    turn(&mut core, &wire, &descriptor);
                    if core.closing {
                        break;
                    }
                }
            }
        });
        let got = {
            let mut core = core.lock().unwrap();
            core.queue_armed = true;
            wire.arm();
            turn(&mut core, &wire, &descriptor);
            core.entries
        };
        if got == 0 {
            // Woken for nothing, it sleeps again; nobody else will wake it.
            loop {
                descriptor.wait();
                if core.lock().unwrap().entries == 1 {
                    break;
                }
            }
        }
        core.lock().unwrap().closing = true;
        bell.notify();
        helper.join().unwrap();
        peer.join().unwrap();
        let core = core.lock().unwrap();
        assert_eq!(core.entries + wire.seen() - core.taken, 1);
    });
}
