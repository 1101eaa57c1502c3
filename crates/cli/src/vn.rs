// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire vn`: virtual networks of the host's agent.

use bellwire_inspect::agent::{self, Network};
use bellwire_report::output;
use clap::{Args, Subcommand};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;

const LONG_ABOUT: &str = "\
Makes, lists and removes the virtual networks of the host's agent (bellwired).

A program with BELLWIRE_NIC=host is in the network that BELLWIRE_NETWORK names, or else in the one of everybody. It \
reaches programs of the same network only. A user may be in a network who is a member of it, or whose program shows \
its key (BELLWIRE_NETWORK_KEY_FILE); root and the agent's user may be in all. Hosts agree on a network whose name and \
key are the same on both.

Networks outlive the agent: bellwired keeps them in the file of its option --networks.";

/// Make, list and remove virtual networks of the host's agent
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT)]
pub struct Arguments {
    /// The address of the agent; without it the host's first one is asked
    #[arg(long, global = true, value_name = "IP")]
    agent: Option<IpAddr>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the networks
    List {
        /// One JSON object instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Make a network, or change the members of one
    Make {
        /// Its name, up to 32 bytes
        name: String,

        /// A user, by number, who may be in it without the key; more than once for several
        #[arg(long = "member", value_name = "UID")]
        members: Vec<u32>,

        /// The file of its key, up to 32 bytes: it lets other users in, and is the same on all
        /// hosts
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
    },
    /// Remove a network; programs that are in it lose their endpoints
    Remove {
        /// Its name
        name: String,
    },
}

/// Does what is asked.
///
/// # Errors
/// There is no agent, it is another user's, or what it says: this user may not, or it cannot be.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let at = arguments.agent;
    match &arguments.command {
        Command::List { json } => {
            let networks = agent::networks(at).map_err(|e| e.to_string())?;
            output::print(&if *json { serde_json::json!({ "format": 1, "networks": networks }).to_string() + "\n" } else { table(&networks) })
        }
        Command::Make { name, members, key_file } => {
            let key = match key_file {
                None => String::new(),
                Some(file) => std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?.trim().to_owned(),
            };
            if key_file.is_some() && key.is_empty() {
                return Err("the file of the key is empty".to_owned());
            }
            agent::make_network(at, name, &key, members).map_err(|e| e.to_string())
        }
        Command::Remove { name } => agent::remove_network(at, name).map_err(|e| e.to_string()),
    }
}

fn table(networks: &[Network]) -> String {
    if networks.is_empty() {
        return "no networks but that of everybody\n".to_owned();
    }
    let mut out = format!("{:32}  {:9}  {:3}  members\n", "network", "endpoints", "key");
    for network in networks {
        let members = match &network.members {
            None => "(shown to root and the agent's user)".to_owned(),
            Some(members) if members.is_empty() => "-".to_owned(),
            Some(members) => members.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
        };
        let key = if network.has_key { "yes" } else { "-" };
        let _ = writeln!(out, "{:32}  {:9}  {key:3}  {members}", network.name, network.endpoints);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_who_may_be_in() {
        let network =
            |name: &str, has_key, members: Option<&[u32]>| Network { name: name.to_owned(), has_key, members: members.map(<[u32]>::to_vec), endpoints: 3 };
        let shown = table(&[network("physics", true, Some(&[7, 8])), network("b", false, Some(&[])), network("c", false, None)]);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].starts_with("physics ") && lines[1].ends_with("3  yes  7 8"), "{shown}");
        assert!(lines[2].ends_with("-    -") && lines[3].contains("shown to root"), "{shown}");
        assert!(table(&[]).contains("everybody"));
    }
}
