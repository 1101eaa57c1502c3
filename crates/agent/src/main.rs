// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's agent: one network interface for the programs of many users.

#![forbid(unsafe_code)]

use bellwire_agent::{Agent, AgentConfig};
use bellwire_wire::agent::AGENT_PORT;
use bellwire_wire::agent::segment::Sizes;
use bellwire_wire::udp::address_from;
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

/// The host's agent: one network interface for the programs of many users.
///
/// Programs use it with BELLWIRE_NIC=host. Root's agent serves all users of the host; any user may
/// run one for himself. It may be ended and started anew at any time: programs attach themselves
/// again, and what was under way is sent again.
#[derive(Debug, Parser)]
#[command(name = "bellwired", version, max_term_width = 100)]
struct Arguments {
    /// The address at which other hosts reach this one: an IP address, an interface, or auto
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: String,
    /// The UDP port of agents, the same on all hosts
    #[arg(long, value_name = "PORT", default_value_t = AGENT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Endpoints that are served at a time; the others wait for a frame
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=65536))]
    frames: u32,
    /// Endpoints at a time
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=64_000))]
    endpoints: u32,
    /// Endpoints of one user
    #[arg(long, value_name = "N", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=64_000))]
    user_endpoints: u32,
    /// Packets of one endpoint's turn
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65536))]
    turn: u32,
    /// Looks at an empty ring within a turn, in the hope of more packets
    #[arg(long, value_name = "K", default_value_t = 2)]
    loiter: u32,
    /// Time that an endpoint with packets to send keeps its frame at least, in microseconds
    #[arg(long, value_name = "US", default_value_t = 5_000)]
    stay_us: u64,
    /// Time that the agent looks for work before it sleeps, in microseconds
    #[arg(long, value_name = "US", default_value_t = 20)]
    spin_us: u64,
    /// Bytes of each of an endpoint's two rings: a power of two
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 18)]
    ring_bytes: u32,
    /// The file in which virtual networks are kept [default: one for each address, in
    /// /var/lib/bellwire for root, else in ~/.local/state/bellwire]
    #[arg(long, value_name = "FILE")]
    networks: Option<PathBuf>,
    /// Faults on purpose for packets to other hosts, such as loss=0.1,dup=0.1,seed=7
    #[arg(long, value_name = "PLAN")]
    faults: Option<String>,
}

/// Where the networks of an agent are kept.
fn usual_file(address: IpAddr) -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = match rustix::process::geteuid().is_root() {
        true => PathBuf::from("/var/lib"),
        false => std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute()).or_else(home)?,
    };
    Some(base.join("bellwire").join(format!("networks-{address}.json")))
}

fn config_of(arguments: &Arguments) -> Result<AgentConfig, String> {
    let defaults = AgentConfig::default();
    let mut address: SocketAddr =
        address_from(&arguments.address).ok_or_else(|| format!("--address {}: no address or interface of this host", arguments.address))?;
    address.set_port(arguments.port);
    let rings = Sizes::new(arguments.ring_bytes, arguments.ring_bytes).ok_or("--ring-bytes must be a power of two, 65536 to 67108864")?;
    let faults = arguments.faults.as_ref().map(|plan| plan.parse().map_err(|e| format!("--faults: {e}"))).transpose()?;
    Ok(AgentConfig {
        address,
        frames: arguments.frames as usize,
        endpoints: arguments.endpoints as usize,
        user_endpoints: arguments.user_endpoints as usize,
        turn_packets: arguments.turn,
        loiter: arguments.loiter,
        stay: bellwire_time::Duration::from_micros(arguments.stay_us),
        spin: bellwire_time::Duration::from_micros(arguments.spin_us),
        rings,
        networks: arguments.networks.clone().or_else(|| usual_file(address.ip())),
        faults,
        seed: u64::from(std::process::id()),
        ..defaults
    })
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let mut agent = Agent::open(config_of(arguments)?).map_err(|e| e.to_string())?;
    let (stop, stopper) = UnixStream::pair().map_err(|e| e.to_string())?;
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let stopper = stopper.try_clone().map_err(|e| e.to_string())?;
        signal_hook::low_level::pipe::register(signal, stopper).map_err(|e| e.to_string())?;
    }
    println!("bellwired: serving {} with {} frames", agent.address(), arguments.frames);
    agent.run(stop.as_fd());
    Ok(())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bellwired: {error}");
            ExitCode::FAILURE
        }
    }
}
