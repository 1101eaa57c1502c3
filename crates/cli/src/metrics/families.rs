// SPDX-License-Identifier: MIT OR Apache-2.0
//! The families of metrics, and the samples of a look. A NIC is named by its process and its number
//! in it; a virtual interface by its name in the NIC, which no later one has.

use std::collections::BTreeMap;

use bellwire_inspect::agent::Status;
use bellwire_inspect::stat::answer::wait_class_ends;
use bellwire_inspect::stat::{Link, Nic, Vi, Waits};

use super::exposition::{Exposition, Family, Labels, Type};
use crate::explain::sample::Requests;
use crate::top::model::Snapshot;

const fn counter(name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind: Type::Counter }
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind: Type::Gauge }
}

const fn histogram(name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind: Type::Histogram }
}

/// Waits by their times; of those that were over within some looks one in a few is timed for the
/// others.
fn times(to: &mut Exposition, labels: &Labels<'_>, waits: &Waits) {
    if waits.waits != 0 {
        let counts = waits.wait_times.iter().enumerate().map(|(class, count)| (wait_class_ends(class).map(|ns| ns as f64 / 1e9), *count));
        to.histogram(labels, counts, waits.waited_us as f64 / 1e6);
    }
}

fn size_of_class(of: &Requests) -> String {
    of.size.map_or_else(String::new, |most| if most == u64::MAX { "+Inf".to_owned() } else { most.to_string() })
}

fn labels_of<'a>(pid: &'a str, size: &'a str, of: &'a Requests) -> [(&'static str, &'a str); 5] {
    [("pid", pid), ("program", &of.program), ("connection", &of.connection), ("operation", &of.operation), ("bytes_max", size)]
}

/// The quantiles of the times of requests.
fn requests(to: &mut Exposition, of: &Requests) {
    let (pid, size) = (of.pid.to_string(), size_of_class(of));
    for (quantile, ns) in [("0.5", of.p50_ns), ("0.99", of.p99_ns), ("1", of.most_ns)] {
        let labels = [&labels_of(&pid, &size, of)[..], &[("quantile", quantile)]].concat();
        to.sample(&labels, ns as f64 / 1e9);
    }
}

fn other(others: &BTreeMap<String, u64>, name: &str) -> f64 {
    others.get(name).copied().unwrap_or(0) as f64
}

/// A family with how its value is found.
type Of<T> = (Family, fn(&T) -> f64);

const OF_NICS: &[Of<Nic>] = &[
    (gauge("nic_uptime_seconds", "Time since the NIC was opened."), |nic| nic.uptime_ms as f64 / 1e3),
    (gauge("nic_vis", "Virtual interfaces."), |nic| nic.vis.len() as f64 + nic.vis_left_out as f64),
    (gauge("nic_links", "Links to other NICs."), |nic| nic.links.len() as f64 + other(&nic.others, "links_left_out")),
    (counter("nic_links_lost_total", "Links that failed."), |nic| other(&nic.others, "links_lost")),
    (counter("nic_polls_total", "Looks for something new."), |nic| other(&nic.others, "polls")),
    (counter("nic_sleeps_total", "Times that a thread went to sleep."), |nic| other(&nic.others, "sleeps")),
    (counter("nic_wakeups_total", "Times that a sleeping thread was woken."), |nic| other(&nic.others, "wakeups")),
    (gauge("nic_registered_bytes", "Registered memory."), |nic| other(&nic.others, "registered_bytes")),
    (gauge("nic_allocated_bytes", "Memory of the NIC's allocator."), |nic| other(&nic.others, "allocated_bytes")),
];

const OF_VIS: &[Of<Vi>] = &[
    (gauge("vi_connected", "Whether the virtual interface is connected."), |vi| f64::from(u8::from(vi.state == "connected"))),
    (counter("vi_sent_messages_total", "Messages sent."), |vi| vi.sent as f64),
    (counter("vi_sent_bytes_total", "Bytes sent."), |vi| vi.sent_bytes as f64),
    (counter("vi_received_messages_total", "Messages received."), |vi| vi.received as f64),
    (counter("vi_received_bytes_total", "Bytes received."), |vi| vi.received_bytes as f64),
    (counter("vi_direct_requests_total", "Requests done in mapped memory of the peer."), |vi| other(&vi.others, "direct")),
    (counter("vi_attached_requests_total", "Requests whose bytes were copied out of the peer's process."), |vi| other(&vi.others, "attached")),
    (counter("vi_receiver_not_ready_total", "Messages that found no receive."), |vi| other(&vi.others, "receiver_not_ready")),
    (counter("vi_dropped_messages_total", "Messages that were dropped."), |vi| other(&vi.others, "dropped")),
    (counter("vi_errors_total", "Requests that failed."), |vi| other(&vi.others, "errors")),
    (counter("vi_waits_total", "Waits that did not find what they wanted at once."), |vi| vi.waits.waits as f64),
    (counter("vi_slept_waits_total", "Waits that slept."), |vi| vi.waits.waits_slept as f64),
    (counter("vi_wait_seconds_total", "Time of all waits."), |vi| vi.waits.waited_us as f64 / 1e6),
];

const OF_LINKS: &[Of<Link>] = &[
    (counter("link_sent_packets_total", "Packets sent; 0 within a host."), |link| other(&link.others, "packets_out")),
    (counter("link_received_packets_total", "Packets received."), |link| other(&link.others, "packets_in")),
    (counter("link_resent_packets_total", "Packets sent again."), |link| other(&link.others, "resent")),
    (counter("link_lost_packets_total", "Packets that are known to be lost."), |link| other(&link.others, "lost")),
    (gauge("link_round_trip_seconds", "Smoothed time of a round trip of packets."), |link| other(&link.others, "rtt_ns") / 1e9),
];

const OF_AGENTS: &[Of<Status>] = &[
    (gauge("agent_frames", "Endpoints that the host's agent serves at a time."), |agent| agent.frames as f64),
    (gauge("agent_endpoints", "Endpoints that are attached."), |agent| agent.endpoints as f64),
    (gauge("agent_resident_endpoints", "Endpoints that are served now."), |agent| agent.resident as f64),
    (gauge("agent_waiting_endpoints", "Endpoints that wait for a frame."), |agent| agent.waiting as f64),
    (gauge("agent_users", "Users that have endpoints."), |agent| agent.users_in_all as f64),
    (counter("agent_faults_total", "Times that an endpoint wanted to be served and was not."), |agent| agent.faults as f64),
    (counter("agent_loads_total", "Endpoints loaded into frames."), |agent| agent.loads as f64),
    (counter("agent_sent_packets_total", "Packets that endpoints sent."), |agent| agent.packets as f64),
    (counter("agent_dropped_packets_total", "Packets lost since their receiver's ring was full."), |agent| agent.dropped as f64),
    (counter("agent_refused_programs_total", "Programs refused."), |agent| agent.refused as f64),
];

/// The text of a look; `with_vis`: with each virtual interface.
pub fn text(seen: &Snapshot, with_vis: bool) -> String {
    let mut to = Exposition::default();
    let nics: Vec<(String, String, &Nic)> = seen.nics.iter().map(|row| (row.nic.pid.to_string(), row.nic.nic.to_string(), &row.nic)).collect();
    to.family(&gauge("silent_nics", "NICs that did not answer in time."));
    to.sample(&[], seen.silent.len() as f64);
    to.family(&gauge("nic_info", "A NIC of a process of this user."));
    for (pid, number, nic) in &nics {
        to.sample(&[("pid", pid), ("nic", number), ("program", &nic.program), ("mode", &nic.mode), ("wires", &nic.wires), ("host", &nic.host)], 1.0);
    }
    for (family, value) in OF_NICS {
        to.family(family);
        for (pid, number, nic) in &nics {
            to.sample(&[("pid", pid), ("nic", number)], value(nic));
        }
    }
    for (family, value) in OF_VIS.iter().filter(|_| with_vis) {
        to.family(family);
        for (pid, number, nic) in &nics {
            for vi in &nic.vis {
                to.sample(&[("pid", pid), ("nic", number), ("vi", &vi.vi)], value(vi));
            }
        }
    }
    if with_vis {
        to.family(&histogram("vi_wait_duration_seconds", "Times of waits for a virtual interface."));
        for (pid, number, nic) in &nics {
            nic.vis.iter().for_each(|vi| times(&mut to, &[("pid", pid), ("nic", number), ("vi", &vi.vi)], &vi.waits));
        }
    }
    to.family(&histogram("cq_wait_duration_seconds", "Times of waits for a completion queue."));
    for (pid, number, nic) in &nics {
        nic.cqs.iter().for_each(|cq| times(&mut to, &[("pid", pid), ("nic", number), ("cq", &cq.cq)], &cq.waits));
    }
    to.family(&gauge("link_info", "A link to another NIC: its wire, and why it has no better one."));
    for (pid, number, nic) in &nics {
        for link in &nic.links {
            let peer = link.peer_pid.to_string();
            let labels = [
                ("pid", pid.as_str()),
                ("nic", number),
                ("link", &link.link),
                ("wire", &link.wire),
                ("why", &link.why),
                ("peer_pid", &peer),
                ("address", &link.address),
            ];
            to.sample(&labels, 1.0);
        }
    }
    for (family, value) in OF_LINKS {
        to.family(family);
        for (pid, number, nic) in &nics {
            for link in &nic.links {
                to.sample(&[("pid", pid), ("nic", number), ("link", &link.link)], value(link));
            }
        }
    }
    to.family(&gauge("lost_link_age_seconds", "Time since a link failed, of those that failed last, with the reason."));
    for (pid, number, nic) in &nics {
        for link in &nic.lost {
            to.sample(&[("pid", pid), ("nic", number), ("link", &link.link), ("why", &link.why)], other(&link.others, "ago_ms") / 1e3);
        }
    }
    if !seen.requests.is_empty() {
        to.family(&gauge("request_seconds", "Times of requests that were complete in a moment, by quantiles."));
        for of in &seen.requests {
            requests(&mut to, of);
        }
        to.family(&gauge("requests_seen", "Requests that these times are of."));
        for of in &seen.requests {
            to.sample(&labels_of(&of.pid.to_string(), &size_of_class(of), of), of.seen as f64);
        }
    }
    for (family, value) in OF_AGENTS {
        to.family(family);
        for row in &seen.agents {
            to.sample(&[("address", &row.agent.address)], value(&row.agent));
        }
    }
    to.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::model::NicRow;
    use std::collections::BTreeSet;

    fn snapshot() -> Snapshot {
        let link = |why: &str| Link {
            link: "1.1".to_owned(),
            wire: "udp".to_owned(),
            why: why.to_owned(),
            others: BTreeMap::from([("resent".to_owned(), 13), ("ago_ms".to_owned(), 500)]),
            ..Link::default()
        };
        let mut waits = Waits { waits: 3, waited_us: 2, ..Waits::default() };
        waits.wait_times[1] = 3;
        let vi = Vi { vi: "0.1".to_owned(), state: "connected".to_owned(), sent: 7, waits, ..Vi::default() };
        let nic =
            Nic { pid: 5, program: "a \"program\"".to_owned(), vis: vec![vi], links: vec![link("no \\ way")], lost: vec![link("gone")], ..Nic::default() };
        let row = NicRow { nic, rates: Default::default(), vi_rates: Vec::new(), cq_rates: Vec::new(), sleeps: 0.0 };
        let requests = Requests {
            pid: 5,
            connection: "queue pair 0x7".to_owned(),
            operation: "SEND".to_owned(),
            size: Some(64),
            seen: 9,
            p50_ns: 300,
            ..Requests::default()
        };
        Snapshot { nics: vec![row], requests: vec![requests], silent: vec!["x".to_owned()], ..Snapshot::default() }
    }

    /// Each line is a comment or a sample of the family above; names are not used twice.
    #[test]
    fn the_text_is_in_order() {
        let text = text(&snapshot(), true);
        let (mut families, mut last) = (BTreeSet::new(), "");
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(families.insert(name), "{name} twice");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
                last = name;
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let name = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).filter(|name| *name == last).unwrap_or(name);
                assert_eq!(name, last, "{line}");
                assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
            }
        }
        for sample in [
            "bellwire_silent_nics 1",
            "bellwire_vi_sent_messages_total{pid=\"5\",nic=\"0\",vi=\"0.1\"} 7",
            "bellwire_vi_connected{pid=\"5\",nic=\"0\",vi=\"0.1\"} 1",
            "bellwire_vi_wait_duration_seconds_bucket{pid=\"5\",nic=\"0\",vi=\"0.1\",le=\"0.000000256\"} 0",
            "bellwire_vi_wait_duration_seconds_bucket{pid=\"5\",nic=\"0\",vi=\"0.1\",le=\"+Inf\"} 3",
            "bellwire_vi_wait_duration_seconds_sum{pid=\"5\",nic=\"0\",vi=\"0.1\"} 0.000002",
            "bellwire_link_resent_packets_total{pid=\"5\",nic=\"0\",link=\"1.1\"} 13",
            "bellwire_request_seconds{pid=\"5\",program=\"\",connection=\"queue pair 0x7\",operation=\"SEND\",bytes_max=\"64\",quantile=\"0.5\"} 0.0000003",
            "bellwire_requests_seen{pid=\"5\",program=\"\",connection=\"queue pair 0x7\",operation=\"SEND\",bytes_max=\"64\"} 9",
            "bellwire_lost_link_age_seconds{pid=\"5\",nic=\"0\",link=\"1.1\",why=\"gone\"} 0.5",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample} in\n{text}");
        }
        assert!(!super::text(&snapshot(), false).contains("bellwire_vi_"));
    }
}
