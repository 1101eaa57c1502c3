// SPDX-License-Identifier: MIT OR Apache-2.0
//! A job from its first process to its last: one loop around epoll, on one thread; the processes
//! are started by others (`spawners.rs`).

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use bellwire_job::pmi::server::Effect;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, WaitId, WaitIdOptions, getpid, getrlimit, kill_process, kill_process_group, setrlimit, waitid};
use signal_hook::consts::{SIGCONT, SIGINT, SIGPIPE, SIGTSTP, SIGUSR1, SIGUSR2};

use crate::ending::{Ending, Press, Reason};
use crate::guard::Guard;
use crate::input::{Relay, Want};
use crate::output::Outputs;
use crate::plan::{Output, Plan};
use crate::pmi::Pmi;
use crate::rank::{End, Rank};
use crate::signals::{self, Signals};
use crate::source::Source;
use crate::spawn::{NotStarted, Process};
use crate::spawners::Spawners;
use crate::summary::Summary;

/// A process that has left the job, or closed its connection without a word, may be ending: for so
/// long its exit status, which says more, is waited for.
const CLOSED_MAX: Duration = Duration::from_secs(1);
/// How often a background job looks whether the terminal is its own now.
const FOREGROUND_EVERY: Duration = Duration::from_millis(300);
/// After everything was killed, pipes are read for so long.
const DRAIN_MAX: Duration = Duration::from_secs(1);

struct Supervisor<'p> {
    plan: &'p Plan,
    set: OwnedFd,
    ranks: Vec<Rank>,
    pmi: Pmi,
    outputs: Outputs,
    relay: Relay,
    signals: Signals,
    ending: Ending,
    /// What the relay waits for in the set.
    watched: Want,
    reads_outputs: bool,
    /// Somebody waits in a barrier for one who has left and lives: from when on that ends the job,
    /// and why.
    stuck: Option<(Instant, Reason)>,
    /// Signals that were passed on, of which processes may die without further words.
    forwarded: Vec<i32>,
    start: Instant,
}

/// Runs the job. Returns when all its processes have ended and their output is written.
///
/// # Errors
/// If the launcher itself cannot work: no descriptors, no guard. Everything about processes is in
/// the summary, and has been said on standard error.
pub fn run(plan: &Plan) -> io::Result<Summary> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let signals = Signals::take()?;
    let guard = Guard::start(&plan.options.guard, &plan.id).map_err(|error| io::Error::new(error.kind(), format!("the guard cannot be started: {error}")))?;
    // Its end comes after everything here: the threads that have started the processes stay so
    // long.
    std::thread::scope(|scope| look_after(plan, signals, guard, &Spawners::start(scope, plan, limit)?))
}

fn look_after(plan: &Plan, signals: Signals, guard: Guard, spawners: &Spawners) -> io::Result<Summary> {
    let mut supervisor = Supervisor::new(plan, signals)?;
    let started = supervisor.start(spawners);
    // Whatever happens, nothing is to stay.
    let result = started.and_then(|()| supervisor.supervise());
    supervisor.signal_all(Signal::TERM);
    if result.is_ok() {
        supervisor.drain(plan.options.grace)?;
    }
    guard.finish();
    supervisor.drain(DRAIN_MAX)?;
    supervisor.outputs.close();
    let summary = supervisor.summary();
    for rank in &mut supervisor.ranks {
        rank.child.wait()?;
    }
    result.map(|()| summary)
}

impl<'p> Supervisor<'p> {
    fn new(plan: &'p Plan, signals: Signals) -> io::Result<Self> {
        let label = plan.options.output == Output::Merged { label: true };
        let outputs = Outputs::open(plan.options.size as usize, label)?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let input = epoll::EventFlags::IN;
        epoll::add(&set, signals.bell(), Source::Signals.data(), input)?;
        epoll::add(&set, outputs.bell(), Source::Outputs.data(), input)?;
        for bell in outputs.sink_bells() {
            epoll::add(&set, bell, Source::Sinks.data(), input)?;
        }
        Ok(Self {
            plan,
            set,
            ranks: Vec::new(),
            pmi: Pmi::new(&plan.id, plan.options.size),
            outputs,
            relay: Relay::default(),
            signals,
            ending: Ending::default(),
            watched: Want::Nothing,
            reads_outputs: true,
            stuck: None,
            forwarded: Vec::new(),
            start: Instant::now(),
        })
    }

    /// Starts all processes, or as many as it can: the first one alone, since a program that is not
    /// there is not to be looked for by all.
    fn start(&mut self, spawners: &Spawners) -> io::Result<()> {
        self.start_some(spawners, 0..1)?;
        if !self.ending.has_begun() {
            self.start_some(spawners, 1..self.plan.options.size)?;
        }
        Ok(())
    }

    fn start_some(&mut self, spawners: &Spawners, ranks: Range<u32>) -> io::Result<()> {
        let orders = ranks.map(|rank| Ok((rank, self.relay.stdin(self.plan.options.input, rank)?))).collect::<io::Result<_>>()?;
        let (processes, failure) = spawners.start_all(orders)?;
        for process in processes {
            self.add(process)?;
        }
        if let Some(NotStarted { why, status }) = failure {
            self.end(Reason::NotStarted { why, status });
        }
        Ok(())
    }

    fn add(&mut self, process: Process) -> io::Result<()> {
        let rank = self.ranks.len();
        epoll::add(&self.set, &process.pidfd, Source::Exit(rank).data(), epoll::EventFlags::IN)?;
        epoll::add(&self.set, &process.pmi, Source::Pmi(rank).data(), epoll::EventFlags::IN)?;
        self.outputs.add(process.streams)?;
        self.pmi.add(process.pmi);
        self.ranks.push(Rank { child: process.child, pid: process.pid, pidfd: process.pidfd, started: process.started, ended: None, gone_at: None });
        Ok(())
    }

    /// Until all processes have ended.
    fn supervise(&mut self) -> io::Result<()> {
        let timeout_at = self.plan.options.timeout.map(|time| self.start + time);
        while self.ranks.iter().any(|rank| rank.ended.is_none()) {
            let always = self.watch_input()?;
            let next = [timeout_at.filter(|_| !self.ending.has_begun()), self.ending.deadline(), self.outputs.deadline()].into_iter().flatten();
            let next = next.chain(self.stuck.as_ref().map(|stuck| stuck.0)).chain(self.ranks.iter().filter_map(|rank| rank.gone_at)).min();
            let tick = (self.watched == Want::Foreground).then(|| Instant::now() + FOREGROUND_EVERY);
            let deadline = if always { Some(Instant::now()) } else { next.into_iter().chain(tick).min() };
            self.turn(deadline)?;
            if always {
                self.relay.read();
            }
            if let Some(after) = self.plan.options.timeout.filter(|_| timeout_at.is_some_and(|at| Instant::now() >= at) && !self.ending.has_begun()) {
                self.end(Reason::Timeout { after });
            }
            self.pass_time();
        }
        Ok(())
    }

    /// Reads what is left in the pipes, until they are closed or the time is over.
    fn drain(&mut self, most: Duration) -> io::Result<()> {
        let end = Instant::now() + most;
        while !self.outputs.is_over() && Instant::now() < end {
            self.turn(Some(end))?;
        }
        Ok(())
    }

    /// Waits for events, or until the deadline, and does what they ask for.
    fn turn(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let time = left.map(|left| Timespec { tv_sec: left.as_secs().min(86_400).cast_signed(), tv_nsec: left.subsec_nanos().into() });
        let ready = match epoll::wait(&self.set, &mut events[..], time.as_ref()) {
            Err(Errno::INTR) => 0,
            ready => ready?,
        };
        for event in &events[..ready] {
            match Source::of(event.data.u64()) {
                Source::Signals => self.take_signals(),
                Source::Outputs => self.outputs.turn(Instant::now()),
                Source::Sinks => self.outputs.check_sinks(),
                Source::Input => self.move_input(),
                Source::Exit(rank) => self.take_exit(rank)?,
                Source::Pmi(rank) => self.take_request(rank, event.flags)?,
            }
        }
        self.watch_outputs()
    }

    /// Looks at the pipes only while there is room for what they hold.
    fn watch_outputs(&mut self) -> io::Result<()> {
        let has_room = self.outputs.has_room();
        if has_room != self.reads_outputs {
            self.reads_outputs = has_room;
            if has_room {
                epoll::add(&self.set, self.outputs.bell(), Source::Outputs.data(), epoll::EventFlags::IN)?;
            } else {
                epoll::delete(&self.set, self.outputs.bell())?;
            }
        }
        Ok(())
    }

    /// Puts into the set what the relay waits for. Whether it needs not wait: a file can always be
    /// read.
    fn watch_input(&mut self) -> io::Result<bool> {
        let want = self.relay.want();
        if want == self.watched {
            return Ok(false);
        }
        match self.watched {
            Want::Read => drop(epoll::delete(&self.set, io::stdin())),
            // One that has gone has left the set.
            Want::Write(rank) => drop(self.relay.reader(rank).map(|pipe| epoll::delete(&self.set, pipe))),
            Want::Foreground | Want::Nothing => {}
        }
        self.watched = Want::Nothing;
        match want {
            Want::Read => match epoll::add(&self.set, io::stdin(), Source::Input.data(), epoll::EventFlags::IN) {
                Err(Errno::PERM) => return Ok(true),
                result => result?,
            },
            Want::Write(rank) => {
                if let Some(pipe) = self.relay.reader(rank) {
                    epoll::add(&self.set, pipe, Source::Input.data(), epoll::EventFlags::OUT)?;
                }
            }
            Want::Foreground | Want::Nothing => {}
        }
        self.watched = want;
        Ok(false)
    }

    fn move_input(&mut self) {
        match self.watched {
            // Asked again, for the job may be in the background now.
            Want::Read if self.relay.want() == Want::Read => self.relay.read(),
            Want::Write(_) => self.relay.write(),
            _ => {}
        }
    }

    fn take_signals(&mut self) {
        for number in self.signals.pending() {
            let again = self.forwarded.contains(&number);
            if !again {
                self.forwarded.push(number);
            }
            if let Some(signal) = signals::signal(number) {
                self.signal_all(signal);
            }
            match number {
                // Stops itself as a program that does not catch it would; CONT comes as a signal,
                // too.
                SIGTSTP => drop(kill_process(getpid(), Signal::STOP)),
                SIGUSR1 | SIGUSR2 | SIGCONT => {}
                // A program may want to know of the first, and go on.
                SIGINT if !again => {}
                _ => {
                    self.ending.begin(Reason::Told { signal: number }, Instant::now(), self.plan.options.grace);
                    if again {
                        self.ending.hurry(Instant::now());
                    }
                }
            }
        }
    }

    fn take_exit(&mut self, rank: usize) -> io::Result<()> {
        let this = &self.ranks[rank];
        // Left unreaped: S in lib.rs.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let Some(status) = waitid(WaitId::PidFd(this.pidfd.as_fd()), options)? else { return Ok(()) };
        let (pid, end) = (this.pid, End { status: status.exit_status(), signal: status.terminating_signal(), dumped: status.dumped(), at: Instant::now() });
        epoll::delete(&self.set, &this.pidfd)?;
        self.ranks[rank].ended = Some(end);
        self.ranks[rank].gone_at = None;
        self.relay.ended(rank);
        // What it asked for counts before how it ended; that others wait for it, after.
        let (stuck, asked): (Vec<_>, Vec<_>) = self.pmi.ended(rank).into_iter().partition(|effect| matches!(effect, Effect::Stuck { .. }));
        self.take_effects(asked);
        let pid = pid.as_raw_pid().cast_unsigned();
        match (end.status, end.signal) {
            (Some(0), _) => {}
            (Some(status), _) => self.end(Reason::Status { rank, pid, status }),
            (None, signal) => self.end(Reason::Signal { rank, pid, signal: signal.unwrap_or(0), dumped: end.dumped }),
        }
        self.take_effects(stuck);
        Ok(())
    }

    fn take_request(&mut self, rank: usize, flags: epoll::EventFlags) -> io::Result<()> {
        if flags.contains(epoll::EventFlags::OUT) {
            self.pmi.write(rank);
        }
        let effects = self.pmi.turn(rank);
        self.take_effects(effects);
        if self.pmi.stream(rank).is_none() && self.ranks[rank].ended.is_none() {
            self.ranks[rank].gone_at = Some(Instant::now() + CLOSED_MAX);
        }
        // An answer may be for anybody: the last to a barrier answers all.
        for rank in 0..self.ranks.len() {
            let (read, write) = self.pmi.interest(rank);
            if write || !read || flags.contains(epoll::EventFlags::OUT) {
                let mut wanted = epoll::EventFlags::empty();
                wanted.set(epoll::EventFlags::IN, read);
                wanted.set(epoll::EventFlags::OUT, write);
                if let Some(stream) = self.pmi.stream(rank) {
                    epoll::modify(&self.set, stream, Source::Pmi(rank).data(), wanted)?;
                }
            }
        }
        Ok(())
    }

    fn take_effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply { .. } => {}
                Effect::Abort { rank, code } => self.end(Reason::Exit { rank: rank as usize, status: code & 0xff }),
                Effect::Nonsense { rank, why } => self.end(Reason::Broken { why: format!("rank {rank} does not speak PMI-1: {why}") }),
                Effect::Stuck { waiting, gone } => {
                    let has_ended = self.ranks.get(gone as usize).is_some_and(|rank| rank.ended.is_some());
                    let how = if has_ended { "has ended" } else { "has left the job" };
                    let reason = Reason::Broken { why: format!("rank {waiting} waits in a barrier to which rank {gone} will not come: it {how}") };
                    if has_ended {
                        self.end(reason);
                    } else {
                        self.stuck.get_or_insert((Instant::now() + CLOSED_MAX, reason));
                    }
                }
            }
        }
    }

    /// Events that come with time.
    fn pass_time(&mut self) {
        let now = Instant::now();
        self.outputs.show(now);
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].gone_at.is_some_and(|at| now >= at) {
                self.ranks[rank].gone_at = None;
                let effects = self.pmi.ended(rank);
                self.take_effects(effects);
            }
        }
        if let Some((_, reason)) = self.stuck.take_if(|stuck| now >= stuck.0) {
            self.end(reason);
        }
        if self.ending.press(now) == Some(Press::Kill) {
            self.signal_all(Signal::KILL);
        }
    }

    /// The job is to end, if it is not ending already.
    fn end(&mut self, reason: Reason) {
        let is_expected = match reason {
            Reason::Signal { signal: SIGPIPE, .. } => self.outputs.has_failed(),
            Reason::Signal { signal, .. } => self.forwarded.contains(&signal),
            _ => false,
        };
        let text = reason.text().filter(|_| !is_expected);
        let is_first = !self.ending.has_begun();
        if self.ending.begin(reason, Instant::now(), self.plan.options.grace) == Some(Press::Ask) {
            self.signal_all(Signal::TERM);
        }
        if let Some(text) = text.filter(|_| is_first) {
            let others = self.ranks.iter().filter(|rank| rank.ended.is_none()).count();
            let more = match others {
                0 => "",
                all if all == self.ranks.len() => "; ending it",
                1 => "; ending the other",
                _ => "; ending the others",
            };
            self.outputs.say(&format!("{text}{more}"));
        }
    }

    /// To every process group, also of processes that have ended: others may be left in them. The
    /// numbers are theirs as long as nobody is reaped.
    fn signal_all(&self, signal: Signal) {
        for rank in &self.ranks {
            let _ = kill_process_group(rank.pid, signal);
            if signal == Signal::TERM {
                // A stopped one would not hear it.
                let _ = kill_process_group(rank.pid, Signal::CONT);
            }
        }
    }

    fn summary(&self) -> Summary {
        let options = &self.plan.options;
        let last = self.ranks.iter().filter_map(|rank| rank.ended).map(|end| end.at).max().unwrap_or(self.start);
        Summary {
            format: 1,
            job: self.plan.id.clone(),
            command: options.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            size: options.size,
            status: self.ending.reason().map_or(0, Reason::status),
            reason: self.ending.reason().and_then(Reason::text),
            seconds: (last - self.start).as_secs_f64(),
            ranks: self.ranks.iter().enumerate().map(|(number, rank)| rank.summary(number, self.plan.cpus.as_deref())).collect(),
        }
    }
}
