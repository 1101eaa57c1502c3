// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subcommands that are programs of their own, found as git finds its: beside this executable, then
//! in PATH. `bellwire perf ..` runs `bellwire-bench perf ..`, `bellwire ni ..` runs
//! `bellwire-ni ..`, and any other `bellwire NAME ..` that is no subcommand of this program runs
//! `bellwire-NAME ..` where there is one.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The subcommands of `bellwire-bench`.
const MEASURING: [&str; 7] = ["bench", "breakdown", "contend", "gas", "logp", "paper", "perf"];

/// Said below the list of this program's own subcommands.
pub const HELP: &str = "\
Measuring (bellwire-bench):
  bench      Measure what programs of others gain on Bellwire
  breakdown  Take an Active Message apart: cycles by category and by call
  contend    Measure many clients of one server: rates, fairness, response times
  gas        Measure global memory: words, bulk, em3d, beside others
  logp       Measure the LogP parameters: overheads, latency, gap
  paper      Set measurements beside a paper's tables, figures and statements
  perf       Measure latency, bandwidth, rate and more over libvipl, and compare with others

Research (bellwire-ni):
  ni         Simulate designs of network interfaces

Any other bellwire-NAME beside this command or in PATH runs as bellwire NAME.";

/// The program of a subcommand, and whether it has several and is to be told which.
fn program(name: &str) -> (String, bool) {
    if MEASURING.contains(&name) { ("bellwire-bench".to_owned(), true) } else { (format!("bellwire-{name}"), false) }
}

/// Becomes the program of the subcommand in `words`, a command line with this program first.
/// Nothing if it is a subcommand of `own`.
pub fn run(own: &clap::Command, words: &[OsString]) -> Option<ExitCode> {
    let words = asked_for_help(words);
    let name = words.get(1)?.to_str()?;
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') && !name.starts_with('-');
    if !is_word || name == "help" || own.get_subcommands().any(|command| command.get_name() == name) {
        return None;
    }
    let (program, is_told) = program(name);
    let Some(path) = find(OsStr::new(&program)) else {
        // The parser refuses a word that is no command at all.
        let is_known = is_told || name == "ni";
        return is_known.then(|| {
            eprintln!("bellwire: {name} is a command of {program}, which is neither beside bellwire nor in PATH; make install installs it, cargo build -p {} builds it", package(&program));
            ExitCode::FAILURE
        });
    };
    let error = Command::new(&path).args(&words[if is_told { 1 } else { 2 }..]).exec();
    eprintln!("bellwire: {}: {error}", path.display());
    Some(ExitCode::FAILURE)
}

/// `bellwire help NAME` is `bellwire NAME --help`.
fn asked_for_help(words: &[OsString]) -> Vec<OsString> {
    match words {
        [own, help, name, ..] if help == "help" => vec![own.clone(), name.clone(), "--help".into()],
        _ => words.to_vec(),
    }
}

/// The Cargo package of a program.
fn package(program: &str) -> &str {
    if program == "bellwire-ni" { "bellwire-nisim" } else { program }
}

/// Beside this executable, then in the folders of PATH.
fn find(program: &OsStr) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_path_buf()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_subcommands() {
        assert_eq!(program("perf"), ("bellwire-bench".to_owned(), true));
        assert_eq!(program("ni"), ("bellwire-ni".to_owned(), false));
        assert!(MEASURING.iter().all(|name| HELP.contains(&format!("\n  {name} "))));
    }

    #[test]
    fn help_of_a_subcommand() {
        let words = ["bellwire", "help", "perf"].map(OsString::from);
        assert_eq!(asked_for_help(&words), ["bellwire", "perf", "--help"].map(OsString::from));
        assert_eq!(asked_for_help(&words[..2]), words[..2]);
    }

    #[test]
    fn programs_can_be_executed() {
        assert!(is_program(Path::new("/bin/sh")) && !is_program(Path::new("/etc/passwd")) && !is_program(Path::new("/bin")));
    }
}
