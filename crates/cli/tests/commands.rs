// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire info`, `sim` and `top` as a user calls them, and subcommands that are programs of
//! their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwire"));
    command.args(arguments).env_remove("BELLWIRE_VIPL").env_remove("BELLWIRE_MODE");
    command
}

fn bellwire(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

fn fact<'v>(report: &'v serde_json::Value, name: &str) -> &'v serde_json::Value {
    report["facts"].as_array().and_then(|facts| facts.iter().find(|fact| fact["name"] == name)).unwrap_or_else(|| panic!("{name} in {report}"))
}

#[test]
fn info_tries_and_advises() {
    let output = bellwire(&["info", "--json", "--lib", "/nonexistent/libvipl.so"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = json(&output);
    assert_eq!(fact(&report, "shared memory")["status"], "ok");
    assert!(["ok", "limited", "missing"].contains(&fact(&report, "cross-memory attach")["status"].as_str().unwrap()));
    let library = fact(&report, "libvipl");
    assert!(
        library["status"] == "missing"
            && library["reason"].as_str().unwrap().contains("/nonexistent/libvipl.so")
            && library["advice"].as_str().unwrap().contains("BELLWIRE_VIPL")
    );
    // No colours in a pipe.
    let plain = bellwire(&["info"]);
    assert!(!plain.stdout.contains(&0x1b) && plain.stdout.starts_with(b"memory\n"));
}

#[test]
fn a_small_descriptor_limit_is_noticed() {
    let output = Command::new("sh").args(["-c", "ulimit -n 200; exec \"$0\" info --json"]).arg(env!("CARGO_BIN_EXE_bellwire")).output().unwrap();
    let report = json(&output);
    assert_eq!((fact(&report, "open files")["status"].as_str(), fact(&report, "open files")["value"].as_str()), (Some("limited"), Some("200")));
}

#[test]
fn info_says_what_a_connection_would_use() {
    let pid = std::process::id().to_string();
    let report = json(&bellwire(&["info", "--peer", &pid, "--json"]));
    assert_eq!((fact(&report, "user")["status"].as_str(), fact(&report, "a connection would use")["status"].as_str()), (Some("ok"), Some("ok")));
    assert_eq!(bellwire(&["info", "--peer", "2147483646"]).status.code(), Some(1));
    assert_eq!(bellwire(&["info", "--peer", "0"]).status.code(), Some(2));
}

#[test]
fn sim_repeats_a_seed() {
    let run = |arguments: &[&str]| {
        let output = bellwire(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = run(&["sim", "--seed", "5", "--seeds", "3"]);
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[1], run(&["sim", "--seed", "6"])[0]);
    let trace = std::env::temp_dir().join(format!("bellwire-trace-{}", std::process::id()));
    let with_trace = run(&["sim", "--seed", "6", "--json", "--trace", trace.to_str().unwrap()]);
    let trial: serde_json::Value = serde_json::from_str(&with_trace[0]).unwrap();
    assert!(lines[1].contains(trial["hash"].as_str().unwrap()) && trial["violation"].is_null());
    assert!(std::fs::read_to_string(&trace).unwrap().lines().count() as u64 >= trial["packets"].as_u64().unwrap());
    std::fs::remove_file(&trace).unwrap();
    for wrong in [&["sim", "--topology", "/nonexistent"][..], &["sim", "--seeds", "2", "--trace", "/nonexistent"]] {
        assert_eq!(bellwire(wrong).status.code(), Some(1), "{wrong:?}");
    }
    for wrong in [&["sim", "--seeds", "0"][..], &["sim", "--faults", "loss=2"]] {
        assert_eq!(bellwire(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn sim_draws_clients_and_their_server() {
    let picture = std::env::temp_dir().join(format!("bellwire-networks-{}.svg", std::process::id()));
    let run = |more: &[&str]| {
        let short = ["sim", "networks", "--clients", "2,9", "--servers", "threads", "--transport", "window", "--start", "1ms", "--time", "10ms", "--quiet"];
        bellwire(&[&short[..], more].concat())
    };
    let output = run(&["--plot", picture.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("threads") && std::fs::read_to_string(&picture).unwrap().contains("</svg>"), "{text}");
    std::fs::remove_file(&picture).unwrap();
    let report = json(&run(&["--json"]));
    assert!(text.contains(report["report"]["hash"].as_str().unwrap()) && report["report"]["tables"][0]["rows"].as_array().unwrap().len() == 2);
}

#[test]
fn top_works_in_a_pipe() {
    let output = bellwire(&["top", "--once", "--interval", "0.05"]);
    assert!(output.status.success() && output.stdout.starts_with(b"bellwire top"));
    let report = json(&bellwire(&["top", "--once", "--json", "--interval", "0.05"]));
    assert!(report["nics"].is_array());
    // No process has this number, so it has no NIC.
    assert_eq!(bellwire(&["top", "2147483646", "--once"]).status.code(), Some(1));
    // It goes on until its reader goes.
    let mut child = command(&["top", "--interval", "0.05"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "top outlives its reader");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn metrics_are_printed_and_served() {
    let output = bellwire(&["metrics"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("\nbellwire_silent_nics ") && text.contains("# TYPE bellwire_vi_sent_messages_total counter\n"));
    assert!(!String::from_utf8(bellwire(&["metrics", "--no-vis"]).stdout).unwrap().contains("_vi_sent"));
    // The text is for this host alone.
    assert_eq!(bellwire(&["metrics", "--listen", "0.0.0.0:0"]).status.code(), Some(2));
    let mut child = command(&["metrics", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let place = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_else(|| panic!("{said}"));
    for _ in 0..2 {
        let mut stream = TcpStream::connect(place).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\nbellwire_silent_nics "), "{answer}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A folder with this command in it and programs that say how they were called.
fn folder_with(purpose: &str, programs: &[&str]) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("bellwire-found-{}-{purpose}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // A link is not enough: a program is looked for beside the executable, wherever links to it
    // are.
    std::fs::copy(env!("CARGO_BIN_EXE_bellwire"), folder.join("bellwire")).unwrap();
    for program in programs {
        let path = folder.join(program);
        std::fs::write(&path, "#!/bin/sh\necho \"$(basename \"$0\"): $*\"\nexit 7\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    folder
}

#[test]
fn subcommands_are_found_beside_and_in_path() {
    let (own, path) = (folder_with("own", &["bellwire-bench", "bellwire-other"]), folder_with("path", &["bellwire-ni", "bellwire-bench"]));
    let run = |arguments: &[&str]| {
        let search = format!("{}:/usr/bin:/bin", path.join("").display());
        let output = Command::new(own.join("bellwire")).args(arguments).env("PATH", search).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(run(&["perf", "--quick", "--help"]), (Some(7), "bellwire-bench: perf --quick --help\n".to_owned()));
    assert_eq!(run(&["help", "logp"]), (Some(7), "bellwire-bench: logp --help\n".to_owned()));
    assert_eq!(run(&["ni", "table5"]), (Some(7), "bellwire-ni: table5\n".to_owned()));
    assert_eq!(run(&["other", "-x"]), (Some(7), "bellwire-other: -x\n".to_owned()));
    // Its own subcommands are not looked for; a word that names no program is a wrong argument.
    assert_eq!(run(&["sim", "list"]).0, Some(0));
    assert_eq!(run(&["nosuch"]).0, Some(2));
    std::fs::remove_dir_all(own).unwrap();
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_missing_subcommand_says_what_to_install() {
    let own = folder_with("alone", &[]);
    for (name, package) in [("perf", "bellwire-bench"), ("ni", "bellwire-nisim")] {
        let output = Command::new(own.join("bellwire")).arg(name).env("PATH", "/usr/bin:/bin").output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && complaint.contains("make install") && complaint.contains(package), "{complaint}");
    }
    let help = String::from_utf8(bellwire(&["--help"]).stdout).unwrap();
    for name in ["perf", "logp", "breakdown", "contend", "gas", "bench", "ni", "info", "top", "run", "env", "sim"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{name} "))), "{name} in {help}");
    }
    std::fs::remove_dir_all(own).unwrap();
}
