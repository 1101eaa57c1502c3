// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs under random faults: seeds that once failed, then new ones. A seed that fails is
//! printed with the way to see it again.
//!
//! `BELLWIRE_SEEDS=N` sets how many new seeds there are (300), `BELLWIRE_FIRST_SEED=N` the first
//! (1).

use bellwire_sim::trial::{self, Options, Outcome};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

fn outcome(seed: u64) -> Result<Outcome, String> {
    outcome_of(seed, false)
}

fn outcome_of(seed: u64, keys: bool) -> Result<Outcome, String> {
    let run = AssertUnwindSafe(|| trial::run(seed, Options { keys, ..Options::default() }).expect("what is drawn is well-formed"));
    let outcome = catch_unwind(run).map_err(|_| "it panicked".to_string())?;
    outcome.violation.clone().map_or(Ok(outcome), Err)
}

/// Runs seeds on all processors; gives those that failed.
fn run_all(seeds: &[u64]) -> Vec<(u64, String)> {
    run_all_of(seeds, false)
}

fn run_all_of(seeds: &[u64], keys: bool) -> Vec<(u64, String)> {
    let next = Mutex::new(seeds.iter());
    let worker = || {
        let mut failed = Vec::new();
        loop {
            let Some(&seed) = next.lock().expect("nobody panics here").next() else { return failed };
            if let Err(why) = outcome_of(seed, keys) {
                let option = if keys { " --keys" } else { "" };
                eprintln!("seed {seed}: {why}\n    again: bellwire sim --seed {seed}{option} --trace trace.txt");
                failed.push((seed, why));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|w| w.join().expect("panics are caught")).collect()
    })
}

fn kept() -> Vec<u64> {
    let lines = include_str!("seeds.txt").lines().map(|line| line.split('#').next().unwrap_or("").trim());
    lines.filter(|line| !line.is_empty()).map(|line| line.parse().expect("a seed on each line")).collect()
}

#[test]
fn kept_seeds() {
    let failed = run_all(&kept());
    assert!(failed.is_empty(), "{} kept seeds failed: {failed:?}", failed.len());
}

#[test]
fn new_seeds() {
    let (first, count) = (number("BELLWIRE_FIRST_SEED", 1), number("BELLWIRE_SEEDS", 300));
    let failed = run_all(&(first..first + count).collect::<Vec<_>>());
    assert!(failed.is_empty(), "{} of {count} seeds failed: {:?}", failed.len(), failed.iter().map(|(seed, _)| seed).collect::<Vec<_>>());
}

/// Keys change meanwhile, and nothing but their tags finds corrupted packets.
#[test]
fn new_seeds_with_keys() {
    let (first, count) = (number("BELLWIRE_FIRST_SEED", 1), number("BELLWIRE_SEEDS", 300) / 3);
    let seeds: Vec<u64> = kept().into_iter().chain(first..first + count).collect();
    let failed = run_all_of(&seeds, true);
    assert!(failed.is_empty(), "{} of {} seeds failed: {:?}", failed.len(), seeds.len(), failed.iter().map(|(seed, _)| seed).collect::<Vec<_>>());
    for seed in 1..=8 {
        assert_eq!(outcome_of(seed, true), outcome_of(seed, true), "seed {seed}");
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in (1..=15).chain(kept()) {
        let (one, other) = (outcome(seed), outcome(seed));
        assert_eq!(one, other, "seed {seed}");
    }
    let digests: std::collections::BTreeSet<u64> = (1..=15).filter_map(|seed| Some(outcome(seed).ok()?.digest)).collect();
    assert!(digests.len() > 10, "seeds are alike");
}
