// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire run` as a user calls it: how jobs end, what is left of them (nothing), what comes out.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const BELLWIRE: &str = env!("CARGO_BIN_EXE_bellwire");
/// A variable by which the tests find the processes of their own jobs.
const MINE: &str = "BELLWIRE_RUN_TEST";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BELLWIRE);
    command.arg("run").args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Process ids with `NAME=value` in their environment.
fn marked(value: &str) -> Vec<i32> {
    let mark = format!("\0{MINE}={value}\0").into_bytes();
    let is_marked = |pid: &i32| {
        let environment = [&[0][..], &fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()].concat();
        environment.windows(mark.len()).any(|window| window == mark)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_marked).collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A job in the background whose processes are known by `name`; returns when each of them has written a line.
fn job(name: &str, size: usize, options: &[&str], script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let (size_text, variable) = (size.to_string(), format!("{MINE}={name}"));
    let mut child =
        command(&["-n", &size_text, "-x", &variable]).args(options).args(["sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..size {
        reader.read_line(&mut String::new()).unwrap();
    }
    (child, reader)
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_first_failure_ends_the_job_with_its_status() {
    let name = format!("failure-{}", std::process::id());
    let variable = format!("{MINE}={name}");
    let start = Instant::now();
    let output = run(&["-n", "4", "-x", &variable, "sh", "-c", "[ $PMI_RANK != 2 ] || exit 9; sleep 60 & wait"]);
    assert_eq!(status(&output), 9, "{output:?}");
    assert!(text(&output.stderr).contains("rank 2 (process ") && text(&output.stderr).contains("ended with status 9; ending the others"), "{output:?}");
    assert!(start.elapsed() < Duration::from_secs(50) && marked(&name).is_empty(), "{:?}", marked(&name));
    let output = run(&["-n", "2", "sh", "-c", "kill -SEGV $$"]);
    assert!(status(&output) == 128 + 11 && text(&output.stderr).contains("SIGSEGV"), "{output:?}");
    assert_eq!(status(&run(&["-n", "3", "true"])), 0);
}

#[test]
fn who_does_not_listen_is_killed() {
    let start = Instant::now();
    let output = run(&["-n", "2", "--grace", "0.3", "sh", "-c", "trap '' TERM; [ $PMI_RANK = 0 ] && { sleep 0.2; exit 4; }; while :; do sleep 0.1; done"]);
    assert!(status(&output) == 4 && (Duration::from_millis(300)..Duration::from_secs(20)).contains(&start.elapsed()), "{output:?}");
}

#[test]
fn nothing_outlives_a_launcher_that_is_killed() {
    let name = format!("killed-{}", std::process::id());
    // Children of children, one of them in a session of its own, that ignore what can be ignored.
    let script = "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; sleep 61' & sleep 62 & echo up; wait";
    let (mut child, _reader) = job(&name, 3, &[], script);
    until("all are up", || marked(&name).len() >= 9);
    child.kill().unwrap();
    child.wait().unwrap();
    until("all are gone", || marked(&name).is_empty());
}

#[test]
fn nothing_outlives_a_job_that_ends_well() {
    let name = format!("well-{}", std::process::id());
    let variable = format!("{MINE}={name}");
    let output = run(&["-n", "2", "--grace", "0.2", "-x", &variable, "sh", "-c", "setsid sleep 63 & echo $PMI_RANK"]);
    assert!(status(&output) == 0 && output.stdout.len() == 4, "{output:?}");
    assert!(marked(&name).is_empty());
}

#[test]
fn signals_are_passed_on() {
    let name = format!("signals-{}", std::process::id());
    let script = "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo up; while :; do sleep 0.05; done";
    let (mut child, reader) = job(&name, 2, &[], script);
    let mut lines = reader.lines().map(Result::unwrap);
    send(&child, Signal::USR1);
    assert_eq!((lines.next().as_deref(), lines.next().as_deref()), (Some("one"), Some("one")));
    send(&child, Signal::USR2);
    assert_eq!((lines.next().as_deref(), lines.next().as_deref()), (Some("two"), Some("two")));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let (mut child, _reader) = job(&name, 2, &[], "echo up; exec sleep 60");
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(expected));
    }
    assert!(marked(&name).is_empty());
}

#[test]
fn a_second_interrupt_is_meant() {
    let name = format!("twice-{}", std::process::id());
    let (mut child, reader) = job(&name, 2, &["--grace", "60"], "trap 'echo no' INT TERM; echo up; while :; do sleep 0.05; done");
    let mut lines = reader.lines().map(Result::unwrap);
    send(&child, Signal::INT);
    assert_eq!((lines.next().as_deref(), lines.next().as_deref()), (Some("no"), Some("no")));
    assert!(child.try_wait().unwrap().is_none());
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_job_stops_and_goes_on() {
    let name = format!("stop-{}", std::process::id());
    let (mut child, _reader) = job(&name, 2, &["--timeout", "30"], "echo up; exec sleep 60");
    let is_in_state = |pid: i32, state: &str| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(&format!(") {state} ")));
    // While a shell becomes `sleep` its environment is empty.
    until("both are there", || marked(&name).len() == 2);
    let ranks = marked(&name);
    let launcher = i32::try_from(child.id()).unwrap();
    send(&child, Signal::TSTP);
    until("all have stopped", || is_in_state(launcher, "T") && ranks.iter().all(|pid| is_in_state(*pid, "T")));
    send(&child, Signal::CONT);
    until("all go on", || is_in_state(launcher, "S") && ranks.iter().all(|pid| is_in_state(*pid, "S")));
    send(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn lines_stay_whole() {
    // Each line in several writes, without a newline at the very end.
    let script = r#"awk -v r=$PMI_RANK 'BEGIN { for (i = 0; i < 2000; i++) { printf "%d ", r; fflush(); for (j = 0; j < i % 40; j++) printf "x%d", r; printf " %d\n", i }; printf "%d  last", r }'"#;
    let output = run(&["-n", "6", "--label", "sh", "-c", script]);
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    let mut next = [0; 6];
    for line in text(&output.stdout).lines() {
        let (label, rest) = line.split_once("] ").unwrap_or_else(|| panic!("{line}"));
        let rank: usize = label[1..].parse().unwrap();
        let i = next[rank];
        next[rank] += 1;
        let expected = if i == 2000 { format!("{rank}  last") } else { format!("{rank} {} {i}", format!("x{rank}").repeat(i % 40)) };
        assert_eq!(rest, expected);
    }
    assert_eq!(next, [2001; 6]);
}

#[test]
fn a_reader_that_goes_ends_the_job() {
    let mut child = command(&["-n", "2", "yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    // A slow reader stops the processes, not the launcher.
    std::thread::sleep(Duration::from_millis(300));
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.code() == Some(128 + 13) && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn input_goes_where_it_is_wanted() {
    let with_input = |arguments: &[&str], input: Stdio| {
        let mut child = command(arguments).stdin(input).stdout(Stdio::piped()).spawn().unwrap();
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(b"some\n").unwrap();
        }
        let mut lines: Vec<String> = text(&child.wait_with_output().unwrap().stdout).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(with_input(&["-n", "3", "-l", "cat"], Stdio::piped()), ["[0] some"]);
    assert_eq!(with_input(&["-n", "3", "-l", "--stdin", "2", "cat"], Stdio::piped()), ["[2] some"]);
    assert_eq!(with_input(&["-n", "3", "-l", "--stdin", "all", "cat"], Stdio::piped()), ["[0] some", "[1] some", "[2] some"]);
    assert!(with_input(&["-n", "3", "-l", "--stdin", "none", "cat"], Stdio::piped()).is_empty());
    // More than pipes hold, from a file, with readers that do not keep step.
    let path = std::env::temp_dir().join(format!("bellwire-run-{}", std::process::id()));
    fs::write(&path, vec![b'x'; 1_000_000]).unwrap();
    let counted = with_input(&["-n", "3", "--stdin", "all", "sh", "-c", "sleep 0.$PMI_RANK; wc -c"], Stdio::from(fs::File::open(&path).unwrap()));
    fs::remove_file(&path).unwrap();
    assert_eq!(counted, ["1000000"; 3]);
}

#[test]
fn processes_find_each_other() {
    let gather = |size: &str, rounds: &str| run(&["-n", size, BELLWIRE, "job-trial", "gather", rounds]);
    for (size, rounds) in [("1", "3"), ("2", "40"), ("7", "20"), ("64", "3")] {
        let output = gather(size, rounds);
        assert!(status(&output) == 0 && text(&output.stdout).starts_with(&format!("gathered {rounds} times by {size} ")), "{output:?}");
    }
    // Alone, a job of one.
    let output = Command::new(BELLWIRE).args(["job-trial", "gather", "2"]).output().unwrap();
    assert!(status(&output) == 0 && text(&output.stdout).starts_with("gathered 2 times by 1 "), "{output:?}");
}

#[test]
fn nobody_waits_for_the_gone() {
    for (trial, expected, said) in [
        (&["exit", "7"][..], 7, "rank 3 ended the job with status 7"),
        (&["exit", "0"], 0, ""),
        (&["status", "5"], 5, "ended with status 5"),
        (&["status", "0"], 1, "waits in a barrier to which rank 3 will not come"),
        (&["leave"], 1, "waits in a barrier to which rank 3 will not come"),
        (&["vanish"], 137, "was ended by SIGKILL"),
    ] {
        let arguments = [&["-n", "4", BELLWIRE, "job-trial"], trial].concat();
        let output = run(&arguments);
        assert!(status(&output) == expected && text(&output.stderr).contains(said), "{trial:?}: {output:?}");
    }
}

#[test]
fn what_programs_say_on_the_descriptor_is_checked() {
    for (said, answer) in [
        ("printf 'hello\\n' >&$PMI_FD; sleep 60", "rank 0 does not speak PMI-1: a word that is not key=value"),
        ("printf 'cmd=get key=a\\n' >&$PMI_FD; sleep 60", "where cmd=init was expected"),
        ("head -c 200000 /dev/zero | tr '\\0' a >&$PMI_FD; sleep 60", "longer than 96 KiB"),
    ] {
        let output = run(&["bash", "-c", said]);
        assert!(status(&output) == 1 && text(&output.stderr).contains(answer), "{output:?}");
    }
}

#[test]
fn a_job_has_its_time() {
    let output = run(&["-n", "2", "--timeout", "0.3", "sleep", "60"]);
    assert!(status(&output) == 124 && text(&output.stderr).contains("--timeout"), "{output:?}");
}

#[test]
fn errors_say_what_to_do() {
    let too_many = (std::thread::available_parallelism().unwrap().get() + 1).to_string();
    for (arguments, expected, said) in [
        (&["nonexistent-program"][..], 127, "not in PATH"),
        (&["./nonexistent"], 127, "no such file"),
        (&["/"], 126, "a folder"),
        (&["-C", "/nonexistent", "true"], 127, "no folder /nonexistent"),
        (&["-n", "2", "--stdin", "2", "true"], 2, "0 to 1"),
        (&["-n", &too_many, "--bind", "core", "true"], 2, "--bind core"),
        (&["-n", "0", "true"], 2, "1..=4096"),
        (&["-x", "BELLWIRE_NOT_SET", "true"], 2, "BELLWIRE_NOT_SET=..."),
        (&[], 2, "<PROGRAM>"),
    ] {
        let output = run(arguments);
        assert!(status(&output) == expected && text(&output.stderr).contains(said), "{arguments:?}: {output:?}");
    }
}

#[test]
fn what_is_set_and_what_became_of_it() {
    let output = command(&["-n", "2", "--dry-run", "-x", "A=b c", "true", "-v"]).env("PMIX_RANK", "5").output().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("command    true -v\n") && said.contains("set        A='b c'\n") && said.contains("unset      PMIX_RANK\n"), "{said}");

    let folder = std::env::temp_dir().join(format!("bellwire-output-{}", std::process::id()));
    let name = folder.to_str().unwrap();
    let output = run(&[
        "-n",
        "11",
        "--output",
        name,
        "--json",
        "-",
        "-x",
        "A=1",
        "-C",
        "/",
        "sh",
        "-c",
        "pwd; echo $A >&2; [ $PMI_RANK != 10 ] || { sleep 0.3; exit 3; }",
    ]);
    assert_eq!(status(&output), 3);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((summary["size"].as_u64(), summary["status"].as_i64(), summary["ranks"][10]["status"].as_i64()), (Some(11), Some(3), Some(3)));
    assert!(summary["ranks"][10]["seconds"].as_f64().unwrap() >= 0.3 && summary["seconds"].as_f64().unwrap() >= 0.3);
    assert_eq!(
        (fs::read_to_string(folder.join("rank-07.out")).unwrap(), fs::read_to_string(folder.join("rank-10.err")).unwrap()),
        ("/\n".to_owned(), "1\n".to_owned())
    );
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_outer_job_is_not_mistaken_for_ones_own() {
    let inner = format!("{BELLWIRE} run -n 2 {BELLWIRE} job-trial gather 2");
    let output = run(&["-n", "2", "sh", "-c", &inner]);
    assert!(status(&output) == 0 && text(&output.stdout).matches("gathered 2 times by 2 ").count() == 2, "{output:?}");
}

#[test]
fn one_that_cannot_be_started_ends_the_job() {
    let name = format!("unstarted-{}", std::process::id());
    let folder = std::env::temp_dir().join(format!("bellwire-{name}"));
    // A folder where the file for the output of a process in the middle should be.
    fs::create_dir_all(folder.join("rank-21.out")).unwrap();
    let output = run(&["-n", "40", "--output", folder.to_str().unwrap(), "-x", &format!("{MINE}={name}"), "sleep", "100"]);
    let said = text(&output.stderr);
    assert!(status(&output) == 1 && said.contains("cannot start rank 21"), "{output:?}");
    until("something is left", || marked(&name).is_empty());
    fs::remove_dir_all(&folder).unwrap();
}
