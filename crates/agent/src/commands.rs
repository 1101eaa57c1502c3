// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask the agent, on a connection of its own: a line of JSON, answered by one.
//!
//! `{"ask":"status"}`, `{"ask":"networks"}`: anybody; keys and members are shown to the agent's user
//! and to root only. `{"make":{..}}`, `{"remove":"name"}`: the agent's user and root.

use crate::agent::Agent;
use crate::networks::VirtualNetwork;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Ask(Question),
    Make(VirtualNetwork),
    Remove(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Question {
    Status,
    Networks,
}

/// The endpoints of a user.
#[derive(Debug, Default, Serialize)]
struct User {
    uid: u32,
    endpoints: u64,
    resident: u64,
    sent: u64,
    received: u64,
    dropped: u64,
    loads: u64,
}

impl Agent {
    /// Answers a command of a user.
    pub(crate) fn command(&mut self, uid: u32, text: &[u8]) -> String {
        let is_owner = uid == 0 || uid == self.uid;
        let answer = match serde_json::from_slice::<Command>(text) {
            Err(error) => Err(format!("not a command: {error}")),
            Ok(Command::Ask(Question::Status)) => return self.status(),
            Ok(Command::Ask(Question::Networks)) => {
                let mut networks = self.networks.list().to_vec();
                if !is_owner {
                    networks.iter_mut().for_each(|n| (n.key, n.members) = (String::new(), Vec::new()));
                }
                return serde_json::json!({ "networks": networks }).to_string();
            }
            Ok(_) if !is_owner => Err("only root and the agent's user change networks".to_owned()),
            Ok(Command::Make(network)) => self.networks.make(network),
            Ok(Command::Remove(name)) => self.networks.remove(&name).map(|tag| {
                // Whoever is in it hears that it is over.
                self.end_network(tag);
            }),
        };
        match answer {
            Ok(()) => "{}".to_owned(),
            Err(error) => serde_json::json!({ "error": error }).to_string(),
        }
    }

    fn status(&self) -> String {
        let mut users: BTreeMap<u32, User> = BTreeMap::new();
        for endpoint in self.endpoints.iter() {
            let user = users.entry(endpoint.uid).or_insert_with(|| User { uid: endpoint.uid, ..User::default() });
            user.endpoints += 1;
            user.resident += u64::from(endpoint.end.is_some());
            user.sent += endpoint.traffic.sent;
            user.received += endpoint.traffic.received;
            user.dropped += endpoint.traffic.dropped;
            user.loads += endpoint.traffic.loads;
        }
        let (residency, counters) = (self.residency.statistics(), self.counters);
        serde_json::json!({
            "format": 1,
            "address": self.network.own().to_string(),
            "frames": self.config.frames,
            "resident": self.resident.len(),
            "waiting": self.residency.waiting(),
            "endpoints": self.endpoints.count(),
            "networks": self.networks.list().len(),
            "faults": residency.faults,
            "loads": residency.loads,
            "unloads": residency.unloads,
            "waited_ns": residency.waited.0,
            "waited_max_ns": residency.waited_max.0,
            "attached": counters.attached,
            "refused": counters.refused,
            "broken": counters.broken,
            "foreign": counters.foreign,
            "not_resident": counters.not_resident,
            "packets": counters.packets,
            "datagrams": counters.datagrams,
            "datagrams_strange": self.network.strange,
            "datagrams_lost": self.network.lost,
            "sleeps": counters.sleeps,
            // Those with most endpoints would do; all of them may not fit into an answer.
            "users": users.into_values().take(512).collect::<Vec<_>>(),
        })
        .to_string()
    }
}
