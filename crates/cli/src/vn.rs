// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire vn`: virtual networks of the host's agent.

use bellwire_inspect::agent;
use clap::Subcommand;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;

/// Make, list and remove the virtual networks of the host's agent.
///
/// A program with BELLWIRE_NIC=host is in the network that BELLWIRE_NETWORK names, or in that of everybody.
/// It reaches programs of the same network only. Hosts agree on a network whose name and key are the same on both.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The address of the agent; the host's first one if there is none
    #[arg(long, global = true, value_name = "IP")]
    agent: Option<IpAddr>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the networks
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a network, or change the members of one
    Make {
        /// Its name, up to 32 bytes
        name: String,
        /// A user, by number, who may be in it without the key
        #[arg(long = "member", value_name = "UID")]
        members: Vec<u32>,
        /// The file of its key, up to 32 bytes, which lets other users in and is the same on all hosts
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
    },
    /// Remove a network; programs in it lose their endpoints
    Remove {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let ask = |command: &Value| agent::ask(arguments.agent, command).map_err(|e| e.to_string());
    match &arguments.command {
        Command::List { json } => {
            let answer = ask(&json!({ "ask": "networks" }))?;
            if *json {
                println!("{answer}");
            } else {
                print!("{}", table(&answer));
            }
            Ok(())
        }
        Command::Make { name, members, key_file } => {
            let key = match key_file {
                None => String::new(),
                Some(file) => std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?.trim_end().to_owned(),
            };
            ask(&json!({ "make": { "name": name, "key": key, "members": members } })).map(drop)
        }
        Command::Remove { name } => ask(&json!({ "remove": name })).map(drop),
    }
}

fn table(answer: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().chars().filter(|c| !c.is_control()).collect::<String>();
    let mut out = format!("{:32}  {:4}  members\n", "network", "key");
    for network in answer["networks"].as_array().into_iter().flatten() {
        let members: Vec<String> = network["members"].as_array().into_iter().flatten().map(Value::to_string).collect();
        let key = if text(&network["key"]).is_empty() { "-" } else { "yes" };
        let _ = writeln!(out, "{:32}  {key:4}  {}", text(&network["name"]), if members.is_empty() { "-".to_owned() } else { members.join(" ") });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_no_key() {
        let shown = table(&json!({ "networks": [{ "name": "physics", "key": "secret", "members": [7, 8] }, { "name": "b\u{1b}", "key": "", "members": [] }] }));
        assert!(shown.contains("physics") && shown.contains("yes   7 8") && !shown.contains("secret") && !shown.contains('\u{1b}'), "{shown}");
    }
}
