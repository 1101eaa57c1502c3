// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller's side: two measuring processes, started from this executable, given the same job
//! at the same time.
//!
//! The controller itself sleeps while they work. A process that fails or stops answering is ended
//! (by its own id) together with its partner, and the next job starts a fresh pair; so a crash of
//! the library costs one figure, not the run.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::channel::Channel;
use crate::error::Error;
use crate::job::{Job, Reliability, Reply, Request, Setup, Waiting};
use crate::limits::SHARED_BYTES;
use crate::pin::{self, Pinning};
use crate::route::Route;
use crate::shared;

/// How long a job may take: longer than the patience of the processes themselves, on a busy machine
/// too, so that they say what is wrong.
const JOB_TIME_MAX: Duration = Duration::from_secs(180);
/// How much longer one process may, when the other has failed.
const GRACE: Duration = Duration::from_millis(300);

/// How the measuring processes are to be.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Executable and arguments that end up in [`crate::worker::main`].
    pub worker: (PathBuf, Vec<String>),
    /// Their processors.
    pub pinning: Pinning,
    /// Library asked for.
    pub library: Option<PathBuf>,
    /// Device to open.
    pub device: String,
    /// Level of all VIs.
    pub reliability: Reliability,
    /// Polling or blocking.
    pub waiting: Waiting,
    /// By which way they reach each other.
    pub route: Route,
    /// Environment variables set for the measuring processes alone.
    pub environment: Vec<(&'static str, String)>,
    /// A failure is an answer: what the library says about it is not shown.
    pub may_fail: bool,
}

#[cfg(test)]
impl SessionConfig {
    /// Processes that never start.
    pub(crate) fn made_up() -> Self {
        SessionConfig {
            worker: ("x".into(), Vec::new()),
            pinning: Pinning::None,
            library: None,
            device: String::new(),
            reliability: Reliability::ReliableDelivery,
            waiting: Waiting::Poll,
            route: Route::default(),
            environment: Vec::new(),
            may_fail: false,
        }
    }
}

/// Figures of the first and of the second process, and the first one's remark.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Of the process that measures.
    pub first: Vec<f64>,
    /// Of the other.
    pub second: Vec<f64>,
    /// For people.
    pub note: String,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    channel: Channel,
}

/// A pair of measuring processes, restarted when needed.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    workers: Option<[Worker; 2]>,
    epoch: u64,
    run: u64,
}

impl Session {
    /// A session; the processes start with the first job.
    pub fn new(config: SessionConfig) -> Self {
        Session { config, workers: None, epoch: 0, run: unique() }
    }

    /// How its processes are.
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Whether its processes have been started and have not failed since.
    pub fn is_running(&self) -> bool {
        self.workers.is_some()
    }

    /// Runs one job on both processes.
    ///
    /// # Errors
    /// What either process reports, or that one of them died or took too long.
    pub fn run(&mut self, job: &Job) -> Result<Answer, Error> {
        if self.workers.is_none() {
            self.workers = Some(self.start()?);
        }
        self.epoch += 1;
        let request = Request { epoch: self.epoch, run: self.run, job: job.clone() };
        let workers = self.workers.as_mut().expect("started above");
        let result = exchange(workers, &request);
        if matches!(result, Err(Error::Failed(_))) {
            self.stop();
        }
        result
    }

    fn start(&self) -> Result<[Worker; 2], Error> {
        let memory = shared::create(SHARED_BYTES)?;
        let bells = [eventfd(0, EventfdFlags::CLOEXEC)?, eventfd(0, EventfdFlags::CLOEXEC)?];
        Ok([self.start_one(true, &memory, &bells)?, self.start_one(false, &memory, &bells)?])
    }

    fn start_one(&self, first: bool, memory: &OwnedFd, bells: &[OwnedFd; 2]) -> Result<Worker, Error> {
        let (ours, theirs) = UnixStream::pair()?;
        let (program, arguments) = &self.config.worker;
        let mut command = self.config.route.command(first, program);
        command
            .args(arguments)
            .envs(self.config.route.environment(first))
            .envs(self.config.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null());
        if self.config.may_fail {
            command.stderr(Stdio::null());
        }
        let cpu = self.config.pinning.cpu(first);
        let child = pin::spawn_on(cpu, &mut command).map_err(|error| error.within(&program.display().to_string()))?;
        drop(command); // closes our copy of the child's end, so that its death is noticed
        let mut worker = Worker { child, channel: Channel::new(ours) };
        worker.channel.set_patience(Some(JOB_TIME_MAX))?;
        worker.channel.send_fd(memory)?;
        for bell in bells {
            worker.channel.send_fd(bell)?;
        }
        worker.channel.send(&Setup {
            first,
            cpu,
            library: self.config.library.clone(),
            device: self.config.device.clone(),
            reliability: self.config.reliability,
            waiting: self.config.waiting,
            ends: self.config.route.ends(first),
        })?;
        Ok(worker)
    }

    /// Ends both processes.
    pub fn stop(&mut self) {
        for mut worker in self.workers.take().into_iter().flatten() {
            // A process that waits for its next job ends by itself when the line closes; kill
            // covers the others.
            drop(worker.channel);
            for _ in 0..20 {
                if matches!(worker.child.try_wait(), Ok(Some(_))) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

fn exchange(workers: &mut [Worker; 2], request: &Request) -> Result<Answer, Error> {
    for worker in workers.iter_mut() {
        worker.channel.send(request)?;
    }
    // Who answers first is heard first: its failure may be what the other one waits for.
    let early = Channel::first_of(&[&workers[0].channel, &workers[1].channel], JOB_TIME_MAX)?.unwrap_or(0);
    let one = hear(workers, early);
    if let Err(Error::Failed(why)) = &one
        && Channel::first_of(&[&workers[1 - early].channel], GRACE)?.is_none()
    {
        return Err(Error::failed(why.clone()));
    }
    let other = hear(workers, 1 - early);
    let (first, second) = if early == 0 { (one, other) } else { (other, one) };
    match (first, second) {
        (Ok((first, note)), Ok((second, _))) => Ok(Answer { first, second, note }),
        // A failure explains itself better than the other side's "no answer in time".
        (Err(Error::Failed(one)), Err(Error::Failed(two))) if one != two => Err(Error::failed(format!("{one}; other side: {two}"))),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// What one of them has to say of a job.
fn hear(workers: &mut [Worker; 2], index: usize) -> Result<(Vec<f64>, String), Error> {
    let side = if index == 0 { "first process" } else { "second process" };
    let worker = &mut workers[index];
    match worker.channel.receive::<Reply>() {
        Ok(Some(reply)) => Result::from(reply),
        Ok(None) => Err(Error::failed(format!("the {side} ended{}", how_ended(&mut worker.child)))),
        Err(error) => Err(error.within(side)),
    }
}

fn how_ended(child: &mut Child) -> String {
    std::thread::sleep(Duration::from_millis(20));
    match child.try_wait() {
        Ok(Some(status)) => format!(" ({status})"),
        _ => String::new(),
    }
}

/// A number that no other run on this machine is using: process id and time.
fn unique() -> u64 {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    (u64::from(std::process::id()) << 40) ^ nanos.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8
}
