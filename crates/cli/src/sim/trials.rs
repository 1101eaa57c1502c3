// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trials of whole engines on a simulated network, by seed: what they did, and which failed.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufWriter, IsTerminal};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bellwire_sim::trial::{self, Options, Outcome};
use bellwire_sim::{FaultPlan, Topology};
use clap::Args;

use bellwire_report::output;

/// Seeds of a run without arguments.
const SEEDS: u64 = 100;
/// Up to so many trials have a line each.
const LINES_MAX: u64 = 1000;
/// Trials between two reports of progress.
const CHUNK: u64 = 2_000;

thread_local! {
    /// The trial that this thread is in, for the message of a panic.
    static TRIAL: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What trials are told. The group needs a name of its own, beside the command's.
#[derive(Debug, Args)]
#[group(id = "trials")]
pub struct Arguments {
    /// The first seed [default: 1]; alone: this one only
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// How many seeds [default: 100, with --seed 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,

    /// The network, in place of those drawn
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// What goes wrong, in place of what is drawn: a fault plan
    #[arg(long, value_name = "PLAN")]
    faults: Option<FaultPlan>,

    /// Authenticate and encrypt packets, with keys that change often, in place of checksums
    #[arg(long)]
    keys: bool,

    /// Write a line for each event of one trial
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    trace: Option<PathBuf>,

    /// One JSON object a line: each trial, then all of them
    #[arg(long)]
    json: bool,
}

/// What the options say, read and checked.
struct Setting {
    topology: Option<Topology>,
    faults: Option<FaultPlan>,
    keys: bool,
}

/// Sums over trials.
#[derive(Default)]
struct Sum {
    trials: u64,
    packets: u64,
    messages: u64,
    transfers: u64,
    connections: u64,
    breaks: u64,
    crashes: u64,
    failed: Vec<u64>,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        self.trials += 1;
        self.packets += outcome.packets;
        self.messages += outcome.messages;
        self.transfers += outcome.transfers;
        self.connections += outcome.connections;
        self.breaks += outcome.breaks;
        self.crashes += outcome.crashes;
        if outcome.violation.is_some() {
            self.failed.push(outcome.seed);
        }
    }
}

/// Runs the trials and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let first = arguments.seed.unwrap_or(1);
    let count = arguments.seeds.unwrap_or(if arguments.seed.is_some() { 1 } else { SEEDS });
    let setting = Setting::read(arguments)?;
    if arguments.trace.is_some() && count != 1 {
        return Err("a trace is of one trial: give its --seed".into());
    }
    let last = first.checked_add(count - 1).ok_or("there are no seeds beyond 18446744073709551615")?;
    name_trials_in_panics();
    let start = Instant::now();
    let mut sum = Sum::default();
    let mut next = first;
    loop {
        let end = last.min(next.saturating_add(CHUNK - 1));
        let outcomes = trials(&setting, next, end, arguments.trace.as_ref())?;
        for outcome in &outcomes {
            sum.add(outcome);
            tell(arguments, outcome, count)?;
        }
        if end == last {
            break;
        }
        next = end + 1;
        progress(&sum, count, start);
    }
    report(arguments, &sum, start)?;
    match sum.failed.as_slice() {
        [] => Ok(()),
        [seed] => Err(format!("seed {seed} failed")),
        [seed, ..] => Err(format!("{} seeds failed, the first of them {seed}", sum.failed.len())),
    }
}

impl Setting {
    fn read(arguments: &Arguments) -> Result<Self, String> {
        let topology = arguments.topology.as_ref().map(|path| {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let topology: Topology = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
            if topology.nodes() == 0 { Err(format!("{}: there are no nodes", path.display())) } else { Ok(topology) }
        });
        Ok(Self { topology: topology.transpose()?, faults: arguments.faults.clone(), keys: arguments.keys })
    }
}

/// A panic is a failed trial too: say which.
fn name_trials_in_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Some(seed) = TRIAL.get() {
            eprintln!("bellwire: seed {seed} panicked; again: bellwire sim --seed {seed}");
        }
        usual(info);
    }));
}

/// Runs the trials of some seeds on all processors; what they did, in order of seeds.
fn trials(setting: &Setting, first: u64, last: u64, trace: Option<&PathBuf>) -> Result<Vec<Outcome>, String> {
    let seeds = Mutex::new(first..=last);
    let worker = || {
        let mut outcomes = Vec::new();
        loop {
            let Some(seed) = seeds.lock().unwrap_or_else(PoisonError::into_inner).next() else { return Ok(outcomes) };
            outcomes.push(one(setting, seed, trace)?);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(usize::try_from(last - first + 1).unwrap_or(usize::MAX));
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|w| w.join().unwrap_or_else(|_| Err("a trial panicked".to_owned())));
        joined.collect::<Result<Vec<Vec<Outcome>>, String>>()
    })?
    .concat();
    all.sort_unstable_by_key(|outcome| outcome.seed);
    Ok(all)
}

fn one(setting: &Setting, seed: u64, trace: Option<&PathBuf>) -> Result<Outcome, String> {
    let writer = trace.map(|path| File::create(path).map_err(|error| format!("{}: {error}", path.display())));
    let mut options = Options { topology: setting.topology.clone(), faults: setting.faults.clone(), keys: setting.keys, ..Options::default() };
    if let Some(file) = writer {
        options.trace = Some(Box::new(BufWriter::new(file?)));
    }
    TRIAL.set(Some(seed));
    let outcome = trial::run(seed, options).map_err(|error| error.to_string());
    TRIAL.set(None);
    outcome
}

/// How to see a trial again.
fn again(arguments: &Arguments, seed: u64) -> String {
    let topology = arguments.topology.as_ref().map_or(String::new(), |path| format!(" --topology '{}'", path.display()));
    let faults = arguments.faults.as_ref().map_or(String::new(), |plan| format!(" --faults '{plan}'"));
    let keys = if arguments.keys { " --keys" } else { "" };
    format!("bellwire sim --seed {seed}{topology}{faults}{keys} --trace trace.txt")
}

fn tell(arguments: &Arguments, outcome: &Outcome, count: u64) -> Result<(), String> {
    let Outcome { seed, digest, nodes, packets, messages, transfers, connections, breaks, crashes, time, violation } = outcome;
    if arguments.json {
        let line = serde_json::json!({
            "seed": seed, "hash": format!("{digest:016x}"), "nodes": nodes, "packets": packets, "messages": messages, "transfers": transfers,
            "connections": connections, "breaks": breaks, "crashes": crashes, "nanoseconds": time.0, "violation": violation,
        });
        return output::print(&format!("{line}\n"));
    }
    if let Some(why) = violation {
        return output::print(&format!("seed {seed}  {digest:016x}  FAILED {why}\n    again: {}\n", again(arguments, *seed)));
    }
    if count > LINES_MAX {
        return Ok(());
    }
    let seconds = time.0 as f64 / 1e9;
    output::print(&format!(
        "seed {seed}  {digest:016x}  {nodes} nodes, {packets} packets, {messages} messages, {transfers} writes and reads, {connections} connections, {breaks} broken, {crashes} crashes, {seconds:.3} s\n"
    ))
}

fn progress(sum: &Sum, count: u64, start: Instant) {
    if std::io::stderr().is_terminal() {
        let rate = sum.trials as f64 / start.elapsed().as_secs_f64();
        eprint!("\r{} of {count} seeds, {rate:.0} a second, {} failed ", sum.trials, sum.failed.len());
        if sum.trials + CHUNK >= count {
            eprint!("\r{:60}\r", "");
        }
    }
}

fn report(arguments: &Arguments, sum: &Sum, start: Instant) -> Result<(), String> {
    let seconds = start.elapsed().as_secs_f64();
    let Sum { trials, packets, messages, transfers, connections, breaks, crashes, failed } = sum;
    if arguments.json {
        let line = serde_json::json!({
            "format": 1, "trials": trials, "failed": failed, "packets": packets, "messages": messages, "transfers": transfers, "connections": connections,
            "breaks": breaks, "crashes": crashes, "seconds": seconds,
        });
        return output::print(&format!("{line}\n"));
    }
    output::print(&format!(
        "{trials} trials, {} failed; {packets} packets, {messages} messages, {transfers} writes and reads, {connections} connections, {breaks} broken, {crashes} crashes; {seconds:.1} s\n",
        failed.len()
    ))
}
