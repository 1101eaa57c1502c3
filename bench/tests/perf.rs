// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire perf` as a user calls it: exit status, what goes where, and that measuring processes
//! really measure.

use std::process::{Command, Output};

fn bellwire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bellwire-bench")).args(arguments).env_remove("BELLWIRE_VIPL").output().expect("the command starts")
}

#[test]
fn a_missing_library_is_said_clearly() {
    let output = bellwire(&["perf", "--lib", "/nonexistent/libvipl.so", "--quiet"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("libvipl not found") && complaint.contains("/nonexistent/libvipl.so"), "{complaint}");
}

#[test]
fn limits_are_measured_and_written_as_json() {
    if std::thread::available_parallelism().is_ok_and(|n| n.get() == 1) {
        println!("SKIPPED: the limits of one processor");
        return;
    }
    let arguments = ["perf", "--compare", "--without-library", "--quick", "--rounds", "1", "--make-up", "0", "--only", "write", "--json", "-", "--quiet"];
    let measure = || {
        let output = bellwire(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("nothing but JSON on standard output")
    };
    // On a busy machine the two sides may not run at the same time for seconds; then the report
    // says so.
    let in_time = |report: &serde_json::Value| report["failures"].as_array().is_some_and(Vec::is_empty);
    let report = (0..5).map(|_| measure()).find(in_time).unwrap_or_else(measure);
    let figures = report["figures"].as_array().unwrap();
    let has = |metric: &str, series: &str| {
        figures.iter().any(|figure| figure["metric"] == metric && figure["series"] == series && figure["median"].as_f64() > Some(0.0))
    };
    assert!(has("write-latency", "exchange"), "{report}");
    assert!(has("write-bandwidth", "memcpy"), "{report}");
    assert!(has("write-bandwidth", "memcpy touched"), "{report}");
    assert!(report["machine"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
    assert!(report["library"].is_null());
    assert_eq!(report["failures"].as_array().map(Vec::len), Some(0), "{report}");
}

#[test]
fn help_is_complete() {
    let output = bellwire(&["perf", "--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["--compare", "--only", "--json", "BELLWIRE_VIPL", "Exit status", "Examples"] {
        assert!(text.contains(word), "{word}");
    }
    assert!(!String::from_utf8(bellwire(&["--help"]).stdout).unwrap().contains("perf-peer"));
}

#[test]
fn wrong_arguments_are_refused() {
    for arguments in [&["perf", "--cpus", "0"][..], &["perf", "--only", "everything"], &["perf", "--without-library"], &["perf", "--rounds", "0"]] {
        assert_eq!(bellwire(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
