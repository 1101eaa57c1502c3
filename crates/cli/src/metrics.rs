// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire metrics`: the counters of running processes as text for Prometheus, once or by HTTP.

mod exposition;
mod families;
mod serve;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use self::serve::Place;
use crate::top::model::Model;
use bellwire_report::output;

const LONG_ABOUT: &str = "\
Prints the counters that bellwire top shows, of the NICs of running processes of this user and of the host's agents, as text for Prometheus. \
With --listen it answers HTTP requests for /metrics until it is ended; processes are asked when a request comes, and pay nothing in between. A family of --requests has the times of requests as the quantiles of a moment.

A port is one of loopback: whoever is on this host can read it. A UNIX socket is for this user alone.";

const AFTER_HELP: &str = "\
Examples:
  bellwire metrics
  bellwire metrics --listen 127.0.0.1:9467
  bellwire metrics --listen unix:/run/user/1000/bellwire.metrics
  curl --unix-socket /run/user/1000/bellwire.metrics http://localhost/metrics

Exit status:
  0; 1 if the port or the socket cannot be had; 2 if the arguments were wrong.";

fn place(text: &str) -> Result<Place, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return if path.is_empty() { Err("unix: wants the path of a socket".to_owned()) } else { Ok(Place::Path(PathBuf::from(path))) };
    }
    let address: SocketAddr = text.parse().map_err(|_| "an address with a port (127.0.0.1:9467), or unix:PATH".to_owned())?;
    if address.ip().is_loopback() {
        Ok(Place::Port(address))
    } else {
        Err("an address of loopback: the text tells what programs run here. To show it to other hosts, have a web server do so, with what it knows of users"
            .to_owned())
    }
}

/// Print counters of running processes as text for Prometheus, or serve them
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// This process only
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,

    /// Answer requests there: an address of loopback with a port (0 for any that is free, which is
    /// said on standard error), or unix: and the path of a socket
    #[arg(long, value_name = "PLACE", value_parser = place)]
    listen: Option<Place>,

    /// How long requests take, too: at each answer processes are traced for 50 ms, which are slower
    /// meanwhile (bellwire explain --pid)
    #[arg(long)]
    requests: bool,

    /// Leave out single virtual interfaces: programs may have thousands
    #[arg(long)]
    no_vis: bool,
}

/// Prints or serves.
///
/// # Errors
/// A sentence.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let look = || {
        let seen = Model::default().look(arguments.pid);
        if arguments.requests { seen.with_requests(arguments.pid) } else { seen }
    };
    let text = || families::text(&look(), !arguments.no_vis);
    match &arguments.listen {
        None => output::print(&text()),
        Some(place) => serve::run(place, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!(place("127.0.0.1:9467"), Ok(Place::Port("127.0.0.1:9467".parse().unwrap())));
        assert_eq!(place("[::1]:0"), Ok(Place::Port("[::1]:0".parse().unwrap())));
        assert_eq!(place("unix:/a b"), Ok(Place::Path("/a b".into())));
        for wrong in ["", "unix:", "0.0.0.0:9467", "192.0.2.1:9467", "127.0.0.1", "[::]:1"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
