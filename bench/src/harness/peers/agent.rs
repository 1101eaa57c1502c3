// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's agent, `bellwired`, started for a measurement at an address of its own, and ended
//! with it.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bellwire_inspect::agent;
use rustix::process::Pid;

use super::process::beside;
use crate::cleanup::Group;
use crate::error::Error;

/// Where nothing is, and nothing can be: an agent for a measurement keeps no networks.
const NO_FILE: &str = "/proc/bellwire-networks";

/// A running agent; ended when dropped.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    address: IpAddr,
    _group: Option<Group>,
}

impl Agent {
    /// Starts one with so many frames. `own` is this executable, beside which
    /// `bellwired` is; `place` tells agents of this process apart.
    ///
    /// # Errors
    /// It is not there, or does not serve.
    pub fn start(own: &Path, place: u8, frames: usize, loiter: u32) -> Result<Self, Error> {
        let address = address(place);
        let mut command = Command::new(beside(own, "bellwired"));
        command.args(["--address", &address.to_string(), "--frames", &frames.to_string(), "--loiter", &loiter.to_string(), "--networks", NO_FILE]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| Error::from(error).within("bellwired"))?;
        let out = child.stdout.take();
        let group = Pid::from_raw(child.id() as i32).map(Group::watch);
        let agent = Agent { child, address, _group: group };
        let mut line = String::new();
        if let Some(out) = out {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.is_empty() { Err(Error::failed("bellwired does not serve")) } else { Ok(agent) }
    }

    /// The environment of a program that uses it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let on = |name, value: &str| (name, value.to_owned());
        vec![("BELLWIRE_ADDRESS", self.address.to_string()), on("BELLWIRE_NIC", "host"), on("BELLWIRE_SHM", "off")]
    }

    /// What it has counted.
    ///
    /// # Errors
    /// It does not answer.
    pub fn status(&self) -> Result<agent::Status, Error> {
        agent::status(Some(self.address))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address that no other process's agents have, unless there are many such processes.
fn address(place: u8) -> IpAddr {
    let id = std::process::id();
    IpAddr::V4(Ipv4Addr::new(127, 118 + (place & 7), (id >> 8) as u8, id as u8))
}
