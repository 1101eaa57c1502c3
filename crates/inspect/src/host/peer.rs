// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a connection to one given process would use: whether the two can meet at all, and how bytes would move. What is read about the process is text of
//! the kernel's; what the process itself says (its statistics) is taken with care and can only be shown.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

use super::ways::errno_name;
use super::{Fact, Status, attach, status_field};
use crate::error::Error;
use crate::stat;

/// Facts about process `pid`, the verdict last.
///
/// # Errors
/// If there is no such process.
pub fn inspect(pid: i32) -> Result<Vec<Fact>, Error> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| Error::failed(format!("there is no process {pid} here (or /proc hides it)")))?;
    let mut facts = Vec::new();
    let name = status_field(&status, "Name").unwrap_or("?").to_owned();
    facts.push(Fact::new("peer", "process", Status::Plain, format!("{pid} ({name})"), ""));
    let user = same_user(&status, &mut facts);
    let namespaces = ["user", "pid", "net"].map(|kind| (kind, same_namespace(pid, kind)));
    for (kind, same) in namespaces {
        facts.push(namespace_fact(kind, same));
    }
    let net = namespaces.iter().all(|(kind, same)| *kind != "net" || *same != Some(false));
    let attached = attach_to(pid);
    facts.push(attach_fact(pid, attached));
    let nics = stat::find(Some(pid));
    let told: Vec<stat::Nic> = nics.iter().filter_map(|nic| stat::ask(nic, stat::TIME_MAX).ok()).collect();
    let mode = told.first().map(|nic| nic.mode.clone());
    facts.push(match (&mode, nics.len()) {
        (Some(mode), count) => Fact::new("peer", "NICs", Status::Ok, format!("{count}, {mode} mode"), "as the process itself tells"),
        (None, 0) => Fact::new("peer", "NICs", Status::Plain, "none seen", "no NIC is open, or its library does not tell"),
        (None, count) => Fact::new("peer", "NICs", Status::Plain, format!("{count}, silent"), "it did not answer in time, or belongs to another user"),
    });
    facts.extend(told.iter().flat_map(|nic| std::iter::once(wires_fact(nic)).chain(nic.links.iter().take(LINKS_SHOWN).map(link_fact))));
    facts.push(verdict(user, net, mode.as_deref(), attached.is_ok()));
    Ok(facts)
}

/// Links of one NIC that are shown.
const LINKS_SHOWN: usize = 16;

fn wires_fact(nic: &stat::Nic) -> Fact {
    let value = if nic.udp.is_empty() { format!("{} at {}", nic.wires, nic.host) } else { format!("{} at {}, packets at {}", nic.wires, nic.host, nic.udp) };
    Fact::new("peer", "wires", Status::Plain, value, "as the process itself tells")
}

fn link_fact(link: &stat::Link) -> Fact {
    let figure = |key: &str| link.others.get(key).copied().unwrap_or(0);
    if link.address.is_empty() {
        let peer = if figure("loopback") > 0 { "itself".to_owned() } else { format!("process {}", link.peer_pid) };
        return Fact::new("peer", "link", Status::Plain, format!("{} to {peer}", link.wire), link.why.clone());
    }
    let (rtt, window, lost, sent) = (figure("rtt_ns") / 1000, figure("window"), figure("lost"), figure("packets_out"));
    let how = format!("datagrams of {} B, round trip {rtt} us, window {window}, {lost} of {sent} packets lost", figure("datagram_bytes"));
    Fact::new("peer", "link", Status::Plain, format!("{} to {}, {how}", link.wire, link.address), link.why.clone())
}

fn same_user(status: &str, facts: &mut Vec<Fact>) -> bool {
    // Real, effective, saved, file system: peers show the effective one.
    let theirs = status_field(status, "Uid").and_then(|text| text.split_whitespace().nth(1)?.parse::<u32>().ok());
    let ours = rustix::process::geteuid().as_raw();
    facts.push(match theirs {
        Some(theirs) if theirs == ours => Fact::new("peer", "user", Status::Ok, format!("the same ({ours})"), "NICs of one user find each other"),
        Some(theirs) => {
            Fact::new("peer", "user", Status::Broken, format!("{theirs}, not {ours}"), "NICs of different users do not connect").advise("run both as one user")
        }
        None => Fact::new("peer", "user", Status::Plain, "unknown", "its status does not say"),
    });
    theirs == Some(ours)
}

fn same_namespace(pid: i32, kind: &str) -> Option<bool> {
    let link = |process: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
    Some(link("self")? == link(&pid.to_string())?)
}

fn namespace_fact(kind: &'static str, same: Option<bool>) -> Fact {
    let name = match kind {
        "user" => "user namespace",
        "pid" => "pid namespace",
        _ => "network namespace",
    };
    match (kind, same) {
        (_, Some(true)) => Fact::new("peer", name, Status::Ok, "the same", ""),
        (_, None) => Fact::new("peer", name, Status::Plain, "unknown", "the link of the process cannot be read (not dumpable, or of another user)"),
        ("net", _) => Fact::new("peer", name, Status::Limited, "another", "NICs with shared memory meet by abstract UNIX sockets, which belong to it")
            .advise("share it (docker run --network=container:NAME, or --network=host for both)"),
        ("pid", _) => Fact::new("peer", name, Status::Limited, "another", "process ids do not name the same process, so cross-memory attach cannot be used")
            .advise("share it (docker run --pid=container:NAME)"),
        _ => Fact::new("peer", name, Status::Limited, "another", "cross-memory attach is refused between user namespaces that do not contain each other"),
    }
}

/// Reads a byte of the process, at an address where it has memory.
fn attach_to(pid: i32) -> Result<(), Errno> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))?;
    let address = readable_address(&maps).ok_or(Errno::FAULT)?;
    attach::read(pid, address, &mut [0]).map(drop)
}

/// The start of the first mapping that can be read and is no device of the kernel's.
fn readable_address(maps: &str) -> Option<u64> {
    let line = maps.lines().find(|line| line.split_whitespace().nth(1).is_some_and(|rights| rights.starts_with('r')) && !line.contains("[v"))?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

fn attach_fact(pid: i32, attached: Result<(), Errno>) -> Fact {
    const NAME: &str = "cross-memory attach";
    let Err(errno) = attached else { return Fact::new("peer", NAME, Status::Ok, "works", "a byte of the process was read") };
    let (reason, advice) = attach::explain(errno, attach::settings());
    // /proc of a process that is not dumpable belongs to root.
    let owner = fs::metadata(format!("/proc/{pid}/maps")).map(|data| data.uid()).ok();
    let undumpable = owner == Some(0) && rustix::process::geteuid().as_raw() != 0;
    let (reason, advice) = if undumpable {
        (
            "the process is not dumpable (or root's)".to_owned(),
            "it has changed its user, may not be read by it, or has called prctl(PR_SET_DUMPABLE, 0): undo that".to_owned(),
        )
    } else {
        (reason, advice)
    };
    Fact::new("peer", NAME, Status::Missing, format!("refused ({})", errno_name(errno)), reason).advise(advice)
}

fn verdict(user: bool, net: bool, mode: Option<&str>, attach: bool) -> Fact {
    const NAME: &str = "a connection would use";
    if !user {
        return Fact::new("verdict", NAME, Status::Broken, "nothing", "the processes belong to different users").advise("run both as one user");
    }
    if !net {
        let reason = "the processes are in different network namespaces, which are as different hosts: each needs an address that the other reaches";
        return Fact::new("verdict", NAME, Status::Limited, "UDP, if both have it", reason)
            .advise("BELLWIRE_ADDRESS=auto (or an interface, or an address) on both sides, or share the network namespace");
    }
    let guarded = mode == Some("guarded") || std::env::var("BELLWIRE_MODE").is_ok_and(|mode| mode == "guarded");
    let other = if attach { "cross-memory attach where it pays, else bounce buffers" } else { "bounce buffers" };
    let value = if guarded { "shared memory, guarded mode" } else { "shared memory, mapped mode" };
    let reason = if guarded {
        "all data through the link's lines, copied and checked by its owner".to_owned()
    } else {
        format!("memory of VipxAllocMem: mapped, one copy; other memory: {other}")
    };
    Fact::new("verdict", NAME, Status::Ok, value, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readable_mapping_is_found() {
        let maps = "7f00-8000 ---p 0 00:00 0\nffff1000-ffff2000 r--p 0 00:00 0 [vvar]\n55d0a000-55d0b000 r-xp 00000000 08:01 1 /bin/x\n";
        assert_eq!(readable_address(maps), Some(0x55d0_a000));
        assert_eq!(readable_address("nothing"), None);
    }

    #[test]
    fn links_are_told() {
        let figures = [("datagram_bytes", 1472), ("rtt_ns", 45_000), ("window", 64), ("lost", 2), ("packets_out", 500)];
        let others = figures.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        let link = stat::Link { wire: "udp".to_owned(), why: "far".to_owned(), address: "10.0.0.2:5".to_owned(), others, ..stat::Link::default() };
        let fact = link_fact(&link);
        assert_eq!(fact.value, "udp to 10.0.0.2:5, datagrams of 1472 B, round trip 45 us, window 64, 2 of 500 packets lost");
        assert_eq!(
            (fact.reason.as_str(), link_fact(&stat::Link { peer_pid: 7, wire: "shm".to_owned(), ..stat::Link::default() }).value.as_str()),
            ("far", "shm to process 7")
        );
    }

    #[test]
    fn the_parent_of_this_test_is_inspected() {
        let parent = std::os::unix::process::parent_id() as i32;
        let facts = inspect(parent).unwrap();
        assert!(facts.iter().any(|fact| fact.name == "cross-memory attach"));
        assert_eq!(facts.last().map(|fact| (fact.topic, fact.status)), Some(("verdict", Status::Ok)), "{facts:?}");
        assert!(inspect(i32::MAX).is_err());
    }

    #[test]
    fn who_cannot_meet_is_told_so() {
        assert_eq!(verdict(false, true, None, true).status, Status::Broken);
        let apart = verdict(true, false, None, true);
        assert!(apart.value.contains("UDP") && apart.reason.contains("network"));
        assert!(verdict(true, true, Some("guarded"), true).value.contains("guarded"));
        assert!(verdict(true, true, Some("mapped"), false).reason.contains("bounce"));
    }
}
