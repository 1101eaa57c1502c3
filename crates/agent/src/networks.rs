// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual networks: objects with a name, a key and members. An endpoint is in one network and
//! reaches endpoints of the same one only (A2). Hosts agree on a network if its name and key agree
//! on both: the tag that packets carry is a keyed hash of the name.
//!
//! They are kept in a file, which only the agent's user can read, and so outlive the agent.

use bellwire_wire::agent::messages::{Label, NETWORK_BYTES_MAX};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Networks of an agent, and members of one, at most.
const NETWORKS_MAX: usize = 1024;
const MEMBERS_MAX: usize = 1024;

/// A virtual network.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VirtualNetwork {
    pub(crate) name: String,
    /// Shown by a program that is no member.
    pub(crate) key: String,
    /// Users who need no key.
    pub(crate) members: Vec<u32>,
}

impl VirtualNetwork {
    /// What packets carry; never 0, which is the default network's.
    fn tag(&self) -> u64 {
        let mut key = [0; 16];
        // A key of up to 32 bytes, folded: to tell networks apart, not to keep a secret.
        self.key.bytes().enumerate().for_each(|(i, b)| key[i % 16] ^= b);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(self.key.as_bytes());
        hasher.write(&[0]);
        hasher.write(self.name.as_bytes());
        hasher.finish().max(1)
    }

    fn check(&self) -> Result<(), String> {
        let fits = |text: &str| text.len() <= NETWORK_BYTES_MAX && !text.bytes().any(|b| b.is_ascii_control());
        if self.name.is_empty() || !fits(&self.name) {
            return Err(format!("a network's name has 1 to {NETWORK_BYTES_MAX} printable bytes"));
        }
        if !fits(&self.key) {
            return Err(format!("a network's key has up to {NETWORK_BYTES_MAX} printable bytes"));
        }
        if self.members.len() > MEMBERS_MAX {
            return Err(format!("a network has up to {MEMBERS_MAX} members"));
        }
        if self.key.is_empty() && self.members.is_empty() {
            return Err("a network needs members or a key: nobody could be in it".to_owned());
        }
        Ok(())
    }
}

/// The networks of an agent.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    all: Vec<VirtualNetwork>,
    file: Option<PathBuf>,
}

impl Networks {
    /// Those of a file; none if there is no file.
    pub(crate) fn load(file: Option<PathBuf>) -> Result<Self, String> {
        let Some(path) = &file else { return Ok(Self::default()) };
        let all = match std::fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(format!("{}: {e}", path.display())),
        };
        Ok(Self { all, file })
    }

    /// Whole or not at all.
    fn save(&self) -> Result<(), String> {
        let Some(path) = &self.file else { return Ok(()) };
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let next = path.with_extension("new");
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next).map_err(failed)?;
        let text = serde_json::to_vec_pretty(&self.all).map_err(|e| e.to_string())?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&next, path).map_err(failed)
    }

    pub(crate) fn list(&self) -> &[VirtualNetwork] {
        &self.all
    }

    /// Adds one, or changes the members of one with the same name and key.
    pub(crate) fn make(&mut self, network: VirtualNetwork) -> Result<(), String> {
        network.check()?;
        let before = self.all.clone();
        match self.all.iter_mut().find(|n| n.name == network.name) {
            Some(same) if same.key == network.key => same.members = network.members,
            Some(_) => return Err(format!("there is a network {} with another key: remove it first", network.name)),
            None if self.all.len() >= NETWORKS_MAX => return Err(format!("there are {NETWORKS_MAX} networks already")),
            None => self.all.push(network),
        }
        self.save().inspect_err(|_| self.all = before)
    }

    /// Removes one; the tag that its packets carry.
    pub(crate) fn remove(&mut self, name: &str) -> Result<u64, String> {
        let place = self.all.iter().position(|n| n.name == name).ok_or_else(|| format!("there is no network {name}"))?;
        let removed = self.all.remove(place);
        if let Err(error) = self.save() {
            self.all.insert(place, removed);
            return Err(error);
        }
        Ok(removed.tag())
    }

    /// The tag of a network, for a user who is a member or shows its key. The network without a
    /// name is everybody's.
    pub(crate) fn tag_for(&self, uid: u32, is_owner: bool, name: Label, key: Label) -> Option<u64> {
        if name.as_bytes().is_empty() {
            return Some(0);
        }
        let network = self.all.iter().find(|n| n.name.as_bytes() == name.as_bytes())?;
        let has_key = !network.key.is_empty() && network.key.as_bytes() == key.as_bytes();
        (is_owner || has_key || network.members.contains(&uid)).then(|| network.tag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(name: &str, key: &str, members: &[u32]) -> VirtualNetwork {
        VirtualNetwork { name: name.to_owned(), key: key.to_owned(), members: members.to_vec() }
    }

    fn label(text: &str) -> Label {
        Label::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn members_and_holders_of_the_key_are_in() {
        let mut networks = Networks::default();
        networks.make(network("physics", "secret", &[7])).unwrap();
        let tag = networks.tag_for(7, false, label("physics"), label("")).unwrap();
        assert_eq!(networks.tag_for(8, false, label("physics"), label("secret")), Some(tag));
        assert_eq!(networks.tag_for(8, true, label("physics"), label("")), Some(tag));
        for (name, key) in [("physics", ""), ("physics", "secre"), ("chemistry", "secret")] {
            assert_eq!(networks.tag_for(8, false, label(name), label(key)), None, "{name} {key}");
        }
        assert_eq!(networks.tag_for(8, false, label(""), label("")), Some(0));
        assert!(networks.make(network("physics", "other", &[])).unwrap_err().contains("another key"));
        assert_eq!(networks.remove("physics"), Ok(tag));
        assert!(networks.remove("physics").is_err());
        assert_ne!(network("physics", "other", &[]).tag(), tag);
        for bad in [network("", "k", &[]), network("n", "", &[]), network("n\n", "k", &[]), network(&"n".repeat(33), "k", &[])] {
            assert!(networks.make(bad).is_err());
        }
    }

    #[test]
    fn they_outlive_the_agent() {
        let file = std::env::temp_dir().join(format!("bellwire-networks-{}/networks.json", std::process::id()));
        let mut networks = Networks::load(Some(file.clone())).unwrap();
        networks.make(network("a", "k", &[1, 2])).unwrap();
        assert_eq!(Networks::load(Some(file.clone())).unwrap().list(), networks.list());
        std::fs::write(&file, "nonsense").unwrap();
        assert!(Networks::load(Some(file.clone())).unwrap_err().contains("networks.json"));
        std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    }
}
