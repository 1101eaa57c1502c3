// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model of a station whose machine is armed (`via/src/nic/machine.rs`, `helper.rs`): a program
//! polls, arms its completion queue and sleeps on the queue's descriptor; the NIC's helper thread
//! sleeps on the bell, steps the machine and rings the descriptor. The helper stays out of the way
//! of a program that polls, and disarms the bell then. A lost wake-up is a deadlock: nothing here
//! has a time, so the helper's ticks do not help.
//!
//! The rules that the helper and the program follow are taken away one at a time
//! (`weakened::is("station_..")` below), as are the barriers of the memory crate.
#![cfg(loom)]

use bellwire_memory::membarrier::{Reach, heavy, light};
use bellwire_memory::weakened;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex, MutexGuard, Notify};
use loom::thread;

/// What the token protects. The token is a mutex here (`loom_token` has the real one).
#[derive(Default)]
struct Core {
    taken: u32,
    /// Peers ring the bell.
    bell_armed: bool,
    /// The program sleeps on the descriptor, or is about to.
    machine_armed: bool,
}

struct Station {
    /// What the peer publishes: stands for the lap bits of lines.
    published: AtomicU32,
    armed: AtomicU32,
    /// Rung by the peer; when the program ends, by the program.
    bell: Notify,
    core: Mutex<Core>,
    /// Hints for the helper: the program's polls, and whether the machine is armed.
    polls: AtomicU32,
    armed_queues: AtomicU32,
    closing: AtomicU32,
    descriptor: Notify,
}

impl Station {
    /// The helper sleeps, and has armed the bell.
    fn new() -> Self {
        Self {
            published: AtomicU32::new(0),
            armed: AtomicU32::new(1),
            bell: Notify::new(),
            core: Mutex::new(Core { bell_armed: true, ..Core::default() }),
            polls: AtomicU32::new(0),
            armed_queues: AtomicU32::new(0),
            closing: AtomicU32::new(0),
            descriptor: Notify::new(),
        }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap()
    }

    fn note_armed(&self, core: &Core) {
        // Relaxed: a hint, as in `Shared::note_armed`.
        self.armed_queues.store(u32::from(core.machine_armed), Ordering::Relaxed);
    }

    /// The peer sends message `n`.
    fn send(&self, n: u32) {
        // Release: as the line queue publishes.
        self.published.store(n, Ordering::Release);
        light(true);
        // Relaxed: ordered after the publication by the barrier pair.
        if self.armed.load(Ordering::Relaxed) != 0 {
            self.bell.notify();
        }
    }

    /// Takes what has come. `false`: nothing.
    fn take(&self, core: &mut Core) -> bool {
        // Acquire: as the line queue reads.
        let published = self.published.load(Ordering::Acquire);
        core::mem::replace(&mut core.taken, published) != published
    }

    fn arm_bell(&self, core: &mut Core) {
        if !core.bell_armed {
            // Relaxed: made visible before the next look by the barrier.
            self.armed.store(1, Ordering::Relaxed);
            heavy(Reach::Registered);
            core.bell_armed = true;
        }
    }

    // ---- the helper

    /// `Core::turn`: the machine takes what has come, and rings for a program that sleeps.
    fn turn(&self, core: &mut Core) -> bool {
        let moved = self.take(core);
        if moved && core.machine_armed {
            core.machine_armed = false;
            if !weakened::is("station_ring") {
                self.descriptor.notify();
            }
        }
        self.note_armed(core);
        moved
    }

    /// `Helper::stay_out`.
    fn stay_out(&self) -> bool {
        let mut core = self.core();
        if core.machine_armed && !weakened::is("station_stay_out") {
            return false;
        }
        // Relaxed: a hint to the peer.
        self.armed.store(0, Ordering::Relaxed);
        core.bell_armed = false;
        true
    }

    /// `Helper::settle_down`, until the helper sleeps.
    fn settle_down(&self) {
        loop {
            let mut core = self.core();
            if self.turn(&mut core) {
                continue;
            }
            let was_armed = core.bell_armed;
            self.arm_bell(&mut core);
            // A bell that was armed has rung for what came since the turn.
            if was_armed || !self.turn(&mut core) {
                return;
            }
        }
    }

    fn help(&self) {
        let mut polls = 0;
        loop {
            self.bell.wait();
            // Acquire: as the helper takes the reasons for which it was woken.
            if self.closing.load(Ordering::Acquire) != 0 {
                return;
            }
            // Relaxed: hints. The program may arm its queue at any moment after them.
            let now = self.polls.load(Ordering::Relaxed);
            let has_polled = core::mem::replace(&mut polls, now) != now;
            let may_poll = self.armed_queues.load(Ordering::Relaxed) == 0;
            if !(may_poll && has_polled && self.stay_out()) {
                self.settle_down();
            }
        }
    }

    // ---- the program

    /// A poll: how many messages have come.
    fn poll(&self) -> u32 {
        let mut core = self.core();
        // Relaxed: a sign of life for the helper.
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.take(&mut core);
        self.note_armed(&core);
        core.taken
    }

    /// Sleeps until message `n` is there.
    fn sleep_until(&self, n: u32) {
        loop {
            // `ibv_req_notify_cq`: the machine is armed; then `Station::arm`.
            let mut core = self.core();
            core.machine_armed = true;
            self.arm_bell(&mut core);
            if !weakened::is("station_arm_look") {
                self.take(&mut core);
            }
            let has_come = core.taken >= n;
            core.machine_armed = !has_come;
            self.note_armed(&core);
            drop(core);
            if has_come {
                return;
            }
            self.descriptor.wait();
            if self.core().taken >= n {
                return;
            }
        }
    }
}

/// The peer sends so many messages; the program polls so often, then sleeps until all have come.
fn model(messages: u32, polls: u32) {
    let mut builder = loom::model::Builder::new();
    // Two messages multiply the executions; one shows what three preemptions can break.
    if messages > 1 {
        builder.preemption_bound = builder.preemption_bound.map(|most| most.min(2));
    }
    builder.check(move || {
        let station = Arc::new(Station::new());
        let spawn = |run: fn(&Station, u32)| {
            let station = station.clone();
            thread::spawn(move || run(&station, messages))
        };
        let peer = spawn(|station, messages| (1..=messages).for_each(|n| station.send(n)));
        let helper = spawn(|station, _| station.help());
        for _ in 0..polls {
            station.poll();
        }
        station.sleep_until(messages);
        // Release: as `Port::tell`.
        station.closing.store(1, Ordering::Release);
        station.bell.notify();
        helper.join().unwrap();
        peer.join().unwrap();
        assert_eq!(station.core().taken, messages);
    });
}

#[test]
fn a_program_that_sleeps_is_woken() {
    model(1, 0);
}

#[test]
fn a_program_that_polls_and_then_sleeps_is_woken() {
    model(1, 1);
}

#[test]
fn a_helper_that_stayed_out_is_there_for_the_next_message() {
    model(2, 1);
}
