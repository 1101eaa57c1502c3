// SPDX-License-Identifier: MIT OR Apache-2.0
//! By which way the two processes of a measurement reach each other: shared memory of one host, UDP
//! over the loopback interface, or UDP between two network namespaces. The same way is taken by our
//! processes, by the bare sockets and by other libraries' programs.
//!
//! Used by [`crate::session`] (environment and addresses of our processes), [`crate::peers`]
//! (programs of others) and the report.

pub mod namespaces;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::error::Error;
use crate::job::Ends;
use namespaces::Namespaces;

/// Address of both our processes on the loopback interface. One for both: to a NIC, any loopback
/// address is its own host.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The way between two processes; shared memory unless said otherwise. Namespaces last as long as
/// the last clone.
#[derive(Debug, Clone, Default)]
pub struct Route {
    net: Option<Arc<Net>>,
    /// NICs reach each other by calls of SISCI alone.
    sisci: bool,
}

#[derive(Debug)]
struct Net {
    addresses: [IpAddr; 2],
    namespaces: Option<Namespaces>,
}

fn index(first: bool) -> usize {
    usize::from(!first)
}

impl Route {
    /// Shared memory.
    pub fn shared_memory() -> Self {
        Route::default()
    }

    /// Calls of SISCI, within a host. What the environment says of the wire made of them holds.
    pub fn sisci() -> Self {
        Route { net: None, sisci: true }
    }

    fn over(net: Net) -> Self {
        Route { net: Some(Arc::new(net)), sisci: false }
    }

    /// UDP over the loopback interface.
    pub fn loopback() -> Self {
        Route::over(Net { addresses: [LOOPBACK; 2], namespaces: None })
    }

    /// UDP between two new network namespaces, removed with the last clone of the result or by a
    /// signal.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if they cannot be had here; otherwise what went wrong.
    pub fn between_namespaces() -> Result<Self, Error> {
        let namespaces = Namespaces::create()?;
        Ok(Route::over(Net { addresses: namespaces.addresses(), namespaces: Some(namespaces) }))
    }

    /// Whether it is one over UDP.
    pub fn is_udp(&self) -> bool {
        self.net.is_some()
    }

    /// Whether it is by calls of SISCI.
    pub fn is_sisci(&self) -> bool {
        self.sisci
    }

    /// Whether datagrams may be as long as UDP allows, without being cut on the way.
    pub fn takes_long_datagrams(&self) -> bool {
        self.net.as_ref().is_some_and(|net| net.namespaces.is_none())
    }

    /// Name for programs: `shm`, `sisci`, `udp-loopback`, `udp-netns`.
    pub fn name(&self) -> &'static str {
        match self.net.as_deref() {
            None if self.sisci => "sisci",
            None => "shm",
            Some(Net { namespaces: None, .. }) => "udp-loopback",
            Some(_) => "udp-netns",
        }
    }

    /// The way in words.
    pub fn description(&self) -> String {
        match self.net.as_deref() {
            None if self.sisci => "calls of SISCI".to_owned(),
            None => "shared memory".to_owned(),
            Some(Net { addresses: [a, _], namespaces: None }) => format!("UDP over loopback, {a}"),
            Some(Net { addresses: [a, b], .. }) => format!("UDP between two network namespaces joined by veth, {a} and {b}"),
        }
    }

    /// The two addresses as one side sees them; nothing for shared memory.
    pub fn ends(&self, first: bool) -> Option<Ends> {
        let net = self.net.as_deref()?;
        Some(Ends { own: net.addresses[index(first)], other: net.addresses[index(!first)] })
    }

    /// Environment of one of our processes.
    pub fn environment(&self, first: bool) -> Vec<(&'static str, String)> {
        if self.sisci {
            return vec![("BELLWIRE_WIRE", "sisci".to_owned())];
        }
        let Some(ends) = self.ends(first) else { return Vec::new() };
        let on = |name, value: &str| (name, value.to_owned());
        vec![("BELLWIRE_ADDRESS", ends.own.to_string()), on("BELLWIRE_UDP", "on"), on("BELLWIRE_SHM", "off")]
    }

    /// Where programs of others find the one that serves, which runs as the second process.
    pub fn server(&self) -> IpAddr {
        match self.net.as_deref() {
            Some(net) if net.namespaces.is_some() => net.addresses[index(false)],
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    /// The network interface of one side.
    pub fn interface(&self, first: bool) -> &str {
        self.net.as_deref().and_then(|net| net.namespaces.as_ref()).map_or("lo", |namespaces| namespaces.interface(first))
    }

    /// A command that runs `program` where one side stands.
    pub fn command(&self, first: bool, program: &Path) -> Command {
        match self.net.as_deref().and_then(|net| net.namespaces.as_ref()) {
            Some(namespaces) => namespaces.command(first, program),
            None => Command::new(program),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_the_other_ones_address() {
        let route = Route::loopback();
        let (one, two) = (route.ends(true).unwrap(), route.ends(false).unwrap());
        assert_eq!((one.own, one.other), (two.other, two.own));
        assert!(route.environment(true).contains(&("BELLWIRE_ADDRESS", one.own.to_string())));
        assert_eq!(Route::sisci().environment(false), [("BELLWIRE_WIRE", "sisci".to_owned())]);
        assert!(Route::default().environment(true).is_empty() && Route::default().ends(true).is_none());
    }
}
