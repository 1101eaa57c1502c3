// SPDX-License-Identifier: MIT OR Apache-2.0
//! Node ids. A host is a node; its id comes from the first of these that says it:
//!
//! 1. `BELLWIRE_SISCI=node=ID`;
//! 2. the table: the line whose address is one of this host. The table is `BELLWIRE_SISCI_NODES`
//!    (`4=10.0.0.1,8=10.0.0.2`, or the name of a file), else `/etc/bellwire/nodes` if it is there:
//!    lines of an id and an address;
//! 3. the address of this host (`BELLWIRE_ADDRESS`, else the one from which packets leave): its
//!    last 16 bits, so that 10.0.3.7 is node 775. Without a network: 1.

use crate::auto_flush::Finding;
use bellwire_via::wire::udp::address_from;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Where the table lies unless a variable says otherwise.
pub const TABLE: &str = "/etc/bellwire/nodes";
/// The largest id: `sci_address_t` has 16 bits.
pub const ID_MAX: u32 = 0xFFFF;

/// The ids that are known, and what else `BELLWIRE_SISCI` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// This host's.
    pub own: u32,
    /// The table.
    pub table: Vec<(u32, IpAddr)>,
    /// What the own id is derived from, for people.
    pub reason: String,
    /// Whether other users may connect.
    pub all_users: bool,
    /// Whether the program is to say at its start what is derived from what.
    pub explain: bool,
    /// How stores through maps of other hosts' segments are found.
    pub finding: Finding,
    /// How old what loads through such maps show may be, besides the time of a fetch; without it,
    /// it is what was last fetched by a call.
    pub loads: Option<Duration>,
    /// Whether other nodes of this host are reached as if they were elsewhere: to test
    /// (`BELLWIRE_SHM=off`).
    pub apart: bool,
    /// This host's address, from which addresses of other ids are derived if there is no table.
    pub address: IpAddr,
}

/// What of the process's surroundings is looked at: variables, files and addresses.
pub trait Surroundings {
    /// A variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// The text of a file.
    fn file(&self, path: &str) -> Option<String>;
    /// Whether it is an address of this host.
    fn is_own(&self, address: IpAddr) -> bool;
    /// The address from which packets leave.
    fn outgoing(&self) -> Option<IpAddr>;
}

/// The real ones.
#[derive(Debug)]
pub struct Here;

impl Surroundings for Here {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|v| !v.is_empty())
    }

    fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn is_own(&self, address: IpAddr) -> bool {
        UdpSocket::bind((address, 0)).is_ok()
    }

    fn outgoing(&self) -> Option<IpAddr> {
        // An address reserved for examples: routed as the rest of the world is; nothing is sent.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    }
}

impl Nodes {
    /// Derives everything.
    ///
    /// # Errors
    /// A text that names the variable, its value and what is allowed.
    pub fn from(here: &dyn Surroundings) -> Result<Self, String> {
        let mut chosen = None;
        let (mut all_users, mut explain, mut finding, mut loads) = (false, false, Finding::default(), None);
        for word in here.variable("BELLWIRE_SISCI").unwrap_or_default().split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word.split_once('=') {
                Some(("node", id)) => chosen = Some(parse_id(id).ok_or_else(|| format!("BELLWIRE_SISCI: node={id}: an id is 1 to {ID_MAX}"))?),
                Some(("users", "own")) => all_users = false,
                Some(("users", "all")) => all_users = true,
                Some(("stores", "pages")) => finding = Finding::Pages,
                Some(("stores", "compare")) => finding = Finding::Compare,
                Some(("loads", age)) => loads = Some(parse_age(age).ok_or_else(|| format!("BELLWIRE_SISCI: loads={age}: 50 to 1000000 microseconds"))?),
                None if word == "explain" => explain = true,
                _ => {
                    return Err(format!(
                        "BELLWIRE_SISCI: {word}: allowed are node=ID, users=own, users=all, stores=pages, stores=compare, loads=MICROSECONDS and explain, with commas between"
                    ));
                }
            }
        }
        let (table, origin) = match here.variable("BELLWIRE_SISCI_NODES") {
            Some(text) if text.contains('=') => {
                (parse_table(&text.replace('=', " ").replace(',', "\n"), "BELLWIRE_SISCI_NODES")?, "BELLWIRE_SISCI_NODES".to_string())
            }
            Some(path) => (parse_table(&here.file(&path).ok_or_else(|| format!("BELLWIRE_SISCI_NODES: {path} cannot be read"))?, &path)?, path),
            None => (here.file(TABLE).map_or(Ok(Vec::new()), |text| parse_table(&text, TABLE))?, TABLE.to_string()),
        };
        let stated = here.variable("BELLWIRE_ADDRESS").and_then(|a| address_from(&a)).map(|a| a.ip());
        let address = stated.or_else(|| here.outgoing()).unwrap_or(Ipv4Addr::LOCALHOST.into());
        let listed = table.iter().find(|(_, a)| *a == address).or_else(|| table.iter().find(|(_, a)| here.is_own(*a)));
        let (own, reason) = match (chosen, listed) {
            (Some(id), _) => (id, "BELLWIRE_SISCI".to_string()),
            (None, Some((id, a))) => (*id, format!("{a} in {origin}")),
            (None, None) => (derive(address), format!("the last 16 bits of {address}")),
        };
        // As others know it.
        let address = stated.or(listed.map(|(_, a)| *a)).unwrap_or(address);
        let apart = here.variable("BELLWIRE_SHM").as_deref() == Some("off");
        Ok(Self { own, table, reason, all_users, explain, finding, loads, apart, address })
    }

    /// Whether the table has this host and others, so that this process is to reach other hosts.
    pub(crate) fn spans_hosts(&self) -> bool {
        let is_own = |address: IpAddr| address == self.address || Here.is_own(address);
        !self.address.is_loopback() && self.table.iter().any(|(_, a)| *a == self.address) && self.table.iter().any(|(_, a)| !is_own(*a))
    }

    /// The address of a node, as far as it is known.
    pub fn address_of(&self, id: u32) -> Option<IpAddr> {
        if let Some((_, address)) = self.table.iter().find(|(i, _)| *i == id) {
            return Some(*address);
        }
        if id == self.own {
            return Some(self.address);
        }
        match self.address {
            IpAddr::V4(own) if self.table.is_empty() && !own.is_loopback() => {
                let [a, b, ..] = own.octets();
                Some(Ipv4Addr::new(a, b, (id >> 8) as u8, id as u8).into())
            }
            _ => None,
        }
    }
}

impl Nodes {
    /// The node of an address, as far as it is known: the reverse of
    /// [`address_of`](Self::address_of). Loopback addresses are this host's.
    pub fn node_of(&self, address: IpAddr, here: &dyn Surroundings) -> Option<u32> {
        if let Some((id, _)) = self.table.iter().find(|(_, a)| *a == address) {
            return Some(*id);
        }
        if address.is_loopback() || address == self.address || here.is_own(address) {
            return Some(self.own);
        }
        let id = derive(address);
        (self.address_of(id) == Some(address)).then_some(id)
    }
}

fn derive(address: IpAddr) -> u32 {
    let low = match address {
        IpAddr::V4(a) => u32::from(a) & ID_MAX,
        IpAddr::V6(a) => u128::from(a) as u32 & ID_MAX,
    };
    low.max(1)
}

fn parse_id(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|id| (1..=ID_MAX).contains(id))
}

fn parse_age(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|age| (50..=1_000_000).contains(age)).map(Duration::from_micros)
}

fn parse_table(text: &str, origin: &str) -> Result<Vec<(u32, IpAddr)>, String> {
    let mut table: Vec<(u32, IpAddr)> = Vec::new();
    for line in text.lines().map(|l| l.split('#').next().unwrap_or("").trim()).filter(|l| !l.is_empty()) {
        let bad = || format!("{origin}: {line}: a line is an id (1 to {ID_MAX}) and an IP address, each once");
        let mut words = line.split_ascii_whitespace();
        let (Some(id), Some(address), None) = (words.next(), words.next(), words.next()) else { return Err(bad()) };
        let entry = (parse_id(id).ok_or_else(bad)?, address.parse::<IpAddr>().map_err(|_| bad())?);
        if table.iter().any(|(i, a)| *i == entry.0 || *a == entry.1) {
            return Err(bad());
        }
        table.push(entry);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Told(&'static [(&'static str, &'static str)]);

    impl Surroundings for Told {
        fn variable(&self, name: &str) -> Option<String> {
            self.0.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_string())
        }
        fn file(&self, path: &str) -> Option<String> {
            self.variable(path)
        }
        fn is_own(&self, address: IpAddr) -> bool {
            address == IpAddr::from([10, 0, 3, 7])
        }
        fn outgoing(&self) -> Option<IpAddr> {
            self.variable("offline").is_none().then_some([10, 0, 3, 7].into())
        }
    }

    fn nodes(told: &'static [(&'static str, &'static str)]) -> Result<Nodes, String> {
        Nodes::from(&Told(told))
    }

    #[test]
    fn derived_listed_and_chosen() {
        let n = nodes(&[]).unwrap();
        assert_eq!((n.own, n.address_of(256 + 9)), (775, Some([10, 0, 1, 9].into())));
        assert_eq!(nodes(&[("offline", "")]).unwrap().own, 1);
        assert_eq!(nodes(&[("BELLWIRE_ADDRESS", "10.0.0.9")]).unwrap().own, 9);
        let n = nodes(&[("BELLWIRE_SISCI_NODES", "4=10.0.3.6,8=10.0.3.7")]).unwrap();
        assert_eq!((n.own, n.address_of(4), n.address_of(5)), (8, Some([10, 0, 3, 6].into()), None));
        assert!(n.reason.contains("BELLWIRE_SISCI_NODES"), "{}", n.reason);
        assert_eq!(nodes(&[(TABLE, "# ours\n12 10.0.3.7 # here\n")]).unwrap().own, 12);
        let n = nodes(&[("BELLWIRE_SISCI", "node=5, users=all,explain"), (TABLE, "12 10.0.3.7")]).unwrap();
        assert_eq!((n.own, n.all_users, n.explain, n.finding), (5, true, true, Finding::Surely));
        let n = nodes(&[("BELLWIRE_SISCI", "stores=pages")]).unwrap();
        assert_eq!(n.finding, Finding::Pages);
        let n = nodes(&[("BELLWIRE_SISCI", "stores=compare,loads=2000")]).unwrap();
        assert_eq!((n.finding, n.loads), (Finding::Compare, Some(Duration::from_millis(2))));
    }

    #[test]
    fn an_address_has_the_node_that_has_the_address() {
        let of = |n: &Nodes, a: [u8; 4]| n.node_of(a.into(), &Told(&[]));
        let n = nodes(&[]).unwrap();
        assert_eq!([of(&n, [127, 0, 0, 9]), of(&n, [10, 0, 3, 7]), of(&n, [10, 0, 1, 9])], [Some(775), Some(775), Some(256 + 9)]);
        assert_eq!(of(&n, [10, 1, 1, 9]), None, "another network has the same last bits");
        let n = nodes(&[("BELLWIRE_SISCI_NODES", "4=10.0.3.6,8=10.0.3.7")]).unwrap();
        assert_eq!([of(&n, [10, 0, 3, 6]), of(&n, [127, 0, 0, 1]), of(&n, [10, 0, 3, 5])], [Some(4), Some(8), None]);
    }

    #[test]
    fn nonsense_is_named() {
        for told in [
            &[("BELLWIRE_SISCI", "node=0")][..],
            &[("BELLWIRE_SISCI", "node=65536")],
            &[("BELLWIRE_SISCI", "quick")],
            &[("BELLWIRE_SISCI", "stores=")],
            &[("BELLWIRE_SISCI", "loads=49")],
            &[("BELLWIRE_SISCI_NODES", "4=here")],
            &[("BELLWIRE_SISCI_NODES", "4=10.0.0.1,4=10.0.0.2")],
            &[("BELLWIRE_SISCI_NODES", "/not/there")],
            &[(TABLE, "4")],
        ] {
            let error = Nodes::from(&Told(told)).unwrap_err();
            assert!(error.starts_with(told[0].0) || error.starts_with("BELLWIRE"), "{error}");
        }
    }
}
