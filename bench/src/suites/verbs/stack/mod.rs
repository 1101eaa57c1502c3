// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of others over Bellwire's verbs, over Bellwire's libfabric provider where it can, and
//! over the tcp and shared memory of its own library, by turns in one run, beside the engine.
//!
//! | file | concern |
//! |---|---|
//! | `mod.rs` | the stacks, what is told of them, the engine beside them |
//! | `way.rs` | how messages of a program go, and the proof that they did |
//! | `ucx.rs`, `ofi.rs`, `mpi.rs`, `perftest.rs` | a stack's program, its sizes, its output |
//!
//! Called by `bellwire bench verbs --stack`.

mod mpi;
mod ofi;
mod perftest;
mod ucx;
mod way;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::bench::payload::Touch;
use crate::error::Error;
use crate::goals;
use crate::job::Job;
use crate::peers::process::{find, launcher};
use crate::plan::series as s;
use crate::report::{Report, Suite};
use crate::samples::{Key, Kind, Metric, Series};
use crate::session::{Session, SessionConfig};
use crate::turns::{self, Turn};

/// Whose program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// `ucx_perftest`.
    Ucx,
    /// `fi_pingpong` of libfabric.
    Ofi,
    /// A ping-pong and a stream of ours on MPICH.
    Mpi,
    /// perftest: `ib_send_lat` and its like.
    Perftest,
}

/// The program, the processes and the effort.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose program.
    pub stack: Stack,
    /// Folders with MPIs.
    pub folders: Vec<PathBuf>,
    /// The variables by which a program on libfabric, or an MPICH, uses Bellwire's provider; the
    /// reason, where the provider is not installed.
    pub provider: Result<Vec<(OsString, OsString)>, String>,
    /// Processes of the engine and of the canary, and the processors of both sides.
    pub session: SessionConfig,
    /// Rounds.
    pub rounds: usize,
    /// Fewer sizes, shorter.
    pub quick: bool,
    /// No progress.
    pub quiet: bool,
}

const SUITE: Suite = Suite {
    command: "bench verbs --stack",
    about: "The same program over each way, each run with the proof that its data went there. Received data is not read; bellwire: the engine beneath, its receiver reads both ends of a message.\nmemcpy: within a process, nobody reads; memcpy touched: the other process reads every byte; process_vm_readv: one copy between processes.\n",
    metrics: &Metric::ALL,
    hint: None,
};

/// Measures.
///
/// # Errors
/// If the program is not installed.
pub fn run(options: &Options) -> Result<Report, Error> {
    let bellwire = launcher(&options.session.worker.0);
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    let mut turns = beneath(options);
    turns.extend(match options.stack {
        Stack::Ucx => ucx::turns(options, &bellwire, &mut peers)?,
        Stack::Ofi => ofi::turns(options, &bellwire, &mut peers, &mut missing)?,
        Stack::Mpi => mpi::turns(options, &bellwire, &mut peers, &mut missing)?,
        Stack::Perftest => perftest::turns(options, &bellwire, &mut peers, &mut missing)?,
    });
    let mut tables = turns::run(&options.session, &mut turns, 1, options.rounds, options.quiet);
    drop(turns);
    let samples = tables.pop().unwrap_or_default();
    let goals = goals::evaluate_stack(&samples, options.stack);
    Ok(Report { peers, missing, ..Report::new(SUITE, &options.session, options.rounds, samples, goals) })
}

/// The engine beneath, and copies between two processes.
fn beneath(options: &Options) -> Vec<Turn<'_>> {
    let (quick, session) = (options.quick, Rc::new(RefCell::new(Session::new(options.session.clone()))));
    let (count, size) = (if quick { 20_000 } else { 60_000 }, 1 << 20);
    let large = if quick { 100 } else { 400 };
    let mut jobs = vec![
        (Metric::Latency, s::OURS, 8, Job::Latency { size: 8, count, touch: Touch::Ends }),
        (Metric::Bandwidth, s::MEMCPY, size, Job::Copy { size, count: large, touch: Touch::Ends }),
        (Metric::Bandwidth, s::MEMCPY_TOUCHED, size, Job::Copy { size, count: large, touch: Touch::All }),
        (Metric::Bandwidth, s::ATTACH, size, Job::Attach { size, count: large }),
    ];
    if options.stack == Stack::Perftest {
        jobs.extend([
            (Metric::WriteLatency, s::OURS, 8, Job::WriteLatency { count }),
            (Metric::ReadLatency, s::OURS, 8, Job::ReadLatency { size: 8, count }),
            (Metric::Bandwidth, s::OURS, size, Job::Bandwidth { size, count: large, touch: Touch::Ends, both_ways: false }),
            (Metric::WriteBandwidth, s::OURS, size, Job::WriteBandwidth { size, count: large, touch: Touch::Ends }),
            (Metric::ReadBandwidth, s::OURS, size, Job::ReadBandwidth { size, count: large }),
        ]);
    }
    let turn = |(metric, series, size, job): (Metric, Series, usize, Job)| {
        let session = Rc::clone(&session);
        let measure = move || {
            let value = session.borrow_mut().run(&job)?.first.first().copied().ok_or_else(|| Error::failed("no figure in the answer"))?;
            Ok(vec![(Key::new(metric, series, size as u64), value)])
        };
        Turn { name: format!("{}, {}", series.name, metric.title()), is_ours: series.kind == Kind::Ours, table: 0, measure: Box::new(measure) }
    };
    jobs.into_iter().map(turn).collect()
}

/// A program, or which package brings it.
fn program(name: &str, package: &str) -> Result<PathBuf, Error> {
    find(name).ok_or_else(|| Error::failed(format!("{name} is not installed: apt-get install {package}")))
}

/// What a program says of its version, if it does.
fn said(program: &str, argument: &str) -> String {
    find(program).and_then(|program: PathBuf| crate::peers::process::run(std::process::Command::new(&program as &Path).arg(argument)).ok()).unwrap_or_default()
}
