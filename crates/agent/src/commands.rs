// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask the agent, on a connection of its own: each message is a command as JSON, and is
//! answered by one.
//!
//! | command | who | answer |
//! |---|---|---|
//! | `{"ask":"status"}` | anybody | counts, and the users with most endpoints |
//! | `{"networks":"a"}` | anybody | the networks whose names come after `a`, some at a time; keys and members are shown to root and the agent's user only |
//! | `{"make":{"name":"a","key":"k","members":[7]}}` | root, the agent's user | `{}` |
//! | `{"remove":"a"}` | root, the agent's user | `{}` |
//!
//! An answer to what cannot be done is `{"error":"why"}`.

use crate::agent::{Agent, Counters};
use crate::networks::VirtualNetwork;
use bellwire_time::Duration;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Networks in one answer, and users in that of the status: an answer is one packet of the socket.
const NETWORKS_PER_ANSWER: usize = 32;
const USERS_SHOWN: usize = 256;
/// How old a status may be.
const STATUS_TIME: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Ask(Question),
    Networks(String),
    Make(VirtualNetwork),
    Remove(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Question {
    Status,
}

/// The answer to `{"ask":"status"}`.
#[derive(Serialize)]
struct Status {
    format: u32,
    address: String,
    frames: usize,
    resident: usize,
    waiting: usize,
    endpoints: usize,
    networks: usize,
    faults: u64,
    loads: u64,
    unloads: u64,
    #[serde(flatten)]
    counters: Counters,
    users_in_all: usize,
    users: Vec<User>,
}

/// What a user has.
#[derive(Debug, Default, Serialize)]
struct User {
    uid: u32,
    endpoints: u64,
    frames: u64,
    packets: u64,
}

/// A network, as it is shown.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    has_key: bool,
    /// `None`: the user who asks may not know.
    members: Option<&'a [u32]>,
    endpoints: u64,
}

impl Agent {
    /// Whether a user may change the agent.
    pub(crate) fn is_owner(&self, uid: u32) -> bool {
        uid == 0 || uid == self.uid
    }

    /// Answers a command of a user.
    pub(crate) fn command(&mut self, uid: u32, text: &[u8]) -> String {
        let done = match serde_json::from_slice::<Command>(text) {
            Err(error) => Err(format!("not a command: {error}")),
            Ok(Command::Ask(Question::Status)) => return self.status_of_late(),
            Ok(Command::Networks(after)) => return self.list_networks(&after, self.is_owner(uid)),
            Ok(_) if !self.is_owner(uid) => Err("only root and the agent's user change networks".to_owned()),
            Ok(Command::Make(network)) => self.networks.make(network),
            // Its endpoints end with it.
            Ok(Command::Remove(name)) => self.networks.remove(&name).map(|tag| self.end_network(tag)),
        };
        match done {
            Ok(()) => "{}".to_owned(),
            Err(error) => json!({ "error": error }).to_string(),
        }
    }

    fn list_networks(&self, after: &str, is_owner: bool) -> String {
        let rest = || self.networks.list().iter().filter(|n| n.name.as_str() > after);
        let shown: Vec<Shown<'_>> = rest()
            .take(NETWORKS_PER_ANSWER)
            .map(|n| Shown {
                name: &n.name,
                has_key: !n.key.is_empty(),
                members: is_owner.then_some(&n.members),
                endpoints: self.endpoints.of_network(n.tag()),
            })
            .collect();
        json!({ "networks": shown, "more": rest().count() > NETWORKS_PER_ANSWER }).to_string()
    }

    /// The status, or that of a moment ago: it takes a look at every endpoint, and anybody may ask.
    fn status_of_late(&mut self) -> String {
        if self.status.0 <= self.now {
            self.status = (self.now + STATUS_TIME, self.status());
        }
        self.status.1.clone()
    }

    fn status(&self) -> String {
        let mut users: BTreeMap<u32, User> = BTreeMap::new();
        for endpoint in self.endpoints.iter() {
            let user = users.entry(endpoint.uid).or_insert_with(|| User { uid: endpoint.uid, ..User::default() });
            user.endpoints += 1;
            user.packets += endpoint.packets;
        }
        for place in &self.resident {
            if let Some(user) = self.endpoints.get(*place).and_then(|e| users.get_mut(&e.uid)) {
                user.frames += 1;
            }
        }
        let count = users.len();
        let mut users: Vec<User> = users.into_values().collect();
        users.sort_by_key(|user| core::cmp::Reverse(user.endpoints));
        users.truncate(USERS_SHOWN);
        let residency = self.residency.statistics();
        let status = Status {
            format: 1,
            address: self.network.own().to_string(),
            frames: self.config.frames,
            resident: self.resident.len(),
            waiting: self.residency.waiting(),
            endpoints: self.endpoints.count(),
            networks: self.networks.list().len(),
            faults: residency.faults,
            loads: residency.loads,
            unloads: residency.unloads,
            counters: self.counters,
            users_in_all: count,
            users,
        };
        json!(status).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentConfig;
    use serde_json::Value;
    use std::net::SocketAddr;

    /// An agent at an address that no other test has.
    fn agent(number: u32) -> Agent {
        let [_, a, b, c] = (0xe0_0000 | std::process::id() << 1 & 0xf_ffff | number).to_be_bytes();
        Agent::open(AgentConfig { address: SocketAddr::from(([127, a, b, c], bellwire_wire::agent::AGENT_PORT)), ..AgentConfig::default() }).unwrap()
    }

    #[test]
    fn only_root_and_the_agents_user_change_networks() {
        let mut agent = agent(0);
        let (own, other) = (agent.uid, agent.uid + 4711);
        let mut ask = |uid: u32, command: &str| -> Value { serde_json::from_str(&agent.command(uid, command.as_bytes())).unwrap() };
        let make = r#"{"make":{"name":"physics","key":"secret","members":[7]}}"#;
        for denied in [make, r#"{"remove":"physics"}"#] {
            assert!(ask(other, denied)["error"].as_str().unwrap().contains("only root"), "{denied}");
        }
        assert_eq!((ask(own, make), ask(0, make)), (json!({}), json!({})));
        let shown = |members: Value| json!({ "networks": [{ "name": "physics", "has_key": true, "members": members, "endpoints": 0 }], "more": false });
        assert_eq!(ask(own, r#"{"networks":""}"#), shown(json!([7])));
        assert_eq!(ask(other, r#"{"networks":""}"#), shown(Value::Null), "neither key nor members");
        assert_eq!(ask(own, r#"{"ask":"status"}"#)["networks"], json!(1));
        for nonsense in ["", "{", "{}", r#"{"ask":"everything"}"#, r#"{"make":{"name":""}}"#, r#"{"make":{"name":"n","colour":1}}"#, "{\"networks\":\"\u{0}"] {
            assert!(ask(own, nonsense)["error"].is_string(), "{nonsense}");
        }
        assert_eq!(ask(own, r#"{"remove":"physics"}"#), json!({}));
        assert!(ask(own, r#"{"remove":"physics"}"#)["error"].as_str().unwrap().contains("no network physics"));
    }

    #[test]
    fn many_networks_are_shown_some_at_a_time() {
        let mut agent = agent(1);
        for i in 0..100 {
            agent.networks.make(VirtualNetwork { name: format!("n{i:03}"), key: String::new(), members: vec![u32::MAX; 256] }).unwrap();
        }
        let (mut after, mut names, mut answers) = (String::new(), Vec::new(), 0);
        loop {
            let text = agent.command(0, json!({ "networks": after }).to_string().as_bytes());
            assert!(text.len() < 1 << 17, "an answer fits a packet of the socket");
            let answer: Value = serde_json::from_str(&text).unwrap();
            names.extend(answer["networks"].as_array().unwrap().iter().map(|n| n["name"].as_str().unwrap().to_owned()));
            after.clone_from(names.last().unwrap());
            answers += 1;
            if answer["more"] == json!(false) {
                break;
            }
        }
        assert_eq!((names.len(), answers), (100, 4));
        assert!(names.is_sorted());
    }
}
