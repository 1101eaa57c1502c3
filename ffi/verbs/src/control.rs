// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders from outside, by `bellwire port`: a thread waits at the abstract socket
//! `bellwire/verbs/<pid>` for lines, and answers each with one. It serves processes of the same
//! user and root only.
//!
//! | line | action |
//! |---|---|
//! | `list` | answers with name, address and state of each device |
//! | `NAME down`, `NAME up` | the port of a device, for all contexts that are open or will be |
//! | `NAME gid-change` | the events that the addresses changed |
//! | `NAME remove` | the device is taken out, for good |

use crate::devices::{self, Own};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::own_thread;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Longest line.
const LINE_MAX: u64 = 256;
/// How long a client may keep the thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts the thread, once in each process. Without it ports stay as they are.
pub(crate) fn start() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    // Relaxed: the first thread of this process starts it; the child of a fork begins anew.
    if PROCESS.swap(own, Ordering::Relaxed) == own {
        return;
    }
    let Ok(name) = SocketAddr::from_abstract_name(format!("bellwire/verbs/{own}")) else { return };
    let Ok(listener) = UnixListener::bind_addr(&name) else { return };
    let _ = own_thread::spawn(c"bellwire-port", move || listener.incoming().flatten().for_each(|client| serve(&client)));
}

fn is_allowed(client: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(client).is_ok_and(|peer| peer.uid == rustix::process::geteuid() || peer.uid.is_root())
}

fn serve(mut client: &UnixStream) {
    if !is_allowed(client) || client.set_read_timeout(Some(PATIENCE)).is_err() || client.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let mut line = String::new();
    if BufReader::new(client.take(LINE_MAX)).read_line(&mut line).is_ok() {
        // A client that has gone hears nothing.
        let _ = client.write_all(obey(line.trim_end()).as_bytes());
    }
}

/// The answer to a line.
fn obey(line: &str) -> String {
    let own = devices::all().unwrap_or_default();
    if line == "list" {
        return own.iter().map(describe).collect();
    }
    let (name, order) = line.split_once(' ').unwrap_or((line, ""));
    let Some(device) = own.iter().find(|own| own.device.name == name) else {
        let names: Vec<&str> = own.iter().map(|own| &*own.device.name).collect();
        return format!("error: there is no device {name:?}; there are {}\n", names.join(", "));
    };
    if device.is_removed() {
        return format!("error: {name} was removed\n");
    }
    match order {
        "down" => device.set_link(false),
        "up" => device.set_link(true),
        "gid-change" => device.change_address(),
        "remove" => device.remove(),
        _ => return "error: down, up, gid-change or remove is wanted\n".to_owned(),
    }
    format!("ok {}", describe(device))
}

fn describe(own: &Own) -> String {
    let state = match (own.is_removed(), own.is_up()) {
        (true, _) => "removed",
        (false, true) => "up",
        (false, false) => "down",
    };
    format!("{} {} {state} {}\n", own.device.name, own.address(), own.contexts().len())
}
