// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bellwire's own checks: `cargo xtask tidy`, `cargo xtask links` for the links of the
//! documentation, `cargo xtask comparisons` for what the compiler makes of the code, and
//! `cargo xtask mutations` for what the simulator's checkers find.
//!
//! | check | why |
//! |---|---|
//! | layers | arrows between crates point downward only (ARCHITECTURE.md) |
//! | alone | the wire made of SISCI calls uses nothing else (alone.rs) |
//! | licence | each source file names its licence in its first lines |
//! | size | a file past the limit usually holds a second concern |
//! | exports | `no_mangle` outside `ffi` would be exported by every C library that links the crate |
//! | atomics | live in `crates/memory`, where the models see them; elsewhere through its re-export |
//! | requirements | each rule of docs/PROTOCOL.md is followed somewhere and shown by a test |
//! | mutations | places of `cargo xtask mutations` are still there |
//! | prose | headless sentences and wide lines become fewer (`cargo xtask prose`) |
//! | safety | a `SAFETY` comment names its invariant, and does not point at another one |
//! | circles | circles of modules become fewer (`cargo xtask circles`) |
//! | names | files that Markdown and doc comments name are there |
//! | leftovers | marks of unfinished work |

#![forbid(unsafe_code)]

mod alone;
mod circles;
mod comparisons;
mod dissector;
mod links;
mod mutations;
mod prose;
mod requirements;
mod safety;
mod split_c;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What each crate of the workspace may depend on, lowest layer first.
const LAYERS: &[(&str, &[&str])] = &[
    ("bellwire-time", &[]),
    ("bellwire-memory", &[]),
    ("bellwire-trace", &["bellwire-memory"]),
    ("bellwire-faults", &["bellwire-time"]),
    ("bellwire-seal", &["bellwire-time"]),
    ("bellwire-proto", &["bellwire-time", "bellwire-seal"]),
    ("bellwire-residency", &["bellwire-time"]),
    // The calls of libsisci, loaded at run time; a wire is made of them alone (alone.rs).
    ("bellwire-sisci-calls", &[]),
    ("bellwire-wire", &["bellwire-time", "bellwire-memory", "bellwire-faults", "bellwire-proto", "bellwire-sisci-calls"]),
    ("bellwire-agent", &["bellwire-time", "bellwire-memory", "bellwire-faults", "bellwire-residency", "bellwire-wire"]),
    ("bellwire-via", &["bellwire-time", "bellwire-memory", "bellwire-trace", "bellwire-faults", "bellwire-wire"]),
    ("bellwire-sim", &["bellwire-time", "bellwire-faults", "bellwire-proto", "bellwire-report", "bellwire-residency", "bellwire-via"]),
    ("bellwire-job", &[]),
    ("bellwire-launch", &["bellwire-memory", "bellwire-job"]),
    ("bellwire-job-c", &["bellwire-job"]),
    ("bellwire-conformance", &["bellwire-agent", "bellwire-memory", "bellwire-via", "bellwire-sim"]),
    ("bellwire-peer", &["bellwire-memory", "bellwire-via"]),
    ("bellwire-am", &["bellwire-trace", "bellwire-memory", "bellwire-peer", "bellwire-via"]),
    // By the calls of libvipl, loaded at run time: nothing of the engine.
    ("bellwire-vipl-abi", &[]),
    ("bellwire-vipl-calls", &["bellwire-trace", "bellwire-vipl-abi"]),
    ("bellwire-amvia", &["bellwire-am", "bellwire-memory", "bellwire-vipl-calls"]),
    ("bellwire-gasvia", &["bellwire-memory", "bellwire-vipl-calls"]),
    ("bellwire-spmd", &["bellwire-am", "bellwire-job", "bellwire-via"]),
    ("bellwire-rpc", &["bellwire-am", "bellwire-memory", "bellwire-trace", "bellwire-via"]),
    ("bellwire-am-c", &["bellwire-trace", "bellwire-am", "bellwire-amvia", "bellwire-job", "bellwire-memory", "bellwire-rpc", "bellwire-spmd", "bellwire-via"]),
    ("bellwire-tag", &["bellwire-memory", "bellwire-peer", "bellwire-via"]),
    ("bellwire-fi", &["bellwire-memory", "bellwire-tag", "bellwire-trace", "bellwire-via"]),
    ("bellwire-verbs", &["bellwire-cm", "bellwire-faults", "bellwire-memory", "bellwire-peer", "bellwire-trace", "bellwire-via"]),
    ("bellwire-devices", &["bellwire-faults"]),
    ("bellwire-cm-device", &["bellwire-cm", "bellwire-memory", "bellwire-verbs", "bellwire-via"]),
    ("bellwire-verbs-c", &["bellwire-cm-device", "bellwire-devices", "bellwire-memory", "bellwire-trace", "bellwire-verbs", "bellwire-via"]),
    ("bellwire-gas", &["bellwire-trace", "bellwire-gasvia", "bellwire-memory", "bellwire-job", "bellwire-peer", "bellwire-via"]),
    ("bellwire-global", &["bellwire-gas", "bellwire-job", "bellwire-memory"]),
    ("bellwire-global-programs", &["bellwire-global"]),
    ("bellwire-gas-c", &["bellwire-gas", "bellwire-memory", "bellwire-trace"]),
    ("vipl", &["bellwire-trace", "bellwire-memory", "bellwire-via"]),
    // Within a host it needs nothing of the engine; between hosts it does.
    ("bellwire-sisci", &["bellwire-memory", "bellwire-peer", "bellwire-via"]),
    ("bellwire-sisci-c", &["bellwire-memory", "bellwire-sisci", "bellwire-trace"]),
    ("bellwire-report", &[]),
    ("bellwire-inspect", &["bellwire-memory", "bellwire-vipl-abi", "bellwire-wire"]),
    (
        "bellwire-cli",
        &[
            "bellwire-cm",
            "bellwire-devices",
            "bellwire-inspect",
            "bellwire-job",
            "bellwire-launch",
            "bellwire-report",
            "bellwire-sim",
            "bellwire-trace",
            "bellwire-wire",
        ],
    ),
    // Measures virtual interfaces through the C library; the layers above it directly.
    (
        "bellwire-bench",
        &[
            "bellwire-am",
            "bellwire-amvia",
            "bellwire-gas",
            "bellwire-gasvia",
            "bellwire-global",
            "bellwire-global-programs",
            "bellwire-inspect",
            "bellwire-job",
            "bellwire-lanai",
            "bellwire-launch",
            "bellwire-memory",
            "bellwire-report",
            "bellwire-rpc",
            "bellwire-tag",
            "bellwire-verbs",
            "bellwire-via",
            "bellwire-vipl-calls",
        ],
    ),
    // Connection management as a machine: needs nothing of the engine.
    ("bellwire-cm", &[]),
    // Simulated NICs under the mappings of Active Messages, by the calls of a library of its own.
    ("bellwire-lanai", &["bellwire-am", "bellwire-amvia", "bellwire-memory", "bellwire-vipl-abi", "bellwire-vipl-calls"]),
    // Simulates machines, not the engine.
    ("bellwire-nisim", &["bellwire-report"]),
    // Outside the workspace: built with sanitizers.
    (
        "bellwire-fuzz",
        &[
            "bellwire-cm",
            "bellwire-cm-device",
            "bellwire-gas",
            "bellwire-gasvia",
            "bellwire-job",
            "bellwire-memory",
            "bellwire-proto",
            "bellwire-sisci",
            "bellwire-tag",
            "bellwire-verbs",
            "bellwire-via",
            "bellwire-vipl-calls",
        ],
    ),
    ("xtask", &[]),
];

/// Lines of a source file without its tests.
const LINES_MAX: usize = 700;
/// Files that may be longer, each with its reason.
const LONG: &[(&str, &str)] = &[];

/// Marks that must not be left in the sources. Split, so that this file does not contain them.
const LEFTOVERS: &[&str] = &[concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("FIX", "ME"), concat!("db", "g!(")];

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => {
            let root = root();
            let mut complaints = Vec::new();
            layers(&root, &mut complaints);
            sources(&root, &mut complaints);
            alone::check(&root, &files(&root, "rs"), &mut complaints);
            requirements::check(&root, &files(&root, "rs"), &mut complaints);
            mutations::check_places(&root, &mut complaints);
            prose::check(&root, &mut complaints);
            circles::check(&root, &mut complaints);
            dissector::check(&root, &mut complaints);
            links::check_names(&root, &mut complaints);
            report("tidy", &complaints, "all tidy")
        }
        Some("links") => {
            let root = root();
            let mut complaints = Vec::new();
            let seen = links::check(&root, &files(&root, "md"), &mut complaints);
            report("links", &complaints, &format!("all {seen} links lead somewhere"))
        }
        Some("comparisons") => {
            let mut complaints = Vec::new();
            let seen = std::env::args_os().nth(2).map_or(0, |directory| comparisons::check(Path::new(&directory), &mut complaints));
            if seen == 0 {
                complaints.push("no functions were found".to_owned());
            }
            report("comparisons", &complaints, &format!("all {seen} functions have the comparisons that they read"))
        }
        Some("mutations") => {
            let mut complaints = Vec::new();
            let mut arguments = std::env::args().skip(2);
            let (folder, word) = (arguments.next(), arguments.next().unwrap_or_default());
            let tried = folder.map_or(0, |folder| mutations::run(&root(), Path::new(&folder), &word, &mut complaints));
            if tried == 0 {
                complaints.push("none was tried: which folder may be used?".to_owned());
            }
            report("mutations", &complaints, &format!("all {tried} mutations are found"))
        }
        Some("dissector") => {
            let complaints: Vec<String> = dissector::make(&root()).err().map(|why| why.to_string()).into_iter().collect();
            report("dissector", &complaints, "the dissector is made")
        }
        Some("circles") => {
            let (complaints, well) = circles::command(&root(), std::env::args().nth(2).as_deref());
            report("circles", &complaints, &well)
        }
        Some("prose") => {
            let (complaints, well) = prose::command(&root(), &std::env::args().skip(2).collect::<Vec<_>>());
            report("prose", &complaints, &well)
        }
        Some("split-c") => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            let (Some(folder), Some(first), Some(count), Some(processes)) = (words.first(), number(1), number(2), number(3)) else {
                eprintln!("usage: cargo xtask split-c DIR FIRST COUNT PROCESSES");
                return ExitCode::from(2);
            };
            match split_c::write(Path::new(folder), first, count, processes as usize) {
                Ok(count) => report("split-c", &[], &format!("{count} programs, by seed from {first} on")),
                Err(error) => report("split-c", &[format!("{folder}: {error}")], ""),
            }
        }
        other => {
            eprintln!(
                "usage: cargo xtask tidy|links|circles [CRATE]|prose [PREFIX]|comparisons DIR|mutations DIR [WORD]|split-c DIR FIRST COUNT PROCESSES{}",
                other.map_or(String::new(), |o| format!("   (not: {o})"))
            );
            ExitCode::from(2)
        }
    }
}

/// Says what is wrong, or that all is well.
fn report(check: &str, complaints: &[String], well: &str) -> ExitCode {
    for c in complaints {
        eprintln!("{check}: {c}");
    }
    if complaints.is_empty() {
        println!("{well}");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), Path::to_path_buf)
}

/// Checks the crates' dependencies on each other against `LAYERS`.
fn layers(root: &Path, complaints: &mut Vec<String>) {
    let allowed: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    for manifest in files(root, "toml").into_iter().filter(|p| p.ends_with("Cargo.toml")) {
        let text = fs::read_to_string(&manifest).unwrap_or_default();
        let Some(name) = value(&text, "name") else { continue };
        let Some(may) = allowed.get(name.as_str()) else {
            complaints.push(format!("crate {name} has no place in the layers: add it to xtask and ARCHITECTURE.md"));
            continue;
        };
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line.trim_matches(['[', ']']);
            }
            let dependency = line.split(['.', '=', ' ']).next().unwrap_or("");
            let is_ours = dependency.starts_with("bellwire-") || dependency == "vipl";
            // A test may look upward; the library may not.
            if is_ours && section == "dependencies" && dependency != name && !may.contains(&dependency) {
                complaints.push(format!("{name} depends on {dependency}: arrows point downward only"));
            }
        }
    }
}

fn value(manifest: &str, key: &str) -> Option<String> {
    let line = manifest.lines().find(|l| l.split('=').next().is_some_and(|k| k.trim() == key))?;
    Some(line.split('"').nth(1)?.to_string())
}

fn sources(root: &Path, complaints: &mut Vec<String>) {
    for extension in ["rs", "c", "h", "sh"] {
        for path in files(root, extension) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if !text.lines().take(3).any(|l| l.contains("SPDX-License-Identifier: MIT OR Apache-2.0")) {
                complaints.push(format!("{name}: no SPDX line"));
            }
            let lines = text.lines().take_while(|l| !l.starts_with("mod tests {")).count();
            if extension == "rs" && lines > LINES_MAX && !LONG.iter().any(|(n, _)| *n == name) {
                complaints.push(format!("{name}: {lines} lines; is there a second concern in it?"));
            }
            if extension == "rs" && !name.starts_with("ffi/") && !name.starts_with("xtask/") && text.contains("no_mangle") {
                complaints.push(format!("{name}: no_mangle outside ffi"));
            }
            if extension == "rs" && !name.starts_with("crates/memory/") && !name.starts_with("xtask/") && text.contains("sync::atomic::") {
                complaints.push(format!("{name}: atomics of core or std; use bellwire_memory::atomic"));
            }
            if extension == "rs" {
                complaints.extend(safety::pointing(&text).into_iter().map(|line| format!("{name}:{line}: name the invariant that the block relies on")));
            }
            for mark in LEFTOVERS {
                if text.contains(mark) {
                    complaints.push(format!("{name}: {mark}"));
                }
            }
        }
    }
}

/// All files with an extension, without build output and hidden folders.
fn files(root: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
