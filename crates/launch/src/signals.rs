// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals to the launcher, as readable events.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

/// The forwarded signals.
const FORWARDED: [i32; 8] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT];

/// Signals that have come.
#[derive(Debug)]
pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
}

impl Signals {
    /// Takes the signals; children get their usual effects back by exec.
    pub(crate) fn take() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Self { delivery: SignalDelivery::with_pipe(read, write, SignalOnly, FORWARDED)? })
    }

    /// Becomes readable with a signal.
    pub(crate) fn bell(&self) -> &UnixStream {
        self.delivery.get_read()
    }

    /// The signals that came since the last time.
    pub(crate) fn pending(&mut self) -> Vec<i32> {
        // Bytes of the bell that were not read would ring for ever.
        while rustix::io::read(self.bell(), &mut [0; 64]).is_ok_and(|read| read > 0) {}
        self.delivery.pending().collect()
    }
}

/// The signal of a number, for sending.
pub(crate) fn signal(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}

/// Its name, for people.
pub(crate) fn name(number: i32) -> String {
    signal_hook::low_level::signal_name(number).map_or_else(|| format!("signal {number}"), str::to_owned)
}
