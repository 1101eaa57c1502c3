// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the progress token: one thread at a time, through giving, using and taking away the
//! bias. (`membarrier` is a full fence on both sides in a model.) The value is a model cell: two
//! threads inside, or one that does not see what the last one did, is the error.
#![cfg(loom)]

use bellwire_memory::token::{Claim, Token, Watcher};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct Counter(UnsafeCell<u32>);

// SAFETY: reached through the token only; the model checks it.
unsafe impl Send for Counter {}

impl Counter {
    fn add(&mut self) {
        // Two accesses, so that another thread can come in between.
        // SAFETY: the model checks that nobody else has it.
        let seen = self.0.with(|p| unsafe { *p });
        // SAFETY: the model checks that nobody else has it.
        self.0.with_mut(|p| unsafe { *p = seen + 1 });
    }

    fn value(&mut self) -> u32 {
        // SAFETY: the model checks that nobody else has it.
        self.0.with(|p| unsafe { *p })
    }
}

/// Each thread: its claim, and how often it enters.
fn model(can_bias: bool, threads: &'static [(Claim, u32)]) {
    loom::model(move || {
        let token = Arc::new(Token::with_bias(Counter(UnsafeCell::new(0)), can_bias));
        let run = |id: usize, claim: Claim, rounds: u32, token: Arc<Token<Counter>>| {
            move || {
                for _ in 0..rounds {
                    // Ids look like thread pointers.
                    token.enter_as(id * 4096, claim).add();
                }
            }
        };
        let others: Vec<_> = threads.iter().enumerate().skip(1).map(|(i, &(claim, rounds))| thread::spawn(run(i + 1, claim, rounds, token.clone()))).collect();
        run(1, threads[0].0, threads[0].1, token.clone())();
        for other in others {
            other.join().unwrap();
        }
        let all: u32 = threads.iter().map(|t| t.1).sum();
        assert_eq!(token.enter_as(9 * 4096, Claim::Visit).value(), all, "an entry was lost");
    });
}

#[test]
fn unbiased() {
    model(false, &[(Claim::Bias, 2), (Claim::Bias, 2)]);
}

/// The usual case: an owner that keeps the bias, and a helper that visits.
#[test]
fn owner_and_visitor() {
    model(true, &[(Claim::Bias, 3), (Claim::Visit, 1)]);
}

#[test]
fn owner_and_visitor_twice() {
    model(true, &[(Claim::Bias, 2), (Claim::Visit, 2)]);
}

/// The bias goes back and forth: a thread may be about to enter as owner while another has become
/// it.
#[test]
fn two_owners_in_turn() {
    model(true, &[(Claim::Bias, 2), (Claim::Bias, 2)]);
}

#[test]
fn three_threads() {
    model(true, &[(Claim::Bias, 2), (Claim::Bias, 1), (Claim::Visit, 1)]);
}

/// Somebody begins to watch while an owner comes and goes: the watcher is inside alone too.
#[test]
fn watched_on_the_way() {
    loom::model(|| {
        let token = Arc::new(Token::with_bias(Counter(UnsafeCell::new(0)), true));
        let theirs = token.clone();
        let owner = thread::spawn(move || {
            for _ in 0..3 {
                theirs.enter_as(4096, Claim::Bias).add();
            }
        });
        let look: fn(&mut Counter) = |value| {
            value.value();
        };
        token.watch(Some(Watcher { entered: look, leaves: look }));
        owner.join().unwrap();
        assert_eq!(token.enter_as(9 * 4096, Claim::Visit).value(), 3, "an entry was lost");
    });
}
