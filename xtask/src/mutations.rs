// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask mutations DIR [WORD]`: breaks a copy of the sources in one place at a time, and
//! sees that the simulator's checkers, or a layer's model, find it. A checker that has never found
//! anything may be none.
//!
//! `cargo xtask tidy` sees that each place is still there, so that the list does not lose its
//! meaning when the code moves.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// One way to break it.
struct Mutation {
    /// What is wrong then.
    name: &'static str,
    /// More than one where a second guard stands behind the first.
    edits: &'static [Edit],
    /// The test that finds it.
    test: Test,
}

/// A package, and a test of it.
type Test = (&'static str, &'static str);

struct Edit {
    file: &'static str,
    /// Stands there once.
    from: &'static str,
    to: &'static str,
}

/// Random programs under random faults.
const TRIAL: Test = ("bellwire-sim", "trial");

/// Random programs of queue pairs, and what chance finds too seldom.
const VERBS: Test = ("bellwire-verbs", "model");

const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "a packet that has come before is taken for new",
        edits: &[Edit {
            file: "crates/proto/src/rx_window.rs",
            from: "if before(psn, self.passed) || self.received.contains(psn) {",
            to: "if before(psn, self.passed) {",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "a packet does not wait for those before it",
        edits: &[Edit {
            file: "crates/proto/src/rx_window.rs",
            from: "before(predecessor, self.passed) || self.went.contains(predecessor)",
            to: "predecessor != arrival.psn",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "a packet accepted out of order is said to be the last that was missing",
        edits: &[Edit {
            file: "crates/proto/src/rx_window.rs",
            from: "            self.taken.insert(psn);",
            to: "            self.accepted = psn.wrapping_add(1);",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "an earlier transmission of a refused packet is taken",
        edits: &[Edit {
            file: "crates/proto/src/rx_window.rs",
            from: "if !before(turned.timestamp, arrival.timestamp) {",
            to: "if before(arrival.timestamp, turned.timestamp.wrapping_sub(1 << 30)) {",
        }],
        test: ("bellwire-sim", "resident"),
    },
    Mutation {
        name: "nothing leaves again when its time is over",
        edits: &[Edit {
            file: "crates/proto/src/tx_window/losses.rs",
            from: "if !self.is_unacknowledged() || now <",
            to: "if self.is_unacknowledged() || now <",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "damaged packets are not noticed",
        edits: &[Edit {
            file: "crates/proto/src/packet/checksum.rs",
            from: " && crc32c::crc32c(body) == u32::from_le_bytes(*sum);",
            to: " && crc32c::crc32c(body) ^ u32::from_le_bytes(*sum) != 1;",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "connections have the names and the packet numbers of earlier ones",
        // Either alone keeps old packets out.
        edits: &[
            Edit {
                file: "crates/proto/src/ids.rs",
                from: "Self(slot as u64 | (generation as u64) << 16 | (random as u64) << 32)",
                to: "Self(slot as u64 | 1 << 16 | ((generation as u64 | random as u64) & 0) << 48)",
            },
            Edit {
                file: "crates/proto/src/handshake.rs",
                from: "(random, nonce, psn) = (self.rng.next_u32(), self.rng.next_u64(), self.rng.next_u32())",
                to: "(random, nonce, psn) = (self.rng.next_u32(), self.rng.next_u64(), 1)",
            },
            Edit {
                file: "crates/proto/src/handshake.rs",
                from: "(random, psn) = (self.rng.next_u32(), self.rng.next_u32())",
                to: "(random, psn) = (self.rng.next_u32(), 1)",
            },
        ],
        test: ("bellwire-sim", "replay"),
    },
    Mutation {
        name: "what waits in a broken connection's receive queue is forgotten",
        edits: &[Edit {
            file: "crates/via/src/complete.rs",
            from: "        self.flush_sends(index);\n        self.flush_receives(index);",
            to: "        self.flush_sends(index);",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "what was not delivered is said to have been",
        edits: &[Edit {
            file: "crates/via/src/complete.rs",
            from: "{ work.status } else { Status::FLUSHED | partial };",
            to: "{ work.status } else { partial };",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "an acknowledgement counts for one message too many",
        edits: &[Edit {
            file: "crates/via/src/answer.rs",
            from: "if work.sequence.wrapping_sub(sequence) as i32 >= 0 {",
            to: "if work.sequence.wrapping_sub(sequence) as i32 > 0 {",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "a message that found no descriptor does not leave again",
        edits: &[Edit { file: "crates/via/src/answer.rs", from: "        vi.send.next = i;\n", to: "" }],
        test: TRIAL,
    },
    Mutation {
        name: "fragments are put together that do not belong together",
        edits: &[Edit {
            file: "crates/via/src/arrive.rs",
            from: "if !(vi.arriving && a.offset != 0 && a.offset == vi.arrived) {",
            to: "if !(vi.arriving && a.offset != 0) {",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "a fence does not wait for reads",
        edits: &[Edit {
            file: "crates/via/src/transmit.rs",
            from: "if work.flags.contains(WorkFlags::FENCE) && vi.reads_outstanding != 0 {",
            to: "if work.flags.contains(WorkFlags::FENCE) && vi.reads_outstanding > 1 << 20 {",
        }],
        test: TRIAL,
    },
    Mutation {
        name: "a message of queue pairs goes on whose beginning was refused",
        edits: &[Edit { file: "crates/verbs/src/serve.rs", from: "(is_first || p.head.offset == qp.came)", to: "true" }],
        test: VERBS,
    },
    Mutation {
        name: "memory of another protection domain is used",
        edits: &[Edit { file: "crates/verbs/src/memory.rs", from: "r.domain == domain && r.access", to: "r.access" }],
        test: VERBS,
    },
    Mutation {
        name: "answers to an earlier life of a queue pair are taken",
        edits: &[Edit { file: "crates/verbs/src/arrive.rs", from: "q.life == p.head.echo && ", to: "" }],
        test: VERBS,
    },
    Mutation {
        name: "requests of an earlier life of a queue pair are done",
        edits: &[Edit { file: "crates/verbs/src/serve.rs", from: " && !q.is_past(p.head)", to: "" }],
        test: VERBS,
    },
    Mutation {
        name: "a refusal overtakes the bytes of a read",
        edits: &[Edit {
            file: "crates/verbs/src/leave.rs",
            from: "c.reads.iter().any(|r| (r.head.to, r.head.from) == pair)",
            to: "c.reads.len() > 1 << 20 && pair.0 != 0",
        }],
        test: VERBS,
    },
    Mutation {
        name: "refusals of the try before are taken",
        edits: &[Edit {
            file: "crates/verbs/src/answers.rs",
            from: "qp.again != (head.flags & AGAIN != 0)",
            to: "qp.left > 1 << 30 && head.flags & AGAIN != 0",
        }],
        test: VERBS,
    },
    Mutation {
        name: "a queue pair that drains begins requests",
        edits: &[Edit { file: "crates/verbs/src/qp.rs", from: "QpState::Sqd => self.begun,", to: "QpState::Sqd => self.sends.len()," }],
        test: VERBS,
    },
    Mutation {
        name: "a queue pair has drained when the first request is done",
        edits: &[Edit { file: "crates/verbs/src/qp.rs", from: "self.begun == 0 && self.state == QpState::Sqd", to: "self.state == QpState::Sqd" }],
        test: VERBS,
    },
];

/// A mutant that has not failed after this has no end: that is a failure, too.
const TIME_MAX: Duration = Duration::from_secs(900);

/// Complains about places that are not there once.
pub fn check_places(root: &Path, complaints: &mut Vec<String>) {
    for mutation in MUTATIONS {
        for edit in mutation.edits {
            let text = fs::read_to_string(root.join(edit.file)).unwrap_or_default();
            let count = text.matches(edit.from).count();
            if count != 1 {
                complaints.push(format!("xtask/src/mutations.rs: \"{}\": its place is {count} times in {}", mutation.name, edit.file));
            }
        }
    }
}

/// Tries those whose name contains `word`, in a copy under `folder`; gives how many there were.
pub fn run(root: &Path, folder: &Path, word: &str, complaints: &mut Vec<String>) -> usize {
    let tree = folder.join("tree");
    if let Err(why) = fs::remove_dir_all(&tree).or_else(|e| if tree.exists() { Err(e) } else { Ok(()) }).and_then(|()| copy(root, &tree)) {
        complaints.push(format!("{}: {why}", tree.display()));
        return 0;
    }
    let chosen: Vec<&Mutation> = MUTATIONS.iter().filter(|m| m.name.contains(word)).collect();
    for mutation in &chosen {
        let begun = Instant::now();
        let broken = mutation.edits.iter().try_for_each(|edit| {
            let path = tree.join(edit.file);
            let text = fs::read_to_string(&path)?;
            fs::write(&path, text.replacen(edit.from, edit.to, 1))
        });
        let answer = broken.map_err(|e| e.to_string()).and_then(|()| is_found(mutation, &tree, folder));
        for edit in mutation.edits {
            if let Err(why) = fs::copy(root.join(edit.file), tree.join(edit.file)) {
                complaints.push(format!("{}: {why}", tree.join(edit.file).display()));
                return chosen.len();
            }
        }
        match answer {
            Ok(how) => println!("found: {} ({how}, {} s)", mutation.name, begun.elapsed().as_secs()),
            Err(why) => complaints.push(format!("{}: {why}", mutation.name)),
        }
    }
    chosen.len()
}

/// How the test fails. An error: it does not, or the mutant does not compile.
fn is_found(mutation: &Mutation, tree: &Path, folder: &Path) -> Result<&'static str, String> {
    let cargo = |more: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["test", "-q", "--locked", "-p", mutation.test.0, "--test", mutation.test.1]).args(more).current_dir(tree);
        command.env("CARGO_TARGET_DIR", folder.join("build")).env("RUST_BACKTRACE", "0").stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|e| format!("cargo: {e}"))
    };
    if !cargo(&["--no-run"])?.wait().is_ok_and(|status| status.success()) {
        return Err("it does not compile".to_owned());
    }
    match end(cargo(&[])?)? {
        None => Ok("it has no end"),
        Some(status) if status.success() => Err(format!("survives --test {}", mutation.test.1)),
        Some(_) => Ok("its test fails"),
    }
}

fn end(mut child: Child) -> Result<Option<ExitStatus>, String> {
    let begun = Instant::now();
    while begun.elapsed() < TIME_MAX {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // Cargo passes no signal on, so the test itself may go on until it is done; it writes nowhere.
    child.kill().and_then(|()| child.wait()).map_err(|e| e.to_string())?;
    Ok(None)
}

/// Everything but build output and hidden folders.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if name.to_string_lossy().starts_with('.') || name == "target" {
            continue;
        }
        if kind.is_dir() {
            copy(&entry.path(), &to.join(&name))?;
        } else {
            fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}
