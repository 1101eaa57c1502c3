// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launcher's end of PMI-1, for all processes of one job: a machine that is given lines and
//! says what to send; no descriptor, clock or process in it.
//!
//! Called by `bellwire-launch` with what its children write. Invariants: kept data are bounded
//! ([`STORE_MAX_BYTES`], one waiting mark for each process); every line has its answer in
//! [`Effect`]s, or ends the job; a barrier that can never be complete, because a process has gone,
//! is [`Effect::Stuck`] at once, never a hang.

use std::collections::BTreeMap;

use super::line::Line;
use super::values::{Lines, VALUE_MAX_BYTES};
use super::{GET_ALL_KEY, VALUE_MAX_KEY};
use crate::mapping;

/// Longest key, as announced.
const KEY_MAX_BYTES: usize = 64;
/// Keys and values of a job, bytes.
pub const STORE_MAX_BYTES: usize = 256 << 20;

/// What the launcher has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send this line, which has its newline, to a process.
    Reply {
        /// To whom.
        rank: u32,
        /// What.
        line: String,
    },
    /// A process asks that the job end with this status.
    Abort {
        /// Who.
        rank: u32,
        /// With what.
        code: i32,
    },
    /// A process waits in a barrier that another has left for ever: the job must end.
    Stuck {
        /// One that waits.
        waiting: u32,
        /// One that will not come.
        gone: u32,
    },
    /// A process does not speak PMI-1: the job must end.
    Nonsense {
        /// Who.
        rank: u32,
        /// The error, and the expected text.
        why: String,
    },
}

/// Where a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Has not said `init`.
    Outside,
    /// May ask.
    Inside,
    /// In the barrier.
    Waiting,
    /// Has said `finalize`, or has ended.
    Gone,
}

/// The server of a job.
#[derive(Debug)]
pub struct Server {
    name: String,
    stages: Vec<Stage>,
    /// In the middle of a request of several lines, which is passed over.
    spawning: Vec<bool>,
    store: BTreeMap<String, String>,
    stored: usize,
    lines: Lines,
}

impl Server {
    /// A server for `size` processes of the job called `name`, a word without spaces or `=`.
    pub fn new(name: &str, size: u32) -> Self {
        let mut store = BTreeMap::new();
        store.insert(mapping::KEY.to_owned(), mapping::one_host(size));
        Self {
            name: name.to_owned(),
            stages: vec![Stage::Outside; size as usize],
            spawning: vec![false; size as usize],
            store,
            stored: 0,
            lines: Lines::default(),
        }
    }

    /// A line came from a process, here without its newline.
    pub fn handle_line(&mut self, rank: u32, bytes: &[u8], effects: &mut Vec<Effect>) {
        let index = rank as usize;
        if self.spawning[index] {
            if bytes == b"endcmd" {
                self.spawning[index] = false;
                reply(effects, rank, "cmd=spawn_result rc=-1 msg=bellwire_run_cannot_start_more_processes".to_owned());
            }
            return;
        }
        let line = match Line::parse(bytes) {
            Ok(line) => line,
            Err(why) => return effects.push(Effect::Nonsense { rank, why: format!("{why}, where a line of PMI-1 was expected") }),
        };
        if line.get("mcmd") == Some("spawn") {
            self.spawning[index] = true;
            return;
        }
        match (self.stages[index], line.command()) {
            (_, "abort") => effects.push(Effect::Abort { rank, code: line.number("exitcode").unwrap_or(1) }),
            (Stage::Outside, "init") => self.init(rank, &line, effects),
            (Stage::Outside | Stage::Gone, command) => {
                let expected = if self.stages[index] == Stage::Gone { "nothing after finalize" } else { "cmd=init" };
                effects.push(Effect::Nonsense { rank, why: format!("\"cmd={command}\", where {expected} was expected") });
            }
            (Stage::Waiting, command) => effects.push(Effect::Nonsense { rank, why: format!("\"cmd={command}\" inside a barrier") }),
            (Stage::Inside, command) => self.request(rank, command, &line, effects),
        }
    }

    /// A process has ended or closed its connection; may be said more than once.
    pub fn handle_gone(&mut self, rank: u32, effects: &mut Vec<Effect>) {
        self.stages[rank as usize] = Stage::Gone;
        self.barrier(effects);
    }

    /// Whether a process is in the job, and has not said that it leaves.
    pub fn is_inside(&self, rank: u32) -> bool {
        matches!(self.stages[rank as usize], Stage::Inside | Stage::Waiting)
    }

    fn init(&mut self, rank: u32, line: &Line<'_>, effects: &mut Vec<Effect>) {
        if line.number::<u32>("pmi_version") != Some(1) {
            // PMI-2 clients ask like this, too, and take the refusal.
            return reply(effects, rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1".to_owned());
        }
        self.stages[rank as usize] = Stage::Inside;
        reply(effects, rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned());
    }

    fn request(&mut self, rank: u32, command: &str, line: &Line<'_>, effects: &mut Vec<Effect>) {
        let answer = match command {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            "get_maxes" => format!("cmd=maxes kvsname_max=256 keylen_max={KEY_MAX_BYTES} vallen_max=1024 {VALUE_MAX_KEY}={VALUE_MAX_BYTES} {GET_ALL_KEY}=1"),
            "get_appnum" => "cmd=appnum appnum=0".to_owned(),
            "get_my_kvsname" => format!("cmd=my_kvsname kvsname={}", self.name),
            "get_universe_size" => format!("cmd=universe_size size={}", self.stages.len()),

            "put" => self.put(line),
            "get" => self.get(line),
            "bellwire_get_all" => self.get_all(line),
            "publish_name" => "cmd=publish_result info=not_supported".to_owned(),
            "unpublish_name" => "cmd=unpublish_result info=not_supported".to_owned(),
            "lookup_name" => "cmd=lookup_result info=not_supported".to_owned(),
            "barrier_in" => {
                self.stages[rank as usize] = Stage::Waiting;
                return self.barrier(effects);
            }
            "finalize" => {
                self.stages[rank as usize] = Stage::Gone;
                reply(effects, rank, "cmd=finalize_ack rc=0".to_owned());
                return self.barrier(effects);
            }
            unknown => return effects.push(Effect::Nonsense { rank, why: format!("\"cmd={unknown}\", which is no command of PMI-1") }),
        };
        reply(effects, rank, answer);
    }

    fn put(&mut self, line: &Line<'_>) -> String {
        let refuse = |why: &str| format!("cmd=put_result rc=-1 msg={why}");
        let (Some(key), Some(value)) = (line.get("key"), line.get("value")) else { return refuse("no_key_or_value") };
        if line.get("kvsname") != Some(&self.name) {
            return refuse("no_such_kvsname");
        }
        if key.len() > KEY_MAX_BYTES || value.len() > VALUE_MAX_BYTES {
            return refuse("key_or_value_too_long");
        }
        if self.store.contains_key(key) {
            return refuse("duplicate_key");
        }
        if self.stored + key.len() + value.len() > STORE_MAX_BYTES {
            return refuse("the_job_has_put_more_than_256_MiB");
        }
        self.stored += key.len() + value.len();
        self.store.insert(key.to_owned(), value.to_owned());
        "cmd=put_result rc=0 msg=success".to_owned()
    }

    fn get(&self, line: &Line<'_>) -> String {
        let found = line.get("key").filter(|_| line.get("kvsname") == Some(&self.name)).and_then(|key| self.store.get(key));
        match found {
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
            None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
        }
    }

    fn get_all(&mut self, line: &Line<'_>) -> String {
        let size = self.stages.len() as u32;
        let key = line.get("key").filter(|key| key.len() <= KEY_MAX_BYTES && line.get("kvsname") == Some(&self.name));
        let (Some(key), Some(from)) = (key, line.number::<u32>("from").filter(|from| *from < size)) else { return "cmd=bellwire_values rc=-1".to_owned() };
        let (values, count) = self.lines.of(&self.store, key, from, size);
        format!("cmd=bellwire_values rc=0 count={count} values={values}")
    }

    /// Lets all go when all are in, or finds that this will never be.
    fn barrier(&mut self, effects: &mut Vec<Effect>) {
        let position = |stage| self.stages.iter().position(|s| *s == stage).map(|at| at as u32);
        let Some(waiting) = position(Stage::Waiting) else { return };
        if let Some(gone) = position(Stage::Gone) {
            return effects.push(Effect::Stuck { waiting, gone });
        }
        if self.stages.iter().all(|stage| *stage == Stage::Waiting) {
            for rank in 0..self.stages.len() {
                self.stages[rank] = Stage::Inside;
                reply(effects, rank as u32, "cmd=barrier_out rc=0".to_owned());
            }
        }
    }
}

fn reply(effects: &mut Vec<Effect>, rank: u32, mut line: String) {
    line.push('\n');
    effects.push(Effect::Reply { rank, line });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn say(server: &mut Server, rank: u32, line: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        server.handle_line(rank, line.as_bytes(), &mut effects);
        effects
    }

    fn answer(server: &mut Server, rank: u32, line: &str) -> String {
        match say(server, rank, line).as_slice() {
            [Effect::Reply { rank: to, line }] if *to == rank => line.trim_end().to_owned(),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn job(size: u32) -> Server {
        let mut server = Server::new("j", size);
        for rank in 0..size {
            assert!(answer(&mut server, rank, "cmd=init pmi_version=1 pmi_subversion=1").ends_with("rc=0"));
        }
        server
    }

    #[test]
    fn put_barrier_get() {
        let mut server = job(2);
        assert_eq!(answer(&mut server, 0, "cmd=put kvsname=j key=a value=1"), "cmd=put_result rc=0 msg=success");
        assert!(answer(&mut server, 1, "cmd=put kvsname=j key=a value=2").contains("rc=-1"));
        assert!(answer(&mut server, 1, "cmd=put kvsname=other key=b value=2").contains("no_such_kvsname"));
        assert!(say(&mut server, 0, "cmd=barrier_in").is_empty());
        let both = say(&mut server, 1, "cmd=barrier_in");
        assert!(matches!(both.as_slice(), [Effect::Reply { rank: 0, .. }, Effect::Reply { rank: 1, .. }]), "{both:?}");
        assert!(answer(&mut server, 1, "cmd=get kvsname=j key=a").ends_with("value=1"));
        assert!(answer(&mut server, 1, "cmd=get kvsname=j key=b").contains("rc=-1"));
        assert!(answer(&mut server, 1, "cmd=get kvsname=j key=PMI_process_mapping").ends_with("value=(vector,(0,1,2))"));
    }

    #[test]
    fn all_values_at_once() {
        let mut server = job(2);
        answer(&mut server, 1, "cmd=put kvsname=j key=1.0.k value=b");
        assert_eq!(answer(&mut server, 0, "cmd=bellwire_get_all kvsname=j key=k from=0"), "cmd=bellwire_values rc=0 count=2 values=-,b");
        answer(&mut server, 0, "cmd=put kvsname=j key=0.0.k value=a");
        assert_eq!(answer(&mut server, 0, "cmd=bellwire_get_all kvsname=j key=k from=0"), "cmd=bellwire_values rc=0 count=2 values=a,b");
        for wrong in ["kvsname=x key=k from=0", "kvsname=j key=k from=2", "kvsname=j from=0", "kvsname=j key=k"] {
            assert_eq!(answer(&mut server, 0, &format!("cmd=bellwire_get_all {wrong}")), "cmd=bellwire_values rc=-1");
        }
    }

    #[test]
    fn nobody_waits_for_the_gone() {
        let stuck = [Effect::Stuck { waiting: 0, gone: 1 }];
        let mut server = job(2);
        say(&mut server, 0, "cmd=barrier_in");
        let mut effects = Vec::new();
        server.handle_gone(1, &mut effects);
        assert_eq!(effects, stuck);
        let mut server = job(2);
        assert!(answer(&mut server, 1, "cmd=finalize").starts_with("cmd=finalize_ack"));
        assert!(!server.is_inside(1) && server.is_inside(0));
        assert_eq!(say(&mut server, 0, "cmd=barrier_in"), stuck);
    }

    #[test]
    fn what_ends_the_job() {
        let mut server = job(1);
        assert_eq!(say(&mut server, 0, "cmd=abort exitcode=7"), [Effect::Abort { rank: 0, code: 7 }]);
        for nonsense in ["cmd=fly", "hello", "", "cmd=get\u{e9}=x"] {
            assert!(matches!(say(&mut server, 0, nonsense).as_slice(), [Effect::Nonsense { rank: 0, .. }]), "{nonsense}");
        }
        let mut server = Server::new("j", 1);
        assert!(matches!(say(&mut server, 0, "cmd=get kvsname=j key=a").as_slice(), [Effect::Nonsense { why, .. }] if why.contains("cmd=init")));
        assert!(answer(&mut server, 0, "cmd=init pmi_version=2 pmi_subversion=0").ends_with("rc=-1"));
    }

    #[test]
    fn more_processes_are_refused() {
        let mut server = job(1);
        for line in ["mcmd=spawn", "nprocs=2", "execname=x y z", "whatever"] {
            assert!(say(&mut server, 0, line).is_empty());
        }
        assert!(answer(&mut server, 0, "endcmd").starts_with("cmd=spawn_result rc=-1"));
        assert!(answer(&mut server, 0, "cmd=get_universe_size").ends_with("size=1"));
    }

    proptest! {
        /// Whatever two processes say, each is answered at most once, and the store holds what was
        /// put first.
        #[test]
        fn any_lines(lines in proptest::collection::vec((0u32..2, prop_oneof![
            Just("cmd=init pmi_version=1".to_owned()), Just("cmd=barrier_in".to_owned()), Just("cmd=finalize".to_owned()), Just("mcmd=spawn".to_owned()), Just("endcmd".to_owned()),
            "cmd=put kvsname=j key=[ab] value=[0-9]", "cmd=get kvsname=j key=[ab]", "cmd=bellwire_get_all kvsname=j key=[ab] from=[0-3]", "[ -~]{0,20}"]), 0..60)) {
            let mut server = Server::new("j", 2);
            for (rank, line) in &lines {
                let effects = say(&mut server, *rank, line);
                prop_assert!(effects.len() <= 3);
                for effect in &effects {
                    if let Effect::Reply { line, .. } = effect {
                        prop_assert!(line.ends_with('\n') && Line::parse(line.trim_end().as_bytes()).is_ok());
                    }
                }
                prop_assert!(server.store.len() <= 3);
            }
        }
    }
}
