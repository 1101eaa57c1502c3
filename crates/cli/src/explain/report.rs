// SPDX-License-Identifier: MIT OR Apache-2.0
//! The explanation as text for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use bellwire_trace::Kind;
use serde_json::{Value, json};

use super::classes::{self, Calls};
use super::follow::{Class, Connection, Process, Processes};
use super::times::Times;
use super::ways::Way;
use crate::trace::show;

/// Fewer requests than this are no reason for advice.
const FEW: u64 = 10;
/// The reasons with which connections and links end when all is well.
const USUAL_ENDS: [&str; 2] = ["the peer disconnected", "the peer closed its NIC"];

pub(super) fn operation(connection: &Connection, number: u64) -> String {
    if connection.is_pair { show::field(Kind::PostSend, 2, number) } else { show::field(Kind::Posted, 2, number) }
}

/// The sizes of a class, in words.
pub fn size(most: u64) -> String {
    match most {
        u64::MAX => "over 1 MiB".to_owned(),
        most if most >= 1 << 20 => format!("to {} MiB", most >> 20),
        most if most >= 1 << 10 => format!("to {} KiB", most >> 10),
        most => format!("to {most} B"),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn microseconds(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{:.2}", ns as f64 / 1e3),
        10_000..1_000_000 => format!("{:.1}", ns as f64 / 1e3),
        _ => format!("{:.0}", ns as f64 / 1e3),
    }
}

/// Half of them, 99 of 100, and the longest.
fn times(times: &Times) -> [String; 3] {
    if times.count() == 0 {
        return ["-", "-", "-"].map(str::to_owned);
    }
    [times.percentile(50), times.percentile(99), times.most()].map(microseconds)
}

fn ways(class: &Class) -> String {
    let ways: Vec<String> = Way::ALL
        .iter()
        .filter_map(|way| {
            class
                .ways
                .get(way)
                .filter(|count| **count != 0)
                .map(|count| if *count == class.requests { way.name().to_owned() } else { format!("{count} {}", way.name()) })
        })
        .collect();
    ways.join(", ")
}

/// What the requests of a class waited for, the most frequent first.
fn waited_for(class: &Class) -> String {
    let mut reasons: Vec<(&u64, &&str)> = class.waited_for.iter().map(|(reason, count)| (count, reason)).collect();
    reasons.sort_by(|a, b| b.cmp(a));
    reasons.iter().map(|(count, reason)| format!("{count} for {reason}")).collect::<Vec<_>>().join(", ")
}

/// Whether a layer above virtual interfaces tells of its messages itself.
fn has_layer(process: &Process) -> bool {
    !process.pairs.is_empty() || !process.calls.classes.is_empty()
}

/// Whether a virtual interface's messages are to be told.
fn tells_messages(process: &Process, connection: &Connection) -> bool {
    !connection.is_pair && !has_layer(process) && connection.messages.lines + connection.messages.longer != 0
}

/// The connections of a process that have something to tell, by name.
pub(super) fn connections(process: &Process) -> Vec<(String, &Connection)> {
    let has_news = |connection: &&Connection| {
        tells_messages(process, connection) || !connection.classes.is_empty() || connection.received != 0 || !connection.broke.is_empty()
    };
    let pairs = process.pairs.iter().filter(|(_, pair)| has_news(pair)).map(|(number, pair)| (format!("queue pair {number:#x}"), pair));
    // Those of a process with queue pairs that post nothing carry their messages.
    let beneath = |connection: &Connection| has_layer(process) && connection.classes.is_empty();
    let vis = process
        .vis
        .iter()
        .filter(|(_, connection)| !beneath(connection) && has_news(connection))
        .map(|(vi, connection)| (format!("virtual interface {vi:#x}"), connection));
    pairs.chain(vis).collect()
}

/// The link that a connection uses, if that was seen.
fn link_of<'p>(process: &'p Process, name: &str, connection: &Connection) -> Option<&'p super::follow::Link> {
    let vi = connection.vi.or_else(|| u32::from_str_radix(name.strip_prefix("virtual interface 0x")?, 16).ok());
    let by_vi = vi.and_then(|vi| process.vi_links.get(&vi)).and_then(|link| process.links.get(link));
    // A process with one link has no other way.
    by_vi.or_else(|| process.links.values().next().filter(|_| process.links.len() == 1))
}

fn route(process: &Process, name: &str, connection: &Connection) -> String {
    match link_of(process, name, connection) {
        None => "no link was seen".to_owned(),
        Some(link) => {
            let peer = if link.peer == 0 { String::new() } else { format!("to process {} ", link.peer) };
            let mapped = if link.is_mapped { ", so its memory can be mapped" } else { "" };
            format!("{peer}{}{mapped}", link.why)
        }
    }
}

/// Sentences that say how it would be faster, or well.
fn advice(process: &Process) -> Vec<String> {
    let mut advice = Vec::new();
    for (name, connection) in connections(process) {
        let link = link_of(process, &name, connection);
        if connection.not_ready_of(process) >= FEW || connection.again >= FEW {
            advice.push(format!(
                "{name}: {} times a message found no receive and left again: the receiver should post receives before they are needed, and more of them",
                connection.again.max(connection.not_ready_of(process))
            ));
        }
        for ((number, most), class) in &connection.classes {
            let what = format!("{name}, {} {}", operation(connection, *number), size(*most));
            let waited = class.waits.count();
            if waited >= FEW && waited * 10 >= class.requests {
                advice.push(format!(
                    "{what}: {waited} of {} had to wait, half of them for {} us or more ({}): they are posted faster than they are taken",
                    class.requests,
                    microseconds(class.waits.percentile(50)),
                    waited_for(class)
                ));
            }
            let reaches = connection.is_pair && matches!(number, 0 | 4..=6);
            let copied = [Way::Line, Way::Copied].iter().filter_map(|way| class.ways.get(way)).sum::<u64>();
            if reaches && copied >= FEW && copied * 10 >= class.requests && link.is_some_and(|link| link.is_mapped) {
                advice.push(format!(
                    "{what}: {copied} of {} were served by the peer, though its memory can be mapped: the first of each registration are; if most are, its memory could not be exchanged for shared memory (whole pages, private, not pinned: bellwire-verbs(7))",
                    class.requests
                ));
            }
            let failed: u64 = class.failed.values().sum();
            if failed != 0 {
                let statuses: Vec<String> =
                    class.failed.iter().map(|(status, count)| format!("{count} {}", show::field(Kind::WorkCompletion, 1, *status))).collect();
                advice.push(format!("{what}: {failed} failed ({})", statuses.join(", ")));
            }
        }
        if !connection.broke.is_empty() && !USUAL_ENDS.contains(&connection.broke.as_str()) {
            advice.push(format!("{name}: its connection broke: {}", connection.broke));
        }
    }
    advice.extend(advice_of_calls(process));
    for link in process.links.values() {
        if !link.lost.is_empty() && !USUAL_ENDS.contains(&link.lost.as_str()) {
            advice.push(format!("the link to process {} failed: {}", link.peer, link.lost));
        }
        let [sent, again, _] = link.packets;
        if again >= FEW && again * 50 >= sent {
            advice.push(format!(
                "{again} of {sent} packets were sent again: the network loses packets, or a receiver's socket buffer is too small (bellwire info)"
            ));
        }
    }
    advice
}

impl Connection {
    /// Messages that found no receive, on its virtual interface if it has one beneath.
    fn not_ready_of(&self, process: &Process) -> u64 {
        self.vi.and_then(|vi| process.vis.get(&vi)).map_or(0, |vi| vi.not_ready) + self.not_ready
    }
}

/// For people.
pub fn text(processes: &Processes) -> String {
    let mut out = String::new();
    for ((_, pid), process) in &processes.all {
        let connections = connections(process);
        if connections.is_empty() && process.calls.classes.is_empty() {
            continue;
        }
        // Writing to a string does not fail.
        let _ = writeln!(out, "{} (process {pid} on {})", process.program, process.host);
        for (name, connection) in connections {
            let _ = writeln!(out, "  {name}: {}", route(process, &name, connection));
            let mut rows = vec![["operation", "size", "requests", "bytes", "way", "half [us]", "99 %", "most", "call [us]"].map(str::to_owned).to_vec()];
            for ((number, most), class) in &connection.classes {
                let [half, most_of, longest] = times(&class.completions);
                let call = times(&class.calls)[0].clone();
                rows.push(vec![
                    operation(connection, *number),
                    size(*most),
                    class.requests.to_string(),
                    bytes(class.bytes),
                    ways(class),
                    half,
                    most_of,
                    longest,
                    call,
                ]);
            }
            if rows.len() > 1 {
                for line in bellwire_report::text::align(&rows).lines() {
                    let _ = writeln!(out, "    {line}");
                }
            }
            let messages = &connection.messages;
            if tells_messages(process, connection) {
                let [half, most_of, longest] = times(&messages.answers);
                let _ = writeln!(
                    out,
                    "    messages: {} of one line, {} longer with {}; until the peer's next message half {half} us, 99 % {most_of}, most {longest}",
                    messages.lines,
                    messages.longer,
                    bytes(messages.longer_bytes)
                );
            }
            if connection.received != 0 {
                let _ = writeln!(out, "    received: {} messages, {}", connection.received, bytes(connection.received_bytes));
            }
        }
        write_calls(&mut out, &process.calls.classes);
        if process.empty_polls != 0 {
            let _ = writeln!(out, "  polls: {} found something, {} did not", process.polls, process.empty_polls);
        }
        for line in advice(process) {
            let _ = writeln!(out, "  ! {line}");
        }
    }
    if out.is_empty() {
        out.push_str("no request was seen: the program used no library of Bellwire's while it was watched\n");
    } else {
        out.push_str("Times from the post of a request until the program had its completion, if it asked for one; call: the post itself, half of them.\n");
    }
    out
}

/// The calls of layers above, by connections.
fn write_calls(out: &mut String, classes: &BTreeMap<classes::Class, Calls>) {
    let head = ["operation", "size", "calls", "bytes", "way", "half [us]", "99 %", "most", "call [us]", "99 %", "refused"].map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    let mut all = classes.iter().peekable();
    while let Some((class, calls)) = all.next() {
        if rows.is_empty() {
            let _ = writeln!(out, "  {}:", class.connection);
            rows.push(head.clone());
        }
        let ([half, most_of, longest], [call, call_most, _]) = (times(&calls.completions), times(&calls.calls));
        let shown = Class { requests: calls.count, ways: calls.ways.clone(), ..Class::default() };
        let counts = [calls.count.to_string(), if class.most.is_some() { bytes(calls.bytes) } else { "-".to_owned() }, ways(&shown)];
        let sizes = class.most.map_or_else(|| "-".to_owned(), size);
        rows.push(
            [class.operation.clone(), sizes].into_iter().chain(counts).chain([half, most_of, longest, call, call_most, calls.refused.to_string()]).collect(),
        );
        if all.peek().is_none_or(|(next, _)| next.connection != class.connection) {
            for line in bellwire_report::text::align(&rows).lines() {
                let _ = writeln!(out, "    {line}");
            }
            rows.clear();
        }
    }
}

/// Their advice.
fn advice_of_calls(process: &Process) -> Vec<String> {
    let mut advice = Vec::new();
    for (class, calls) in &process.calls.classes {
        let what = format!("{}, {}", class.connection, class.operation);
        if calls.refused >= FEW && calls.refused * 10 >= calls.count {
            advice.push(format!("{what}: {} calls found no room and were to be made again: the program posts faster than its peer takes", calls.refused));
        }
        if calls.failed != 0 {
            advice.push(format!("{what}: {} of {} failed", calls.failed, calls.count));
        }
    }
    advice
}

fn times_of(times: &Times) -> Value {
    if times.count() == 0 {
        return Value::Null;
    }
    json!({ "count": times.count(), "p50": times.percentile(50), "p90": times.percentile(90), "p99": times.percentile(99), "max": times.most() })
}

/// For programs.
pub fn json(processes: &Processes) -> String {
    let of_class = |connection: &Connection, ((number, most), class): (&(u64, u64), &Class)| {
        let ways: serde_json::Map<String, Value> =
            class.ways.iter().filter(|(_, count)| **count != 0).map(|(way, count)| (way.name().to_owned(), json!(count))).collect();
        let failed: serde_json::Map<String, Value> =
            class.failed.iter().map(|(status, count)| (show::field(Kind::WorkCompletion, 1, *status), json!(count))).collect();
        json!({
            "operation": operation(connection, *number),
            "bytes_at_most": if *most == u64::MAX { Value::Null } else { json!(most) },
            "requests": class.requests,
            "bytes": class.bytes,
            "ways": ways,
            "failed": failed,
            "call_ns": times_of(&class.calls),
            "completion_ns": times_of(&class.completions),
            "waited_ns": times_of(&class.waits),
            "waited_for": class.waited_for,
        })
    };
    let of_calls = |(class, calls): (&classes::Class, &Calls)| {
        let ways: serde_json::Map<String, Value> = calls.ways.iter().map(|(way, count)| (way.name().to_owned(), json!(count))).collect();
        json!({
            "connection": class.connection,
            "operation": class.operation,
            "bytes_at_most": class.most.filter(|most| *most != u64::MAX),
            "calls": calls.count,
            "bytes": calls.bytes,
            "ways": ways,
            "refused": calls.refused,
            "failed": calls.failed,
            "call_ns": times_of(&calls.calls),
            "completion_ns": times_of(&calls.completions),
        })
    };
    let of_process = |((host, pid), process): (&(String, u32), &Process)| {
        let connections: Vec<Value> = connections(process)
            .into_iter()
            .map(|(name, connection)| {
                let classes: Vec<Value> = connection.classes.iter().map(|class| of_class(connection, class)).collect();
                json!({
                    "connection": name,
                    "route": route(process, &name, connection),
                    "requests": classes,
                    "received": connection.received,
                    "received_bytes": connection.received_bytes,
                    "sent_again": connection.again,
                    "receiver_not_ready": connection.not_ready_of(process),
                    "broke": connection.broke,
                    "messages": if tells_messages(process, connection) {
                        let messages = &connection.messages;
                        json!({ "of_one_line": messages.lines, "longer": messages.longer, "longer_bytes": messages.longer_bytes, "answer_ns": times_of(&messages.answers) })
                    } else {
                        Value::Null
                    },
                })
            })
            .collect();
        let calls: Vec<Value> = process.calls.classes.iter().map(of_calls).collect();
        json!({ "host": host, "pid": pid, "program": process.program, "connections": connections, "calls": calls, "polls": process.polls, "empty_polls": process.empty_polls, "advice": advice(process) })
    };
    let all: Vec<Value> = processes.all.iter().map(of_process).collect();
    format!("{:#}\n", json!({ "format": 1, "processes": all }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_words() {
        assert_eq!([64, 1 << 10, 8 << 10, 1 << 20, u64::MAX].map(size), ["to 64 B", "to 1 KiB", "to 8 KiB", "to 1 MiB", "over 1 MiB"]);
        assert_eq!([9999, 10_000, 20_000_000, 30_000_000_000].map(bytes), ["9999 B", "10 kB", "20 MB", "30.0 GB"]);
        assert_eq!([1234, 12_345, 12_345_678].map(microseconds), ["1.23", "12.3", "12346"]);
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        assert!(text(&Processes::default()).starts_with("no request was seen"));
        assert!(json(&Processes::default()).contains("\"processes\": []"));
    }
}
