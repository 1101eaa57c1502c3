// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processors, clock, kernel and the limits of this process that matter to Bellwire, and those that
//! do not although users expect them to.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::{Fact, Status, bytes_text};
use crate::pin;

/// Descriptors below which many peers may not fit: each takes a handful.
const DESCRIPTORS_COMFORT: u64 = 1024;

/// Adds the facts.
pub(super) fn inspect(facts: &mut Vec<Fact>) {
    let uname = rustix::system::uname();
    let kernel = format!("{} {} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy(), uname.machine().to_string_lossy());
    facts.push(Fact::new("host", "kernel", Status::Plain, kernel, ""));
    processors(facts);
    clock(facts);
    facts.push(descriptors(getrlimit(Resource::Nofile).current));
    facts.push(locked(getrlimit(Resource::Memlock).current));
    facts.push(address_space(getrlimit(Resource::As).current));
}

fn processors(facts: &mut Vec<Fact>) {
    let allowed = pin::allowed();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").map(|text| pin::parse_cpu_list(&text).len()).unwrap_or(allowed.len());
    let value = format!("{} of {online} allowed ({})", allowed.len(), ranges(&allowed));
    facts.push(match allowed.len() {
        0 | 1 => {
            Fact::new("host", "processors", Status::Limited, value, "with one processor a spinning wait keeps the peer from running, so waits sleep at once")
                .advise("give the process two processors (taskset, docker run --cpuset-cpus) for latencies below a microsecond")
        }
        _ => Fact::new("host", "processors", Status::Ok, value, "waits spin for BELLWIRE_SPIN_US, then sleep"),
    });
    if let Some(cpus) = cpu_quota() {
        let fact = Fact::new(
            "host",
            "processor quota",
            Status::Limited,
            format!("{cpus:.2} processors"),
            "a cgroup stops all threads of the group when it is used up; spinning uses it up",
        );
        facts.push(fact.advise("BELLWIRE_SPIN_US=0 where the quota is tight, or cpuset instead of quota (docker run --cpuset-cpus rather than --cpus)"));
    }
}

/// Processors that the own cgroup may use in the mean; nothing without a quota. Only the version 2
/// file, as containers see it.
fn cpu_quota() -> Option<f64> {
    parse_cpu_max(&fs::read_to_string("/sys/fs/cgroup/cpu.max").ok()?)
}

fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut fields = text.split_whitespace();
    let quota: f64 = fields.next()?.parse().ok()?;
    let period: f64 = fields.next()?.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

fn clock(facts: &mut Vec<Fact>) {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").map(|text| text.trim().to_owned());
    let start = std::time::Instant::now();
    const READS: u32 = 1000;
    for _ in 0..READS {
        std::hint::black_box(std::time::Instant::now());
    }
    let each = start.elapsed().as_nanos() as f64 / f64::from(READS);
    let value = format!("{}, {each:.0} ns a reading", source.as_deref().unwrap_or("unknown"));
    // A clock read by a system call costs some 100 ns and more; timeouts of waits and benchmarks
    // feel it, messages do not.
    facts.push(if each > 150.0 {
        Fact::new("host", "clock", Status::Limited, value, "read by a system call; only timeouts and measurements feel it")
            .advise("a clock source of tsc (kernel parameter clocksource=tsc), where the host allows it")
    } else {
        Fact::new("host", "clock", Status::Ok, value, "used for timeouts and for measuring, never per message")
    });
}

fn descriptors(limit: Option<u64>) -> Fact {
    let value = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    match limit {
        Some(few) if few < DESCRIPTORS_COMFORT => {
            Fact::new("limits", "open files", Status::Limited, value, "each peer takes about six descriptors, each NIC some more").advise("ulimit -n 4096")
        }
        _ => Fact::new("limits", "open files", Status::Ok, value, "each peer takes about six descriptors, each NIC some more"),
    }
}

fn locked(limit: Option<u64>) -> Fact {
    let value = limit.map_or("unlimited".to_owned(), bytes_text);
    Fact::new(
        "limits",
        "locked memory",
        Status::Plain,
        value,
        "irrelevant: registering brings pages in, but does not lock them, since no device writes to them",
    )
}

fn address_space(limit: Option<u64>) -> Fact {
    match limit {
        Some(limit) => {
            Fact::new("limits", "address space", Status::Limited, bytes_text(limit), "mapping of peers' memory counts").advise("ulimit -v unlimited")
        }
        None => Fact::new("limits", "address space", Status::Ok, "unlimited", "mapping of peers' memory counts"),
    }
}

/// `0-3,6`.
fn ranges(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    parts.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") }).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_quotas() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!((parse_cpu_max("150000 100000\n"), parse_cpu_max("max 100000\n"), parse_cpu_max("")), (Some(1.5), None, None));
    }

    #[test]
    fn few_descriptors_are_a_fact_to_act_on() {
        assert_eq!(descriptors(Some(256)).status, Status::Limited);
        assert!(!descriptors(Some(256)).advice.is_empty());
        assert_eq!(descriptors(None).status, Status::Ok);
    }
}
