// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measuring commands as a user calls them, and that Ctrl-C leaves nothing behind.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwire-bench"));
    command.args(arguments).env_remove("BELLWIRE_VIPL").env_remove("BELLWIRE_MODE");
    command
}

fn bellwire(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn logp_needs_its_library_and_says_so() {
    let output = bellwire(&["logp", "--lib", "/nonexistent/libvipl.so", "--quiet"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nonexistent/libvipl.so"));
    for wrong in [&["logp", "--sizes", "0"][..], &["logp", "--sizes", ""], &["logp", "--rounds", "0"]] {
        assert_eq!(bellwire(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn an_interrupted_comparison_leaves_no_folder() {
    let parent = std::env::temp_dir().join(format!("bellwire-interrupt-{}", std::process::id()));
    std::fs::create_dir_all(&parent).unwrap();
    // Compilers that take their time, so that the folder is there when the signal comes.
    for name in ["mpicc.mpich", "mpirun.mpich"] {
        let path = parent.join(name);
        std::fs::write(&path, "#!/bin/sh\nsleep 20\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    let scratch = parent.join("tmp");
    std::fs::create_dir_all(&scratch).unwrap();
    let path = format!("{}:{}", parent.display(), std::env::var("PATH").unwrap_or_default());
    let arguments = ["perf", "--compare", "--without-library", "--quick", "--only", "lat", "--quiet"];
    let mut child = command(&arguments).env("TMPDIR", &scratch).env("PATH", path).stdout(Stdio::null()).spawn().unwrap();
    let entries = || std::fs::read_dir(&scratch).unwrap().count();
    let start = Instant::now();
    while entries() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "no folder was made");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2), "{status}");
    assert_eq!(entries(), 0, "a folder stayed behind");
    std::fs::remove_dir_all(&parent).unwrap();
}

#[test]
fn the_steps_of_a_get_are_parts_of_the_whole() {
    let output = bellwire(&["gas", "--only", "steps", "--quick", "-q", "--json", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = json(&output);
    let parts = report["breakdown"].as_array().unwrap();
    let row = |part: &str| parts.iter().find(|row| row["part"].as_str().unwrap().starts_with(part)).unwrap_or_else(|| panic!("{part} in {report}"));
    // How long the pieces are depends on the machine; that they are taken off and added up rightly
    // is tested in `suites/gas/breakdown.rs`.
    let whole = row("the whole")["ns"].as_f64().unwrap();
    assert!(whole > 0.0 && parts.len() == 16, "{report}");
    for part in ["send:", "remote: head", "all that is waited for"] {
        let (ns, share) = (row(part)["ns"].as_f64().unwrap(), row(part)["share"].as_f64().unwrap());
        assert!((share - 100.0 * ns / whole).abs() < 1e-6, "{part}: {report}");
    }
}
