// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes write to the PMI-1 server of a launcher: bytes on any of three connections, cut anywhere, and processes that end.
//!
//! Asserted besides: every answer is a line that the parser takes; nobody is let out of a barrier that is not complete; who has left gets no answer.

use bellwire_job::pmi::line::{Line, LineBuffer};
use bellwire_job::pmi::server::{Effect, Server};

use crate::input::Input;

const RANKS: usize = 3;
const STEPS_MAX: usize = 400;

/// The beginnings of lines that lead somewhere.
const WORDS: [&str; 12] = [
    "cmd=init pmi_version=1 pmi_subversion=1\n",
    "cmd=barrier_in\n",
    "cmd=finalize\n",
    "cmd=get_maxes\n",
    "cmd=get_my_kvsname\n",
    "cmd=put kvsname=fuzz key=a value=",
    "cmd=get kvsname=fuzz key=a\n",
    "cmd=get kvsname=fuzz key=",
    "cmd=abort exitcode=",
    "mcmd=spawn\n",
    "endcmd\n",
    "\n",
];

struct Stage {
    server: Server,
    lines: [LineBuffer; RANKS],
    /// In the barrier, as far as its own lines say.
    waiting: [bool; RANKS],
    /// In the middle of a request of several lines, of which none is one of its own.
    spawning: [bool; RANKS],
    gone: [bool; RANKS],
}

impl Stage {
    fn take(&mut self, effects: Vec<Effect>) {
        let released = effects.iter().filter(|effect| matches!(effect, Effect::Reply { line, .. } if line.starts_with("cmd=barrier_out"))).count();
        assert!(released == 0 || (released == RANKS && self.waiting == [true; RANKS]), "a barrier is left by all or nobody");
        if released > 0 {
            self.waiting = [false; RANKS];
        }
        for effect in effects {
            if let Effect::Reply { rank, line } = effect {
                let line = line.strip_suffix('\n').expect("a whole line");
                assert!(Line::parse(line.as_bytes()).is_ok(), "{line}");
                assert!(!self.gone[rank as usize], "who has gone is not spoken to");
            }
        }
    }

    fn say(&mut self, rank: usize, bytes: &[u8]) {
        self.lines[rank].push(bytes);
        while let Ok(Some(line)) = self.lines[rank].next_line() {
            let takes = self.server.is_inside(rank as u32) && !self.spawning[rank];
            let mut effects = Vec::new();
            self.server.handle_line(rank as u32, &line, &mut effects);
            let is_refused = effects.iter().any(|effect| matches!(effect, Effect::Nonsense { .. }));
            let words = Line::parse(&line);
            if self.spawning[rank] {
                self.spawning[rank] = line != b"endcmd";
            } else if words.as_ref().is_ok_and(|line| line.get("mcmd") == Some("spawn")) {
                self.spawning[rank] = true;
            } else if takes && !is_refused && words.is_ok_and(|line| line.command() == "barrier_in") {
                self.waiting[rank] = true;
            }
            self.take(effects);
        }
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut stage =
        Stage { server: Server::new("fuzz", RANKS as u32), lines: Default::default(), waiting: [false; RANKS], spawning: [false; RANKS], gone: [false; RANKS] };
    input.drive(STEPS_MAX, |input| {
        let what = input.u8();
        let rank = usize::from(what >> 5) % RANKS;
        if stage.gone[rank] {
            return;
        }
        match what % 32 {
            0 => {
                let mut effects = Vec::new();
                stage.server.handle_gone(rank as u32, &mut effects);
                stage.gone[rank] = true;
                stage.waiting[rank] = false;
                stage.take(effects);
            }
            known @ 1..=24 => stage.say(rank, WORDS[usize::from(known) % WORDS.len()].as_bytes()),
            length => {
                let bytes: Vec<u8> = (0..length).map(|_| input.u8()).collect();
                stage.say(rank, &bytes);
            }
        }
    });
}
