// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two network namespaces joined by a veth pair, made and removed with `ip`: two hosts as far as
//! the network is concerned.
//!
//! Their names hold our process id: those that a killed run has left are removed by the next. The
//! veth pair is made inside the namespaces and goes with them, so the host's own interfaces are
//! never touched. Invariant: a [`Namespaces`] is removed when it is dropped, when making it fails
//! half-way, and by a signal.

pub mod cluster;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cleanup;
use crate::error::Error;
use crate::peers::process::{find, run};

/// Beginning of the names; the process id and the side follow.
const PREFIX: &str = "bellwire-perf-";
/// Where `ip` keeps its namespaces.
const FOLDER: &str = "/run/netns";
/// The two addresses. Nobody else is in these namespaces.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 118, 0, 1), Ipv4Addr::new(10, 118, 0, 2)];
/// How long the link may take to come up, and how often that is looked at.
const LINK_TIME_MAX: Duration = Duration::from_secs(5);
const LINK_STEP: Duration = Duration::from_millis(10);
/// Bits of their network.
const PREFIX_BITS: u32 = 30;

/// The two namespaces.
#[derive(Debug)]
pub struct Namespaces {
    ip: PathBuf,
    names: [String; 2],
    interfaces: [String; 2],
}

impl Namespaces {
    /// Makes them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without root, without `ip`, or where the kernel refuses namespaces;
    /// otherwise what `ip` complains about.
    pub fn create() -> Result<Self, Error> {
        let ip = tool("ip")?;
        sweep(&ip);
        let pid = std::process::id();
        let names = ["a", "b"].map(|side| format!("{PREFIX}{pid}-{side}"));
        // A name of an interface has room for 15 letters.
        let interfaces = ["a", "b"].map(|side| format!("bw{pid}{side}"));
        let namespaces = Namespaces { ip, names, interfaces };
        remove_at_signal(&namespaces.ip, &namespaces.names);
        namespaces.set_up().map(|()| namespaces)
    }

    fn set_up(&self) -> Result<(), Error> {
        let ip = |arguments: &[&str]| run(Command::new(&self.ip).args(arguments)).map(drop);
        let [a, b] = self.names.each_ref().map(String::as_str);
        let [link_a, link_b] = self.interfaces.each_ref().map(String::as_str);
        ip(&["netns", "add", a]).map_err(|error| Error::unsupported(format!("network namespaces are refused here: {error}")))?;
        ip(&["netns", "add", b])?;
        ip(&["link", "add", link_a, "netns", a, "type", "veth", "peer", "name", link_b, "netns", b])?;
        for (index, (name, link)) in [(a, link_a), (b, link_b)].into_iter().enumerate() {
            ip(&["-n", name, "address", "add", &format!("{}/{PREFIX_BITS}", ADDRESSES[index]), "dev", link])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", link, "up"])?;
        }
        [(a, link_a), (b, link_b)].into_iter().try_for_each(|(name, link)| await_link(&self.ip, name, link))
    }

    /// Address of the first and of the second process.
    pub fn addresses(&self) -> [IpAddr; 2] {
        ADDRESSES.map(IpAddr::V4)
    }

    /// Interface of one side.
    pub fn interface(&self, first: bool) -> &str {
        &self.interfaces[usize::from(!first)]
    }

    /// A command that runs `program` in the namespace of one side, with that namespace's interfaces
    /// under /sys.
    pub fn command(&self, first: bool, program: &Path) -> Command {
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.names[usize::from(!first)]]).arg(program);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            remove(&self.ip, name);
        }
    }
}

/// A program that namespaces need, which root alone may use.
fn tool(name: &str) -> Result<PathBuf, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::unsupported("network namespaces need root"));
    }
    find(name).ok_or_else(|| Error::unsupported(format!("network namespaces need the program {name}: package iproute2")))
}

/// The kernel says with some delay that a link is up; until then some programs take it for
/// unusable.
fn await_link(ip: &Path, name: &str, link: &str) -> Result<(), Error> {
    let deadline = Instant::now() + LINK_TIME_MAX;
    loop {
        let said = run(Command::new(ip).args(["-n", name, "-o", "link", "show", "dev", link]))?;
        if said.contains("state UP") {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::failed(format!("the link between the network namespaces does not come up: {}", said.trim())));
        }
        std::thread::sleep(LINK_STEP);
    }
}

/// A signal removes namespaces, too.
fn remove_at_signal(ip: &Path, names: &[String]) {
    let (ip, names) = (ip.to_owned(), names.to_vec());
    cleanup::at_signal(move || names.iter().for_each(|name| remove(&ip, name)));
}

/// Removes a namespace if it is there. Its interfaces go when its last process has ended. Runs also
/// while the registry of [`cleanup`] is held, so it must not register anything.
fn remove(ip: &Path, name: &str) {
    if Path::new(FOLDER).join(name).exists() {
        let _ = Command::new(ip).args(["netns", "del", name]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Removes namespaces whose makers are gone.
fn sweep(ip: &Path) {
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if cleanup::owner_of(name).is_some_and(cleanup::is_gone) {
            remove(ip, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_made_used_and_removed() {
        let namespaces = match Namespaces::create() {
            Ok(namespaces) => namespaces,
            Err(Error::Unsupported(why)) => return println!("SKIPPED: {why}"),
            Err(error) => panic!("{error}"),
        };
        let sees = |first| run(namespaces.command(first, &namespaces.ip).args(["-o", "address"])).unwrap();
        assert!(sees(true).contains("10.118.0.1/30") && sees(true).contains(namespaces.interface(true)));
        assert!(sees(false).contains("10.118.0.2/30") && !sees(false).contains("10.118.0.1/30"));
        let listed = || namespaces.names.iter().filter(|name| Path::new(FOLDER).join(name).exists()).count();
        assert_eq!(listed(), 2);
        let names = namespaces.names.clone();
        drop(namespaces);
        assert!(names.iter().all(|name| !Path::new(FOLDER).join(name).exists()));
    }
}
