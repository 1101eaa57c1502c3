// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual networks: objects with a name, a key and members. An endpoint is in one network, and
//! reaches endpoints of the same one only (A2).
//!
//! Hosts agree on a network if its name and its key are the same on both: the tag that packets
//! between agents carry is a hash of the two. A network without a key is therefore one of the name
//! alone, whose members each host chooses.
//!
//! They are kept in a file that only the agent's user can read, and so outlive the agent.

use bellwire_wire::agent::messages::{Label, NETWORK_BYTES_MAX};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Networks of an agent, and members of one, at most.
const NETWORKS_MAX: usize = 1024;
const MEMBERS_MAX: usize = 256;

/// A virtual network.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VirtualNetwork {
    pub(crate) name: String,
    /// What a program shows whose user is no member; empty: only members are let in.
    #[serde(default)]
    pub(crate) key: String,
    /// Users who need no key.
    #[serde(default)]
    pub(crate) members: Vec<u32>,
}

impl VirtualNetwork {
    /// The number that its packets carry. It is never 0, which is that of the default network.
    pub(crate) fn tag(&self) -> u64 {
        let mut hash = Sha256::new();
        // With its length in front, a key cannot pass for a part of a name.
        hash.update([self.key.len() as u8]);
        hash.update(self.key.as_bytes());
        hash.update(self.name.as_bytes());
        let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = hash.finalize().into();
        u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1)
    }

    /// Whether a program shows its key. How long that takes tells nothing of the key.
    fn is_opened_by(&self, key: Label) -> bool {
        !self.key.is_empty() && Sha256::digest(self.key.as_bytes()) == Sha256::digest(key.as_bytes())
    }

    fn check(&self) -> Result<(), String> {
        let fits = |text: &str| text.len() <= NETWORK_BYTES_MAX && !text.bytes().any(|b| b.is_ascii_control());
        if self.name.is_empty() || !fits(&self.name) {
            return Err(format!("the name of a network has 1 to {NETWORK_BYTES_MAX} bytes that can be printed"));
        }
        if !fits(&self.key) {
            return Err(format!("the key of a network has up to {NETWORK_BYTES_MAX} bytes that can be printed"));
        }
        if self.members.len() > MEMBERS_MAX {
            return Err(format!("a network has up to {MEMBERS_MAX} members: give it a key for more"));
        }
        Ok(())
    }
}

/// The networks of an agent, by their names.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    all: Vec<VirtualNetwork>,
    file: Option<PathBuf>,
}

impl Networks {
    /// Those of a file; none if there is no file.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or is not one of networks.
    pub(crate) fn load(file: Option<PathBuf>) -> Result<Self, String> {
        let Some(path) = &file else { return Ok(Self::default()) };
        let told = |e: &dyn core::fmt::Display| format!("{}: {e}", path.display());
        let all: Vec<VirtualNetwork> = match std::fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| told(&e))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(told(&e)),
        };
        let mut networks = Self::default();
        for network in all {
            networks.make(network).map_err(|e| told(&e))?;
        }
        Ok(Self { file, ..networks })
    }

    /// Writes the file anew, whole or not at all.
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
    ///
    /// # Errors
    /// A sentence; nothing has changed.
    pub(crate) fn make(&mut self, network: VirtualNetwork) -> Result<(), String> {
        network.check()?;
        let before = self.all.clone();
        match self.all.binary_search_by(|n| n.name.cmp(&network.name)) {
            Ok(at) if self.all[at].key == network.key => self.all[at].members = network.members,
            Ok(_) => return Err(format!("there is a network {} with another key: remove it first", network.name)),
            Err(_) if self.all.len() >= NETWORKS_MAX => return Err(format!("there are {NETWORKS_MAX} networks already")),
            Err(at) => self.all.insert(at, network),
        }
        self.save().inspect_err(|_| self.all = before)
    }

    /// Removes one, and gives the tag that its packets carry.
    ///
    /// # Errors
    /// A sentence; nothing has changed.
    pub(crate) fn remove(&mut self, name: &str) -> Result<u64, String> {
        let at = self.all.binary_search_by(|n| n.name.as_str().cmp(name)).map_err(|_| format!("there is no network {name}"))?;
        let removed = self.all.remove(at);
        if let Err(error) = self.save() {
            self.all.insert(at, removed);
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
        let at = self.all.binary_search_by(|n| n.name.as_bytes().cmp(name.as_bytes())).ok()?;
        let network = &self.all[at];
        (is_owner || network.members.contains(&uid) || network.is_opened_by(key)).then(|| network.tag())
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
        networks.make(network("astronomy", "", &[7])).unwrap();
        let tag = networks.tag_for(7, false, label("physics"), label("")).unwrap();
        assert_eq!(networks.tag_for(8, false, label("physics"), label("secret")), Some(tag));
        assert_eq!(networks.tag_for(8, true, label("physics"), label("")), Some(tag), "root and the agent's user");
        assert_ne!(networks.tag_for(7, false, label("astronomy"), label("")), Some(tag));
        for (name, key) in [("physics", ""), ("physics", "secre"), ("chemistry", "secret"), ("astronomy", "")] {
            assert_eq!(networks.tag_for(8, false, label(name), label(key)), None, "{name} {key}");
        }
        assert_eq!(networks.tag_for(8, false, label(""), label("")), Some(0));
        assert!(networks.make(network("physics", "other", &[])).unwrap_err().contains("another key"));
        networks.make(network("physics", "secret", &[9])).unwrap();
        assert_eq!(networks.tag_for(7, false, label("physics"), label("")), None, "no longer a member");
        assert_eq!(networks.remove("physics"), Ok(tag));
        assert!(networks.remove("physics").is_err());
        assert_ne!(network("physics", "other", &[]).tag(), tag);
        assert_ne!(network("ab", "c", &[]).tag(), network("b", "ca", &[]).tag());
        for bad in [network("", "k", &[]), network("n\n", "k", &[]), network(&"n".repeat(33), "k", &[]), network("n", &"k".repeat(33), &[])] {
            assert!(networks.make(bad).is_err());
        }
        assert!(networks.make(network("n", "", &[1; MEMBERS_MAX + 1])).is_err());
    }

    #[test]
    fn they_outlive_the_agent() {
        let file = std::env::temp_dir().join(format!("bellwire-networks-{}/networks.json", std::process::id()));
        let mut networks = Networks::load(Some(file.clone())).unwrap();
        networks.make(network("a", "k", &[1, 2])).unwrap();
        assert_eq!(Networks::load(Some(file.clone())).unwrap().list(), networks.list());
        for nonsense in ["nonsense", r#"[{"name":""}]"#, r#"[{"name":"a","colour":1}]"#] {
            std::fs::write(&file, nonsense).unwrap();
            assert!(Networks::load(Some(file.clone())).unwrap_err().contains("networks.json"));
        }
        std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    }
}
