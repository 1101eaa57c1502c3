// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces as the hosts of a cluster: half of them at each of two bridges, which one
//! cable joins. Each host, and the cable in each direction, has the same rate.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{PREFIX, await_link, remove, remove_at_signal, sweep, tool};
use crate::error::Error;
use crate::peers::process::run;

/// The cable's ends, and the hosts' interfaces.
const CABLE: &str = "cable";
const HOST: &str = "host0";
const BRIDGE: &str = "bridge";

/// The hosts and the bridges; removed when dropped, or by a signal.
#[derive(Debug)]
pub struct Cluster {
    ip: PathBuf,
    tc: PathBuf,
    /// Of the hosts, then of the two bridges.
    names: Vec<String>,
    hosts: usize,
}

impl Cluster {
    /// Makes them, with so many bits a second.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without root, without `ip` and `tc`, or where the kernel refuses;
    /// otherwise what these complain about.
    pub fn create(hosts: usize, bits_per_second: u64) -> Result<Self, Error> {
        let (ip, tc) = (tool("ip")?, tool("tc")?);
        sweep(&ip);
        let pid = std::process::id();
        let names = (0..hosts + 2).map(|place| format!("{PREFIX}{pid}-{place}")).collect();
        let cluster = Cluster { ip, tc, names, hosts };
        remove_at_signal(&cluster.ip, &cluster.names);
        cluster.set_up(bits_per_second)?;
        Ok(cluster)
    }

    fn ip(&self, arguments: &str) -> Result<(), Error> {
        run(Command::new(&self.ip).args(arguments.split(' '))).map(drop)
    }

    /// A link leaves so many bits a second.
    fn shape(&self, name: &str, link: &str, bits_per_second: u64) -> Result<(), Error> {
        let arguments = format!("-n {name} qdisc add dev {link} root tbf rate {bits_per_second}bit burst 16kb latency 20ms");
        let shaped = run(Command::new(&self.tc).args(arguments.split(' ')));
        shaped.map(drop).map_err(|error| Error::unsupported(format!("tc tbf is refused here: {error}")))
    }

    fn set_up(&self, rate: u64) -> Result<(), Error> {
        for name in &self.names {
            self.ip(&format!("netns add {name}")).map_err(|error| Error::unsupported(format!("network namespaces are refused here: {error}")))?;
        }
        let bridges = &self.names[self.hosts..];
        for bridge in bridges {
            self.ip(&format!("-n {bridge} link add name {BRIDGE} type bridge"))
                .map_err(|error| Error::unsupported(format!("bridges are refused here: {error}")))?;
            self.ip(&format!("-n {bridge} link set {BRIDGE} up"))?;
        }
        self.ip(&format!("link add name {CABLE} netns {} type veth peer name {CABLE} netns {}", bridges[0], bridges[1]))?;
        for bridge in bridges {
            self.ip(&format!("-n {bridge} link set {CABLE} master {BRIDGE} up"))?;
            self.shape(bridge, CABLE, rate)?;
        }
        for (host, name) in self.names[..self.hosts].iter().enumerate() {
            let bridge = &bridges[host * 2 / self.hosts];
            self.ip(&format!("link add name {HOST} netns {name} type veth peer name port{host} netns {bridge}"))?;
            self.ip(&format!("-n {bridge} link set port{host} master {BRIDGE} up"))?;
            self.ip(&format!("-n {name} address add {}/24 dev {HOST}", address(host)))?;
            self.ip(&format!("-n {name} link set lo up"))?;
            self.ip(&format!("-n {name} link set {HOST} up"))?;
            self.shape(name, HOST, rate)?;
        }
        self.names[..self.hosts].iter().try_for_each(|name| await_link(&self.ip, name, HOST))
    }

    /// A command that runs a program of this project on a host.
    pub fn command(&self, host: usize, program: &Path) -> Command {
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.names[host]]).arg(program);
        command.env("BELLWIRE_ADDRESS", address(host).to_string()).env("BELLWIRE_UDP", "on").env("BELLWIRE_SHM", "off");
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| remove(&self.ip, name));
    }
}

fn address(host: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 118, 1, host as u8 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_reach_each_other_and_are_removed() {
        let cluster = match Cluster::create(2, 50_000_000) {
            Ok(cluster) => cluster,
            Err(Error::Unsupported(why)) => return println!("SKIPPED: {why}"),
            Err(error) => panic!("{error}"),
        };
        // Each has a way to the other one.
        let neighbours = |host: usize| run(cluster.command(host, &cluster.ip).args(["route", "get", &address(1 - host).to_string()])).unwrap();
        assert!(neighbours(0).contains(HOST) && neighbours(1).contains(HOST));
        let names = cluster.names.clone();
        assert!(names.iter().all(|name| Path::new(super::super::FOLDER).join(name).exists()));
        drop(cluster);
        assert!(names.iter().all(|name| !Path::new(super::super::FOLDER).join(name).exists()));
    }
}
