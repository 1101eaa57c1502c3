// SPDX-License-Identifier: MIT OR Apache-2.0
//! One look as text: a line per NIC, below it its VIs, the busiest first.

use std::cmp::Ordering;
use std::fmt::Write;

use bellwire_inspect::stat::{Cq, Link, Nic, Vi};

use super::Sort;
use super::model::{AgentRow, NicRow, Rates, Snapshot, WaitRates};
use crate::explain::report::size;
use crate::explain::sample::Requests;

/// Counters that have a column or a place of their own, and those that describe rather than count.
const SHOWN: [&str; 5] = ["direct", "posted_sends", "posted_receives", "dropped", "receiver_not_ready"];

/// A table; cut to `size` (columns, rows) if given.
pub fn table(snapshot: &Snapshot, sort: Sort, size: Option<(usize, usize)>) -> String {
    let mut lines = vec![heading(snapshot, sort)];
    for (row, order) in ordered(snapshot, sort) {
        lines.push(String::new());
        lines.push(nic_line(row));
        if !row.nic.vis.is_empty() {
            lines.push(VI_HEADING.to_owned());
        }
        lines.extend(order.iter().map(|&index| vi_line(&row.nic.vis[index], &row.vi_rates[index])));
        if row.nic.vis_left_out > 0 {
            lines.push(format!("    and {} more", row.nic.vis_left_out));
        }
        lines.extend(row.nic.links.iter().map(link_line));
        lines.extend(row.nic.lost.iter().map(lost_line));
        if row.nic.others.get("links_left_out").is_some_and(|left| *left > 0) {
            lines.push(format!("    and {} more links", row.nic.others["links_left_out"]));
        }
        lines.extend(row.nic.cqs.iter().zip(&row.cq_rates).filter_map(|(cq, rates)| cq_line(cq, rates)));
        if row.nic.cqs_left_out > 0 {
            lines.push(format!("    and {} more completion queues", row.nic.cqs_left_out));
        }
    }
    lines.extend(request_lines(&snapshot.requests));
    for row in &snapshot.agents {
        lines.push(String::new());
        lines.extend(agent_lines(row));
    }
    for silent in &snapshot.silent {
        lines.push(format!("silent: {silent}"));
    }
    if snapshot.nics.is_empty() && snapshot.silent.is_empty() {
        lines.push("no NIC is open".to_owned());
    }
    if let Some((columns, rows)) = size {
        lines.truncate(rows);
        for line in &mut lines {
            *line = line.chars().take(columns).collect();
        }
    }
    lines.join("\n") + "\n"
}

/// One JSON object on one line.
pub fn json(snapshot: &Snapshot, sort: Sort) -> String {
    let nics: Vec<&NicRow> = ordered(snapshot, sort).into_iter().map(|(row, _)| row).collect();
    let value = serde_json::json!({ "format": 1, "seconds": snapshot.seconds, "nics": nics, "agents": snapshot.agents, "requests": snapshot.requests, "silent": snapshot.silent });
    value.to_string() + "\n"
}

fn heading(snapshot: &Snapshot, sort: Sort) -> String {
    let column = match sort {
        Sort::Messages => "messages/s",
        Sort::Bytes => "bytes/s",
        Sort::Process => "process",
    };
    let total = snapshot.nics.iter().fold((0.0, 0.0), |(messages, bytes), row| (messages + row.rates.messages(), bytes + row.rates.bytes()));
    format!("bellwire top  {} NICs  {} msg/s  {} B/s  by {column}", snapshot.nics.len(), short(total.0), short(total.1))
}

/// NICs and, of each, the numbers of its VIs, in order.
fn ordered(snapshot: &Snapshot, sort: Sort) -> Vec<(&NicRow, Vec<usize>)> {
    let by = |a: &Rates, b: &Rates| match sort {
        Sort::Messages => b.messages().total_cmp(&a.messages()),
        Sort::Bytes => b.bytes().total_cmp(&a.bytes()),
        Sort::Process => Ordering::Equal,
    };
    let mut rows: Vec<&NicRow> = snapshot.nics.iter().collect();
    rows.sort_by(|a, b| by(&a.rates, &b.rates).then((a.nic.pid, a.nic.nic).cmp(&(b.nic.pid, b.nic.nic))));
    let order = |row: &NicRow| {
        let mut order: Vec<usize> = (0..row.nic.vis.len()).collect();
        order.sort_by(|&a, &b| by(&row.vi_rates[a], &row.vi_rates[b]).then(a.cmp(&b)));
        order
    };
    rows.into_iter().map(|row| (row, order(row))).collect()
}

/// The requests of a moment: how long they took.
fn request_lines(requests: &[Requests]) -> Vec<String> {
    if requests.is_empty() {
        return Vec::new();
    }
    let heading = format!(
        "{:>10} {:<16} {:<44} {:<20} {:<11} {:>8} {:>9} {:>9} {:>9}",
        "process", "requests of", "connection", "operation", "size", "seen", "half", "99 %", "most"
    );
    let line = |of: &Requests| {
        let sizes = of.size.map_or_else(|| "-".to_owned(), size);
        let [half, most, longest] = [of.p50_ns, of.p99_ns, of.most_ns].map(time);
        format!(
            "{:>10} {:<16} {:<44} {:<20} {sizes:<11} {:>8} {half:>9} {most:>9} {longest:>9}",
            of.pid,
            of.program,
            of.connection,
            of.operation,
            short(of.seen as f64)
        )
    };
    [String::new(), heading].into_iter().chain(requests.iter().map(line)).collect()
}

/// The agent, and its users with most endpoints.
fn agent_lines(row: &AgentRow) -> Vec<String> {
    const USERS_SHOWN: usize = 8;
    let a = &row.agent;
    let mut lines = vec![format!(
        "agent {}  {} endpoints, {} of {} frames in use, {} wait  {} networks  {} packets/s  {} faults/s  {} loads/s  {} refused, {} broken",
        a.address,
        a.endpoints,
        a.resident,
        a.frames,
        a.waiting,
        a.networks,
        short(row.packets),
        short(row.faults),
        short(row.loads),
        a.refused,
        a.broken
    )];
    if !a.users.is_empty() {
        lines.push(format!("    {:>10}  {:>9}  {:>6}  {:>10}", "user", "endpoints", "frames", "packets"));
    }
    lines.extend(a.users.iter().take(USERS_SHOWN).map(|u| format!("    {:>10}  {:>9}  {:>6}  {:>10}", u.uid, u.endpoints, u.frames, short(u.packets as f64))));
    let left_out = a.users_in_all.max(a.users.len() as u64).saturating_sub(USERS_SHOWN as u64);
    if left_out > 0 {
        lines.push(format!("    and {left_out} more users"));
    }
    lines
}

fn nic_line(row: &NicRow) -> String {
    let Nic { pid, nic, program, mode, host, wires, uptime_ms, links, .. } = &row.nic;
    let connected = row.nic.vis.iter().filter(|vi| vi.state == "connected").count();
    let mut line = format!(
        "{pid} {program}  NIC {nic} {host} {wires} {mode}  up {}  {} links, {} of {} VIs connected  {} msg/s  {} B/s  sleeps {}/s",
        duration(*uptime_ms),
        links.len(),
        connected,
        row.nic.vis.len() as u64 + row.nic.vis_left_out,
        short(row.rates.messages()),
        short(row.rates.bytes()),
        short(row.sleeps),
    );
    for (key, value) in row.nic.others.iter().filter(|(key, _)| matches!(key.as_str(), "regions" | "registered_bytes" | "allocated_bytes")) {
        let _ = write!(line, "  {} {}", key.replace("_bytes", ""), if key.ends_with("bytes") { short(*value as f64) + " B" } else { value.to_string() });
    }
    line
}

/// The other end of a link, in words.
fn peer_of(link: &Link) -> String {
    match link.others.get("loopback") {
        Some(1..) => "itself".to_owned(),
        _ if link.address.is_empty() => format!("process {}", link.peer_pid),
        _ => link.address.clone(),
    }
}

/// A link that failed, and why.
fn lost_line(link: &Link) -> String {
    let ago = duration(link.others.get("ago_ms").copied().unwrap_or(0));
    format!("    lost {:<5} {} to {}, {ago} ago: {}", link.link, link.wire, peer_of(link), link.why)
}

/// Which wire, why, and how a path of packets goes.
fn link_line(link: &Link) -> String {
    let figure = |key: &str| link.others.get(key).copied().unwrap_or(0);
    let time = |key: &str| time(figure(key));
    let mut line = format!("    link {:<5} {} to {} ({})", link.link, link.wire, peer_of(link), link.why);
    if !link.address.is_empty() {
        let (rtt, rtt_min) = (time("rtt_ns"), time("rtt_min_ns"));
        let _ = write!(
            line,
            ": {} B datagrams, RTT {rtt} (least {rtt_min}), window {}, {} in flight",
            figure("datagram_bytes"),
            figure("window"),
            figure("in_flight")
        );
        let count = |key: &str| short(figure(key) as f64);
        let _ = write!(line, ", packets {} out {} in, {} resent, {} lost", count("packets_out"), count("packets_in"), count("resent"), count("lost"));
    }
    line
}

const VI_HEADING: &str = "    VI         state        peer     out msg/s    out B/s   in msg/s     in B/s   direct  posted s/r   RNR   waits/s  asleep waiting    half    99 %  other counters";

fn vi_line(vi: &Vi, rates: &Rates) -> String {
    let counter = |key: &str| vi.others.get(key).copied().unwrap_or(0);
    // A share of the messages. RDMA writes are no messages: if there are more, their number.
    let direct = match (counter("direct"), vi.sent) {
        (0, 0) => "-".to_owned(),
        (direct, sent) if direct > sent => short(direct as f64),
        (direct, sent) => format!("{:.0} %", 100.0 * direct as f64 / sent as f64),
    };
    let peer = if vi.peer_pid == 0 { "-".to_owned() } else { vi.peer_pid.to_string() };
    let posted = format!("{}/{}", counter("posted_sends"), counter("posted_receives"));
    let mut line = format!(
        "    {:<10} {:<11} {peer:>7}  {:>10} {:>10} {:>10} {:>10}  {direct:>7}  {posted:>10} {:>5}  {}",
        vi.vi,
        vi.state,
        short(rates.sent),
        short(rates.sent_bytes),
        short(rates.received),
        short(rates.received_bytes),
        short(counter("receiver_not_ready") as f64),
        waits(&rates.waits, vi.waits.waiting),
    );
    for (key, value) in vi.others.iter().filter(|(key, value)| **value > 0 && (!SHOWN.contains(&key.as_str()) || key.as_str() == "dropped")) {
        let _ = write!(line, "  {key} {value}");
    }
    if !vi.broke.is_empty() {
        let _ = write!(line, "  broke: {}", vi.broke);
    }
    line
}

/// Waits a second, the share of them that slept, the share of the time that a thread waited, with
/// the number of those who wait now, if any do; and how long half of them took at most, and 99 of
/// 100.
fn waits(rates: &WaitRates, now: u64) -> String {
    let asleep = if rates.waits > 0.0 { format!("{:.0} %", 100.0 * rates.waits_slept / rates.waits) } else { "-".to_owned() };
    let time = format!("{:.0} %", 100.0 * rates.waited);
    let [half, most] = [rates.wait_p50_ns, rates.wait_p99_ns].map(|ns| ns.map_or_else(|| "-".to_owned(), |ns| format!("{}s", short(ns as f64 / 1e9))));
    format!("{:>8} {asleep:>7} {:>7} {half:>7} {most:>7}", short(rates.waits), if now > 1 { format!("{now}: {time}") } else { time })
}

/// Only of queues that somebody waits for.
fn cq_line(cq: &Cq, rates: &WaitRates) -> Option<String> {
    if cq.waits.waits == 0 && cq.waits.waiting == 0 {
        return None;
    }
    let entries = cq.others.get("entries").copied().unwrap_or(0);
    let text = format!("completion queue, {entries} entries");
    // Under the same columns.
    Some(format!("    {:<10} {text:<width$}{}", cq.cq, waits(rates, cq.waits.waiting), width = WAITS_COLUMN - 15))
}

/// Where the columns of waits begin.
const WAITS_COLUMN: usize = 108;

/// Three digits and a unit's prefix.
fn short(value: f64) -> String {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = value;
    let mut index = 0;
    while value >= 999.5 && index + 1 < PREFIXES.len() {
        value /= 1000.0;
        index += 1;
    }
    let digits = match value {
        value if index == 0 && value.fract() == 0.0 => 0,
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    let prefix = PREFIXES[index];
    if prefix.is_empty() { format!("{value:.digits$}") } else { format!("{value:.digits$} {prefix}") }
}

/// A short time; unknown if zero.
fn time(ns: u64) -> String {
    match ns as f64 {
        0.0 => "-".to_owned(),
        ns if ns < 999.5 => short(ns) + " ns",
        ns if ns < 999.5e3 => short(ns / 1e3) + " us",
        ns if ns < 999.5e6 => short(ns / 1e6) + " ms",
        ns => short(ns / 1e9) + " s",
    }
}

fn duration(ms: u64) -> String {
    match ms / 1000 {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds if seconds < 7200 => format!("{} min", seconds / 60),
        seconds if seconds < 172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwire_inspect::stat::Waits;

    fn snapshot() -> Snapshot {
        let vi = |name: &str, sent| Vi {
            vi: name.to_owned(),
            state: "connected".to_owned(),
            sent,
            others: [("direct".to_owned(), sent / 2), ("odd".to_owned(), 3)].into(),
            ..Vi::default()
        };
        let rates = |sent| Rates { sent, ..Rates::default() };
        let row = |pid, vis: Vec<Vi>, vi_rates: Vec<Rates>| NicRow {
            rates: vi_rates[0],
            nic: Nic { pid, vis, ..Nic::default() },
            vi_rates,
            cq_rates: vec![],
            sleeps: 0.0,
        };
        let slow = row(5, vec![vi("0.1", 10)], vec![rates(1.0)]);
        let busy = row(9, vec![vi("0.1", 10), vi("0.2", 4000)], vec![rates(100.0), rates(2.5e6)]);
        Snapshot { nics: vec![slow, busy], silent: vec!["process 7".to_owned()], seconds: 1.0, ..Snapshot::default() }
    }

    #[test]
    fn an_agent_has_its_users_below() {
        use bellwire_inspect::agent::{Status, User};
        let users = (0..12).map(|uid| User { uid, endpoints: 3, frames: 1, packets: 4000 }).collect();
        let agent =
            Status { address: "10.0.0.5:7120".to_owned(), frames: 8, resident: 7, waiting: 2, endpoints: 36, users_in_all: 300, users, ..Status::default() };
        let row = AgentRow { agent, packets: 2500.0, faults: 3.0, loads: 4.0 };
        let lines = agent_lines(&row);
        assert!(lines[0].starts_with("agent 10.0.0.5:7120  36 endpoints, 7 of 8 frames in use, 2 wait") && lines[0].contains("2.50 k packets/s"), "{lines:?}");
        assert_eq!((lines.len(), lines[10].as_str()), (11, "    and 292 more users"));
        let text = table(&Snapshot { agents: vec![row], ..snapshot() }, Sort::Messages, None);
        assert!(text.contains("agent 10.0.0.5:7120"), "{text}");
    }

    #[test]
    fn requests_have_their_times() {
        let requests =
            |size, p50_ns| Requests { pid: 9, connection: "queue pair 0x7".to_owned(), operation: "SEND".to_owned(), size, p50_ns, ..Requests::default() };
        let text = table(&Snapshot { requests: vec![requests(Some(64), 310), requests(None, 2_500_000)], ..snapshot() }, Sort::Messages, None);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("queue pair")).collect();
        assert!(lines.len() == 2 && lines[0].contains("to 64 B") && lines[0].contains(" 310 ns") && lines[1].contains(" 2.50 ms"), "{text}");
        assert!(!table(&snapshot(), Sort::Messages, None).contains("requests"));
    }

    #[test]
    fn the_busiest_come_first() {
        let text = table(&snapshot(), Sort::Messages, None);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
        assert!(at("9 ") < at("\n5 ") && at("0.2 ") < at("0.1 "), "{text}");
        assert!(text.contains("2.50 M") && text.contains("50 %") && text.contains("odd 3") && text.contains("silent: process 7"), "{text}");
        let text = table(&snapshot(), Sort::Process, None);
        assert!(text.find("\n5 ").unwrap() < text.find("\n9 ").unwrap());
    }

    #[test]
    fn writes_are_counted_where_they_are_no_share() {
        let writes = |sent| Vi { sent, others: [("direct".to_owned(), 2_500_000)].into(), ..Vi::default() };
        for sent in [0, 45] {
            let line = vi_line(&writes(sent), &Rates::default());
            assert!(line.contains(" 2.50 M ") && !line[..WAITS_COLUMN].contains('%'), "{line}");
        }
    }

    #[test]
    fn waits_have_columns() {
        let mut snapshot = snapshot();
        let row = &mut snapshot.nics[1];
        let rates = WaitRates { waits: 40.0, waits_slept: 10.0, waited: 0.95, wait_p50_ns: Some(4096), wait_p99_ns: Some(1 << 20), ..WaitRates::default() };
        row.vi_rates[0].waits = rates;
        let cq = |name: &str, waits, waiting| Cq { cq: name.to_owned(), waits: Waits { waits, waiting, ..Waits::default() }, ..Cq::default() };
        row.nic.cqs = vec![cq("0.7", 0, 3), cq("0.8", 0, 0)];
        row.cq_rates = vec![WaitRates { waited: 2.0, ..WaitRates::default() }, WaitRates::default()];
        let text = table(&snapshot, Sort::Messages, None);
        let ends = |line: &str, what: &str| line.find(what).map(|at| at + what.len()).unwrap_or_else(|| panic!("{what} in {line}"));
        let line = |what: &str| text.lines().find(|line| line.trim_start().starts_with(what)).unwrap_or_else(|| panic!("{what} in {text}"));
        let (heading, vi, queue) = (line("VI "), text.lines().find(|l| l.contains("25 %")).expect("its waits"), line("0.7"));
        assert_eq!((ends(heading, "waits/s"), ends(heading, "asleep"), ends(heading, " waiting")), (ends(vi, " 40"), ends(vi, "25 %"), ends(vi, "95 %")));
        assert_eq!(ends(heading, " waiting"), ends(queue, "200 %") - 1, "3: 200 % needs one more: {text}");
        assert!(queue.contains("completion queue, 0 entries") && queue.contains("3: 200 %") && !text.contains("0.8"), "{text}");
    }

    #[test]
    fn links_say_their_wire_and_why() {
        let mut snapshot = snapshot();
        let figures = [("datagram_bytes", 1472), ("rtt_ns", 45_300), ("window", 64), ("packets_out", 12_000), ("resent", 3), ("lost", 2)];
        let link = |wire: &str, address: &str, figures: &[(&str, u64)]| Link {
            link: "0.1".to_owned(),
            peer_pid: 77,
            wire: wire.to_owned(),
            why: "so".to_owned(),
            address: address.to_owned(),
            others: figures.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
        };
        snapshot.nics[0].nic.links = vec![link("udp", "[fe80::1%2]:4791", &figures), link("shm", "", &[]), link("shm", "", &[("loopback", 1)])];
        let text = table(&snapshot, Sort::Messages, None);
        let udp = "udp to [fe80::1%2]:4791 (so): 1472 B datagrams, RTT 45.3 us (least -), window 64, 0 in flight, packets 12.0 k out 0 in, 3 resent, 2 lost";
        assert!(text.contains(udp) && text.contains("shm to process 77 (so)\n") && text.contains("shm to itself (so)\n"), "{text}");
    }

    #[test]
    fn what_broke_says_why() {
        let mut snapshot = snapshot();
        let nic = &mut snapshot.nics[0].nic;
        nic.vis[0].broke = "the peer closed its NIC".to_owned();
        let others = [("ago_ms".to_owned(), 5000)].into();
        nic.lost =
            vec![Link { link: "0.3".to_owned(), peer_pid: 81, wire: "shm".to_owned(), why: "the peer process exited".to_owned(), others, ..Link::default() }];
        let text = table(&snapshot, Sort::Messages, None);
        assert!(text.contains("  broke: the peer closed its NIC\n"), "{text}");
        assert!(text.contains("    lost 0.3   shm to process 81, 5 s ago: the peer process exited\n"), "{text}");
    }

    #[test]
    fn a_screen_is_not_overrun() {
        let text = table(&snapshot(), Sort::Messages, Some((20, 4)));
        assert_eq!(text.lines().count(), 4);
        assert!(text.lines().all(|line| line.chars().count() <= 20));
    }

    #[test]
    fn programs_get_one_line() {
        let text = json(&snapshot(), Sort::Bytes);
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["nics"].as_array().map(Vec::len), Some(2));
        assert_eq!(value["nics"][1]["vi_rates"][1]["sent"].as_f64(), Some(2.5e6));
    }

    #[test]
    fn numbers_and_times() {
        assert_eq!([0.0, 7.0, 1.5, 999.0, 1000.0, 25_400_000.0].map(short), ["0", "7", "1.50", "999", "1.00 k", "25.4 M"]);
        assert_eq!([1500, 600_000, 9_000_000, 500_000_000].map(duration), ["1 s", "10 min", "2 h", "5 d"]);
        assert_eq!([0, 999, 1000, 12_340_000, 2_000_000_000].map(time), ["-", "999 ns", "1 us", "12.3 ms", "2 s"]);
    }
}
