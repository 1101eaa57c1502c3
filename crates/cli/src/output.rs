// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the commands share: printing, and how this executable starts itself for measuring.

use std::io::Write;
use std::path::{Path, PathBuf};

use bellwire_logp::Error;
use bellwire_logp::job::{Reliability, Waiting};
use bellwire_logp::pin::Pinning;
use bellwire_logp::route::Route;
use bellwire_logp::session::SessionConfig;

/// The hidden command of a measuring process.
pub const PEER_COMMAND: &str = "perf-peer";

/// Prints to standard output.
///
/// # Errors
/// If that fails, except that the reader has gone: who closes the pipe early has seen enough.
pub fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// Prints a report: the table, or with "-" the JSON; any other `path` is a file for the JSON, beside the table.
///
/// # Errors
/// If something cannot be written.
pub fn report(path: Option<&Path>, json: impl FnOnce() -> Result<String, Error>, table: impl FnOnce() -> String) -> Result<(), String> {
    let json = || json().map_err(|error| error.to_string());
    if path == Some(Path::new("-")) {
        return print(&json()?);
    }
    // First: if the file cannot be written, the figures are not lost.
    print(&table())?;
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, json()?).map_err(|error| format!("{}: {error}", path.display()))
}

/// This executable.
///
/// # Errors
/// If it cannot be found.
pub fn executable() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))
}

/// Measuring processes on these processors, polling, at Reliable Delivery.
///
/// # Errors
/// If this executable cannot be found.
pub fn session(pinning: Pinning) -> Result<SessionConfig, String> {
    Ok(SessionConfig {
        worker: (executable()?, vec![PEER_COMMAND.to_owned()]),
        pinning,
        library: None,
        device: "nic0".to_owned(),
        reliability: Reliability::ReliableDelivery,
        waiting: Waiting::Poll,
        route: Route::shared_memory(),
        environment: Vec::new(),
        may_fail: false,
    })
}
