// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a job will be: options, checked against this host, and said in words.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::MARK;
use crate::bind::{self, Bind};

/// Processes of a job, at most.
pub const SIZE_MAX: u32 = 4096;
/// Descriptors of the launcher for each process, and for itself.
const FDS_EACH: u64 = 5;
const FDS_OWN: u64 = 64;
/// Variables of other launchers begin so: a program would ask those, in place of this one.
const FOREIGN: [&[u8]; 7] = [b"PMI_", b"PMI2_", b"PMIX_", b"OMPI_", b"HYDI_", b"MPI_LOCALRANKID", b"MPI_LOCALNRANKS"];

/// Where output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Into the launcher's own, line by line; with `[rank] ` before each line or without.
    Merged {
        /// With ranks.
        label: bool,
    },
    /// Into files of this folder: `rank-N.out` and `rank-N.err`.
    Files(PathBuf),
}

/// The ranks that read the launcher's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// One process; the others have an empty one.
    Rank(u32),
    /// Each process gets all of it.
    All,
    /// Nobody.
    None,
}

/// The processes to start, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// How many processes.
    pub size: u32,
    /// Variables to set, beside what the launcher has.
    pub environment: Vec<(OsString, OsString)>,
    /// Where they work, if not where the launcher does.
    pub folder: Option<PathBuf>,
    /// Where their output goes.
    pub output: Output,
    /// The reading ranks.
    pub input: Input,
    /// On which processors.
    pub bind: Bind,
    /// How long the job may take.
    pub timeout: Option<Duration>,
    /// How long processes that were asked to end may take, before they are killed.
    pub grace: Duration,
    /// A command that calls [`crate::guard_main`] with the job's mark as its last argument.
    pub guard: Vec<OsString>,
}

/// A job that can be started.
#[derive(Debug)]
pub struct Plan {
    pub(crate) options: Options,
    pub(crate) id: String,
    /// The processors of each process, if they are bound.
    pub(crate) cpus: Option<Vec<Vec<usize>>>,
}

impl Plan {
    /// Checks the options.
    ///
    /// # Errors
    /// A request that cannot be met here, and the remedy.
    pub fn new(options: Options) -> Result<Self, String> {
        if options.program.is_empty() {
            return Err("no program is given".into());
        }
        if options.size == 0 || options.size > SIZE_MAX {
            return Err(format!("a job has 1 to {SIZE_MAX} processes, not {}", options.size));
        }
        if let Input::Rank(rank) = options.input
            && rank >= options.size
        {
            return Err(format!("--stdin {rank}: the job's ranks are 0 to {}", options.size - 1));
        }
        let needed = u64::from(options.size) * FDS_EACH + FDS_OWN;
        if let Some(limit) = getrlimit(Resource::Nofile).maximum.filter(|limit| *limit < needed) {
            return Err(format!("{} processes need {needed} file descriptors, and the limit is {limit}: raise it (ulimit -Hn) or start fewer", options.size));
        }
        let cpus = bind::choose(options.bind, options.size as usize)?;
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(|errno| format!("random numbers: {errno}"))?;
        let id = format!("bellwire-{:016x}", u64::from_ne_bytes(random));
        Ok(Self { options, id, cpus })
    }

    /// What a process's environment has more than the launcher's, and (without a value) less.
    pub(crate) fn environment(&self, rank: u32, pmi: i32) -> Vec<(OsString, Option<OsString>)> {
        let foreign = std::env::vars_os().map(|(name, _)| name).filter(|name| is_foreign(name)).map(|name| (name, None));
        let size = self.options.size.to_string();
        let ours = [
            (MARK, self.id.clone()),
            ("PMI_FD", pmi.to_string()),
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", size.clone()),
            ("MPI_LOCALRANKID", rank.to_string()),
            ("MPI_LOCALNRANKS", size),
        ];
        let users = self.options.environment.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        let ours = ours.into_iter().map(|(name, value)| (name.into(), Some(value.into())));
        // The user's word counts more than the shell's, and the launcher's more than both.
        foreign.chain(users).chain(ours).collect()
    }

    /// The plan, in lines of text.
    pub fn explain(&self) -> String {
        let Options { size, output, input, timeout, grace, folder, program, .. } = &self.options;
        let command: Vec<String> = program.iter().map(|word| quote(word)).collect();
        let mut text = format!("job        {}, {size} process{}\n", self.id, if *size == 1 { "" } else { "es" });
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<11}{value}");
        };
        line("command", &command.join(" "));
        line("folder", &folder.as_ref().map_or_else(|| "the launcher's".to_owned(), |folder| folder.display().to_string()));
        match output {
            Output::Merged { label } => line("output", if *label { "merged by lines, with the rank before each" } else { "merged by lines" }),
            Output::Files(folder) => line("output", &format!("files {}/rank-N.out and rank-N.err", folder.display())),
        }
        line(
            "input",
            &match input {
                Input::Rank(rank) => format!("to rank {rank}"),
                Input::All => "to every rank".to_owned(),
                Input::None => "to nobody".to_owned(),
            },
        );
        line("time", &timeout.map_or_else(|| "without a limit".to_owned(), |time| format!("at most {} s", time.as_secs_f64())));
        line("end", &format!("when a process fails, the others are asked to end, and killed after {} s", grace.as_secs_f64()));
        let environment: BTreeMap<_, _> = self.environment(0, 0).into_iter().collect();
        for (name, value) in environment {
            let name = name.display();
            let value = value.map(|value| quote(&value));
            match (name.to_string().as_str(), value) {
                ("PMI_FD", _) => line("set", "PMI_FD=a descriptor for each rank"),
                ("PMI_RANK" | "MPI_LOCALRANKID", _) => line("set", &format!("{name}=the rank")),
                (_, Some(value)) => line("set", &format!("{name}={value}")),
                (_, None) => line("unset", &name.to_string()),
            }
        }
        match &self.cpus {
            None => line("processors", "left to the scheduler"),
            Some(cpus) => cpus.iter().enumerate().for_each(|(rank, cpus)| line("processors", &format!("rank {rank}: {}", numbers(cpus)))),
        }
        text
    }
}

fn is_foreign(name: &OsStr) -> bool {
    name == MARK || FOREIGN.iter().any(|foreign| name.as_bytes().starts_with(foreign))
}

/// `0,1,5`
pub(crate) fn numbers(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// A word as a shell would take it.
fn quote(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=,:@%+".contains(&byte));
    if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(size: u32) -> Options {
        Options {
            program: vec!["prog".into(), "it's".into()],
            size,
            environment: vec![("A".into(), "b c".into()), ("PMI_RANK".into(), "9".into())],
            folder: None,
            output: Output::Merged { label: true },
            input: Input::Rank(0),
            bind: Bind::None,
            timeout: None,
            grace: Duration::from_secs(5),
            guard: Vec::new(),
        }
    }

    #[test]
    fn explained() {
        let text = Plan::new(options(2)).unwrap().explain();
        for part in
            ["2 processes\n", "prog 'it'\\''s'", "set        A='b c'\n", "set        PMI_RANK=the rank\n", "set        PMI_SIZE=2\n", "left to the scheduler"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_cannot_be() {
        let mut wrong = options(1);
        wrong.input = Input::Rank(1);
        assert!(Plan::new(wrong).unwrap_err().contains("0 to 0"));
        assert!(Plan::new(options(0)).is_err() && Plan::new(options(SIZE_MAX + 1)).is_err());
    }

    #[test]
    fn our_variables_count_most() {
        let environment: BTreeMap<_, _> = Plan::new(options(2)).unwrap().environment(1, 7).into_iter().collect();
        assert_eq!(environment[OsStr::new("PMI_RANK")].as_deref(), Some(OsStr::new("1")));
        assert_eq!(environment[OsStr::new("A")].as_deref(), Some(OsStr::new("b c")));
        assert!(is_foreign(OsStr::new("PMIX_RANK")) && is_foreign(OsStr::new(MARK)) && !is_foreign(OsStr::new("PMIFOO")));
    }
}
