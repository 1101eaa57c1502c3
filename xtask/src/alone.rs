// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire that is made of SISCI calls alone: its files may name nothing else that moves bytes,
//! finds a peer or wakes one. The order of stores within this machine, and threads and bells of one
//! process, are no such thing.

use std::fs;
use std::path::{Path, PathBuf};

/// The wire's folder.
const FOLDER: &str = "crates/wire/src/sisci/";
/// What it may name of `bellwire_memory`.
const OF_MEMORY: &[&str] = &["MemoryError", "atomic", "direct_epoch", "event::Bell", "line_queue", "membarrier", "own_thread", "pause", "tagged_table"];
/// What it may not name of its own crate: the other wires, and other users' processes.
const NOT_OF_WIRE: &[&str] = &["agent", "host", "packet", "shm", "sim", "udp", "users"];
/// What it may name of `rustix`: a descriptor that is handed on.
const OF_RUSTIX: &[&str] = &["fd::BorrowedFd"];
/// What it may not name at all.
const NOTHING_OF: &[&str] = &["libc::", "bellwire_proto", "libloading", "std::fs", "std::io", "std::net", "std::os", "std::process", "extern \"", "asm!"];

/// Whether `text` begins with one of `names`, as whole words.
fn begins(text: &str, names: &[&str]) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    names.iter().any(|name| text.strip_prefix(name).is_some_and(ends))
}

/// The rest of a line after each `word`.
fn after<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(word).map(move |(at, _)| &line[at + word.len()..])
}

/// The faults of a file: lines and reasons.
fn wrong(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        let mut say = |is_wrong: bool, reason| {
            if is_wrong {
                found.push((number + 1, reason));
            }
        };
        say(after(code, "bellwire_memory::").any(|rest| !begins(rest, OF_MEMORY)), "bellwire_memory has this for other wires");
        say(after(code, "rustix::").any(|rest| !begins(rest, OF_RUSTIX)), "a call of the kernel");
        say(after(code, "crate::").any(|rest| begins(rest, NOT_OF_WIRE)), "another wire");
        say(after(code, "super::super::").next().is_some(), "a way round this check");
        say(NOTHING_OF.iter().any(|word| code.contains(word)), "no call of sisci_api.h");
    }
    found
}

/// Complains about what else the wire names.
pub fn check(root: &Path, files: &[PathBuf], complaints: &mut Vec<String>) {
    let mut seen = 0;
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        if name.starts_with(FOLDER) {
            seen += 1;
            let text = fs::read_to_string(path).unwrap_or_default();
            complaints.extend(wrong(&text).into_iter().map(|(line, reason)| format!("{name}:{line}: the wire of SISCI calls alone: {reason}")));
        }
    }
    if seen == 0 {
        complaints.push(format!("{FOLDER}: no files were found"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_others_is_found() {
        for line in [
            "use bellwire_memory::region::Region;",
            "use bellwire_memory::event::BellSet;",
            "use bellwire_memory::{attach, pause};",
            "let fd = rustix::fs::memfd_create(name, flags);",
            "use crate::shm::ShmWire;",
            "use std::os::unix::net::UnixStream;",
            "extern \"C\" { fn mmap(); }",
        ] {
            assert_eq!(wrong(line).len(), 1, "{line}");
        }
        for line in [
            "use bellwire_memory::line_queue::{Consumer, Producer};",
            "use rustix::fd::BorrowedFd;",
            "// rustix::fs is not used",
            "use crate::sisci::direct::Grant;",
        ] {
            assert_eq!(wrong(line), [], "{line}");
        }
    }
}
