// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library: where it was found, whether it loads and opens a NIC; and how fast this machine is,
//! as a quick figure. Both in processes of their own, so that a library that crashes is a fact too.

use super::{Fact, Options, Status, probe};
use crate::exchange::FAR_FACTOR;
use crate::stats;
use bellwire_wire::Cipher;
use bellwire_wire::udp::address_from;
use bellwire_wire::udp::keys_from_env;
use bellwire_wire::xdp;

/// Exchanges of one trial, and trials: a few ms in all.
const EXCHANGE: (u64, usize) = (10_000, 5);

/// What a user may have set.
const VARIABLES: [&str; 17] = [
    "BELLWIRE_VIPL",
    "BELLWIRE_MODE",
    "BELLWIRE_ATTACH",
    "BELLWIRE_ADOPT",
    "BELLWIRE_MEMORY",
    "BELLWIRE_REGISTRATION_CACHE",
    "BELLWIRE_REGISTRATION_WATCH",
    "BELLWIRE_ADDRESS",
    "BELLWIRE_UDP",
    "BELLWIRE_SHM",
    "BELLWIRE_ALLOW",
    "BELLWIRE_DIRECTORY_PORT",
    "BELLWIRE_FAULTS",
    "BELLWIRE_TRACE",
    "BELLWIRE_KEY_FILE",
    "BELLWIRE_KEY_HOSTS",
    "BELLWIRE_SPIN_US",
];

/// Adds the facts.
pub(super) fn inspect(options: &Options, facts: &mut Vec<Fact>) {
    match probe::library(options) {
        Ok(opened) => {
            facts.push(udp(opened.udp));
            facts.push(xdp(std::env::var("BELLWIRE_XDP").ok().filter(|v| !v.is_empty() && v != "off").as_deref()));
            facts.push(users(std::env::var("BELLWIRE_ALLOW").ok().filter(|v| !v.is_empty()).as_deref(), opened.udp));
            facts.push(Fact::new("library", "libvipl", Status::Ok, opened.description, "loaded, NIC opened and closed in a process of its own"));
        }
        Err(error) => facts.push(
            Fact::new("library", "libvipl", Status::Missing, "not usable", error.to_string().replace('\n', " "))
                .advise("install it (make install PREFIX=...), or say where it is: BELLWIRE_VIPL=/path/libvipl.so.1"),
        ),
    }
    facts.push(keys());
    for variable in VARIABLES {
        if let Some(value) = std::env::var_os(variable) {
            facts.push(Fact::new("library", variable, Status::Plain, value.to_string_lossy(), "set in the environment"));
        }
    }
    exchange(options, facts);
}

/// Whether the NIC that was opened has UDP beside shared memory.
fn udp(is_on: bool) -> Fact {
    const NAME: &str = "UDP wire";
    if is_on {
        return Fact::new(
            "wires",
            NAME,
            Status::Ok,
            "on",
            "the NIC has a socket for it; used for peers that nobody of this host is: bellwire top says so of each link",
        );
    }
    Fact::new("wires", NAME, Status::Plain, "off", "the NIC has no address that other hosts reach, or BELLWIRE_UDP=off")
        .advise("for peers on other hosts: BELLWIRE_ADDRESS=auto, an interface or an address (docs/guide/hosts.md)")
}

/// Whether packets to other hosts can go past the kernel's stack.
fn xdp(asked: Option<&str>) -> Fact {
    const NAME: &str = "AF_XDP";
    let address = std::env::var("BELLWIRE_ADDRESS").ok().filter(|v| !v.is_empty());
    let possible = match address_from(address.as_deref().unwrap_or("auto")) {
        Some(own) => xdp::possible(own).map_err(|e| e.to_string()),
        None => Err("this host has no address for others".to_owned()),
    };
    match (possible, asked) {
        (Ok(interface), Some(mode)) => {
            Fact::new("wires", NAME, Status::Ok, format!("{mode}, at {interface}"), "the first process that asks has the interface; others go by UDP sockets")
        }
        (Ok(interface), None) => {
            let what = "not used by itself: the program that it attaches looks at each packet of the interface, for whomever it is";
            Fact::new("wires", NAME, Status::Plain, format!("possible at {interface}"), what)
                .advise("for shorter ways of small messages to other hosts: BELLWIRE_XDP=on (docs/guide/hosts.md)")
        }
        (Err(why), Some(_)) => Fact::new("wires", NAME, Status::Limited, "asked for and not possible", why),
        (Err(why), None) => Fact::new("wires", NAME, Status::Plain, "not possible", why),
    }
}

/// The other users of this host that processes with this environment share memory with.
fn users(allowed: Option<&str>, udp: bool) -> Fact {
    const NAME: &str = "other users";
    match (allowed, udp) {
        (Some(list), _) => {
            Fact::new("wires", NAME, Status::Ok, format!("{list} allowed"), "shared memory in guarded mode with their processes, if those allow this user")
        }
        (None, true) => Fact::new("wires", NAME, Status::Plain, "none allowed", "their processes on this host are reached by UDP")
            .advise("for shared memory with them: BELLWIRE_ALLOW=USER on both sides (docs/guide/hosts.md)"),
        (None, false) => Fact::new("wires", NAME, Status::Plain, "none allowed", "their processes on this host are not reached")
            .advise("BELLWIRE_ALLOW=USER on both sides, or UDP on both (docs/guide/hosts.md)"),
    }
}

/// Whether packets between hosts are authenticated, by which keys, and how.
fn keys() -> Fact {
    const NAME: &str = "authentication";
    let cipher = Cipher::fastest().name();
    match keys_from_env() {
        Ok(Some(loaded)) => {
            let kind = match (loaded.keys.public(), loaded.keys.can_seal(None)) {
                (None, _) => "a shared key".to_owned(),
                (Some(public), shared) => {
                    let also = if shared { " and a shared key" } else { "" };
                    format!("public key {public}, {} of other hosts{also}", loaded.keys.hosts().len())
                }
            };
            Fact::new(
                "wires",
                NAME,
                Status::Ok,
                "on",
                format!("packets between hosts are authenticated and encrypted: {}; {kind}; {cipher}, if the peer's processor has it too", loaded.source),
            )
        }
        Ok(None) => Fact::new("wires", NAME, Status::Plain, "off", "packets between hosts are neither authenticated nor encrypted: no key is set")
            .advise("in a network that others share: bellwire key --shared FILE, and BELLWIRE_KEY_FILE=FILE on all hosts (docs/guide/hosts.md)"),
        Err(error) => {
            Fact::new("wires", NAME, Status::Missing, "no usable key", error.to_string()).advise("programs do not start with it, rather than go without keys")
        }
    }
}

fn exchange(options: &Options, facts: &mut Vec<Fact>) {
    const NAME: &str = "two-line exchange";
    let halves = match probe::exchange(options, EXCHANGE.0, EXCHANGE.1) {
        Ok(halves) => halves,
        Err(error) => {
            facts.push(Fact::new("host", NAME, Status::Missing, "not measured", error.to_string()));
            return;
        }
    };
    let Some(summary) = stats::summarize(&halves) else { return };
    let value = format!("{:.0} ns (best {:.0}, worst {:.0})", summary.median, summary.min, summary.max);
    facts.push(match summary.median {
        _ if options.pinning == crate::pin::Pinning::None => {
            Fact::new("host", NAME, Status::Limited, value, "both processes shared one processor: nothing of the data path can be told from this")
        }
        slow if slow > NEAR_MAX_NS => Fact::new(
            "host",
            NAME,
            Status::Limited,
            value,
            "half a round trip of one cache line between two processors; the machine is in its far mode, or the processors are of different sockets",
        )
        .advise("choose processors that share a cache (bellwire perf --cpus A,B); on a virtual machine, try again: the host moves processors"),
        median if summary.max > median * FAR_FACTOR => Fact::new(
            "host",
            NAME,
            Status::Limited,
            value,
            "half a round trip of one cache line between two processors; it changed between near and far meanwhile",
        ),
        _ => Fact::new("host", NAME, Status::Ok, value, "half a round trip of one cache line between two processors: no message can be faster"),
    });
}

/// Processors that share a cache need less than this, ns.
const NEAR_MAX_NS: f64 = 150.0;
