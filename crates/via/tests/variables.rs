// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of variables of the environment is that of the sources, of the manual and of the guide,
//! and its defaults are what the engine does.

use bellwire_via::nic::NicConfig;
use bellwire_via::wire::variables::{OWN, VARIABLES, is_known};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The text of a file of the checkout; nothing in a package of this crate alone.
fn text(path: &str) -> Option<String> {
    std::fs::read_to_string(root().join(path)).ok()
}

#[test]
fn the_guide_has_this_table() {
    let Some(page) = text("docs/guide/variables.md") else { return };
    let mut table = String::new();
    for v in VARIABLES {
        writeln!(table, "| `{}` | {} | {} | {} |", v.name, v.values, v.default, v.rules).unwrap();
    }
    let rows: String = page.lines().filter(|line| line.starts_with("| `BELLWIRE_")).map(|line| format!("{line}\n")).collect();
    assert!(rows == table, "the table of docs/guide/variables.md has to be:\n{table}");
}

#[test]
fn the_manual_explains_each() {
    let Some(page) = text("docs/man/bellwire-environment.7") else { return };
    for v in VARIABLES {
        assert!(page.contains(v.name), "docs/man/bellwire-environment.7 has no {}", v.name);
    }
}

/// Names in quotes, as a program reads them, in sources of a folder.
fn names_in(folder: &Path, into: &mut BTreeSet<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", "tests", ".git", "examples"].contains(&name.as_str()) {
                names_in(&path, into);
            }
            continue;
        }
        if !["rs", "py", "c", "cpp"].contains(&path.extension().unwrap_or_default().to_str().unwrap_or_default())
            || name == "tests.rs"
            || name == "variables.rs"
        {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for piece in source.split('"').filter(|piece| piece.starts_with("BELLWIRE_")) {
            if piece.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
                into.insert((piece.to_owned(), path.display().to_string()));
            }
        }
    }
}

#[test]
fn the_sources_read_these_and_no_others() {
    if text("ARCHITECTURE.md").is_none() {
        return;
    }
    let mut found = BTreeSet::new();
    for folder in ["crates", "ffi", "bench", "research", "python"] {
        names_in(&root().join(folder), &mut found);
    }
    // A header's guard, and names of unit tests that are wrong on purpose.
    // One that only a compiler reads.
    let not_read = ["BELLWIRE_NO_SUCH_VARIABLE", "BELLWIRE_NOT_SET", "BELLWIRE_BUILD_VERSIONS"];
    let strange: Vec<_> = found.iter().filter(|(name, _)| !is_known(name) && !not_read.contains(&name.as_str())).collect();
    assert!(strange.is_empty(), "crates/wire/src/variables.rs has to tell of: {strange:#?}");
    for v in VARIABLES {
        assert!(found.iter().any(|(name, _)| name == v.name), "no source reads {}", v.name);
    }
    assert!(VARIABLES.len() + OWN.len() > 70);
}

/// A default in quotes is what a NIC has without the variable.
#[test]
fn defaults_are_what_the_engine_does() {
    const ROLE: &str = "BELLWIRE_TEST_ROLE";
    if std::env::var_os(ROLE).is_some() {
        let mut config = NicConfig::from_env().unwrap();
        config.seed = NicConfig::default().seed;
        let text = format!("{config:?}");
        let seed = format!("{:?}", config.seed);
        println!("is {}", text.replace(&seed, "seed"));
        return;
    }
    let run = |variable: Option<(&str, &str)>| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "defaults_are_what_the_engine_does", "--nocapture"]).env(ROLE, "child");
        for v in VARIABLES {
            child.env_remove(v.name);
        }
        child.envs(variable);
        let output = child.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find_map(|line| line.find("is NicConfig").map(|at| line[at..].to_owned()));
        (line.unwrap_or_default(), String::from_utf8(output.stderr).unwrap())
    };
    let (without, said) = run(None);
    assert!(without.starts_with("is NicConfig"), "{without}");
    assert!(!said.contains("does nothing"), "{said}");
    let mut compared = 0;
    for v in VARIABLES {
        let Some(default) = v.default.strip_prefix('`').and_then(|d| d.split_once('`')) else { continue };
        // "50; 0 with one processor" is two defaults, and words behind one are a condition.
        let holds = default.1.is_empty() || (v.name == "BELLWIRE_SPIN_US" && bellwire_memory::processors::online() > 1);
        if !holds {
            continue;
        }
        assert_eq!(run(Some((v.name, default.0))).0, without, "{}={}", v.name, default.0);
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
    // Another value is another NIC: the comparison sees it.
    assert_ne!(run(Some(("BELLWIRE_MODE", "guarded"))).0, without);
    assert_ne!(run(Some(("BELLWIRE_TURN_BYTES", "1024"))).0, without);
    // A mistake is told.
    let said = run(Some(("BELLWIRE_SPIN", "7"))).1;
    assert!(said.contains("BELLWIRE_SPIN is not one of Bellwire's") && said.contains("BELLWIRE_SPIN_US"), "{said}");
}
