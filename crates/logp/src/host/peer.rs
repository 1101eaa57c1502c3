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
    let mode = nics.iter().find_map(|nic| stat::ask(nic, stat::TIME_MAX).ok()).map(|nic| nic.mode);
    facts.push(match (&mode, nics.len()) {
        (Some(mode), count) => Fact::new("peer", "NICs", Status::Ok, format!("{count}, {mode} mode"), "as the process itself tells"),
        (None, 0) => Fact::new("peer", "NICs", Status::Plain, "none seen", "no NIC is open, or its library does not tell"),
        (None, count) => Fact::new("peer", "NICs", Status::Plain, format!("{count}, silent"), "it did not answer in time, or belongs to another user"),
    });
    facts.push(verdict(user, net, mode.as_deref(), attached.is_ok()));
    Ok(facts)
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
        ("net", _) => Fact::new("peer", name, Status::Broken, "another", "abstract UNIX sockets, by which NICs meet, belong to it")
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
        return Fact::new(
            "verdict",
            NAME,
            Status::Broken,
            "nothing yet",
            "the processes are in different network namespaces, and the wires between hosts are not built yet",
        )
        .advise("share the network namespace");
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
        assert!(verdict(true, false, None, true).reason.contains("network"));
        assert!(verdict(true, true, Some("guarded"), true).value.contains("guarded"));
        assert!(verdict(true, true, Some("mapped"), false).reason.contains("bounce"));
    }
}
