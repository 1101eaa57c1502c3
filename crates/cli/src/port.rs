// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire port`: takes ports of a running RDMA program's devices down and up.

use clap::{Args, ValueEnum};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use bellwire_report::output;

const LONG_ABOUT: &str = "\
Takes the port of an RDMA device down or up in one process that runs under bellwire run --verbs, or tells it that the \
port's addresses changed. The program gets the event that a device gives (IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, \
IBV_EVENT_GID_CHANGE; a program of librdmacm gets RDMA_CM_EVENT_ADDR_CHANGE too). While a port is down nothing leaves and nothing is taken, and peers cannot reach mapped memory.

A device that is removed is out of order for that process, for good: its queue pairs fail, and the program gets \
IBV_EVENT_DEVICE_FATAL and RDMA_CM_EVENT_DEVICE_REMOVAL.

Without a device and an order it lists the devices of the process: name, address, state, open contexts.";

/// Longest answer.
const ANSWER_MAX: u64 = 64 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    /// The link is lost
    Down,
    /// The link is there again
    Up,
    /// Only the events that addresses changed
    GidChange,
    /// The device is taken out, for good
    Remove,
}

/// Take ports of a running RDMA program down and up
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT)]
pub struct Arguments {
    /// The device, as bellwire0
    #[arg(value_name = "DEVICE", requires = "order")]
    device: Option<String>,

    /// Takes the port down or up, says that its addresses changed, or removes the device
    #[arg(value_enum, value_name = "ORDER")]
    order: Option<Order>,

    /// The process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
}

/// Gives the order and prints the answer.
///
/// # Errors
/// The process has no device, or refuses.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let line = match (&arguments.device, arguments.order) {
        (Some(device), Some(order)) => {
            let word = order.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
            if device.contains(char::is_whitespace) {
                return Err(format!("{device:?} is no name of a device"));
            }
            format!("{device} {word}\n")
        }
        _ => "list\n".to_owned(),
    };
    let pid = arguments.pid;
    let name = SocketAddr::from_abstract_name(format!("bellwire/verbs/{pid}")).map_err(|e| e.to_string())?;
    let mut process = UnixStream::connect_addr(&name).map_err(|_| format!("process {pid} has no RDMA device of Bellwire open"))?;
    let answer = process
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| process.write_all(line.as_bytes()))
        .and_then(|()| {
            let mut answer = String::new();
            process.take(ANSWER_MAX).read_to_string(&mut answer).map(|_| answer)
        })
        .map_err(|e| format!("process {pid} does not answer: {e}"))?;
    match (answer.strip_prefix("error: "), answer.is_empty()) {
        (Some(error), _) => Err(error.trim_end().to_owned()),
        // Processes of other users are not listened to.
        (None, true) => Err(format!("process {pid} does not answer: it may be another user's")),
        // What another process says is shown without anything that a terminal obeys.
        (None, false) => output::print(&answer.chars().filter(|c| *c == '\n' || !c.is_control()).collect::<String>()),
    }
}
