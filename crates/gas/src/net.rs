// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that share no memory with this one: on other hosts, or kept apart on purpose.
//! Global memory by messages on connected VIs, one for each pair of processes.
//!
//! | file | what |
//! |---|---|
//! | `header.rs` | messages as bytes |
//! | `name.rs`, `meet.rs` | the names of processes; how they connect |
//! | `peer.rs`, `peer/answers.rs` | credits; messages to send, answers awaited; the answers to peers |
//! | `pack.rs`, `parts.rs` | several short requests in one message; long ones in several |
//! | `memory.rs` | this process's memory as peers may reach it |
//! | `core.rs` | the machine: messages that arrive |
//! | `ask.rs` | what the program asks for, tried once |
//! | `calls.rs`, `gather.rs` | the same until it is done: accesses, collective calls |
//! | `rounds.rs` | what a collective call sends to whom |
//! | `driven.rs` | the machine as the NIC's helper thread drives it while the program computes |
//! | `machine.rs` | the machine without a NIC, for fuzzers |
//! | `vi.rs` | words and bulk data by VIs of libvipl instead (`crates/gasvia`) |
//!
//! Here is the machine on a NIC: trying again, sleeping. The machine lives under the NIC's token
//! ([`Station`]). Every call of the program moves traffic of both directions while it waits;
//! nothing waits inside the machine, so no two processes wait for each other.
//!
//! Invariant C1 (of callers): memory that a call is given is readable or writable for its length;
//! that of a get, until [`Net::sync`] has returned.

mod ask;
mod calls;
mod core;
mod driven;
mod gather;
mod header;
pub mod machine;
mod meet;
mod memory;
mod name;
mod pack;
mod parts;
mod peer;
mod rounds;
mod vi;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_peer::Station;
use bellwire_via::nic::{HeldMachine, NicConfig, Udp, clock};
use bellwire_via::wire::host::HostWire;
use bellwire_via::wire::udp::{address_from, host_address};
use bellwire_via::{Engine, InboxHandle, Nic};

use self::core::Core;
pub use self::memory::Atomic;
pub(crate) use self::vi::version;
use crate::call::Lock;
use crate::error::{Death, Error, Trouble};
use crate::probe::{Off, Probe, Stage};
use crate::window::Window;

/// Looks that find nothing before a call sleeps; sleeping begins with a spin of its own.
const LOOKS: u32 = 16;
/// The same while something waits to leave: nobody says when there is room.
const LOOKS_TO_SEND: u32 = 2000;
/// Longest sleep, when somebody rings for what is awaited; and when nobody does.
const SLICE: Duration = Duration::from_millis(20);
const SLICE_UNRUNG: Duration = Duration::from_micros(100);
/// How long all processes together may take to connect.
const MEETING: Duration = Duration::from_secs(60);
/// How long a process that leaves waits until the others know.
const FAREWELL: Duration = Duration::from_secs(3);

/// Global memory by messages.
pub struct Net {
    station: Station<Core>,
    inbox: InboxHandle,
    /// See [`Core::served`].
    served: Arc<AtomicU32>,
    /// The VIs by which accesses go instead, if there are any.
    beside: Option<bellwire_gasvia::Station<memory::Memory>>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

/// How the NIC of a process is opened whose job spans hosts, or whose processes are kept apart.
///
/// # Errors
/// [`Error::Nic`]: the environment does not allow it.
pub fn config(is_on_several_hosts: bool, is_by_vis: bool) -> Result<NicConfig, Error> {
    let mut config = NicConfig::from_env().map_err(|error| Error::Nic(error.to_string()))?;
    if is_on_several_hosts && std::env::var_os("BELLWIRE_ADDRESS").is_none() {
        if is_by_vis {
            // libvipl reads it too.
            return Err(Error::Nic("this job is on several hosts: with BELLWIRE_GAS=vi set BELLWIRE_ADDRESS=auto".to_owned()));
        }
        let address = address_from("auto")
            .ok_or_else(|| Error::Nic("this job is on several hosts, and this one has no address for others: set BELLWIRE_ADDRESS".to_owned()))?;
        config.host = host_address(address);
    }
    config.udp.get_or_insert(Udp::default());
    Ok(config)
}

impl Net {
    /// Opens a NIC and connects to all `size` processes of the job, which reach the window, and
    /// call functions on it under the lock. Collective: `gather` gives everybody's block to
    /// everybody.
    ///
    /// # Errors
    /// [`Error::Nic`]; those of `gather`; [`Error::Trouble`]: a process cannot be reached.
    pub fn open(
        (rank, size): (u32, u32),
        config: NicConfig,
        memory: (Window, Lock),
        gather: impl FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, Error>,
    ) -> Result<Self, Error> {
        let nic = Nic::open(config).map_err(|error| Error::Nic(error.to_string()))?;
        let station = Station::open(nic, |engine| Core::create(engine, (rank, size), memory))?;
        let (own, inbox, served) = {
            let core = station.machine();
            (core.name.to_bytes(), core.mailbox.inbox(), Arc::clone(&core.served))
        };
        // Collective: nothing is held meanwhile.
        let blocks = gather(&own)?;
        station.machine().introduce(&blocks)?;
        station.with(|core, engine| {
            engine.set_now(clock());
            core.connect(engine).map_err(Error::from)
        })?;
        let net = Self { station, inbox, served, beside: None };
        net.meet()?;
        Ok(net)
    }

    /// The machine alone.
    fn core(&self) -> HeldMachine<'_, Core> {
        self.station.machine()
    }

    /// Moves traffic until all processes are connected.
    fn meet(&self) -> Result<(), Error> {
        let end = Instant::now() + MEETING;
        loop {
            let (is_met, moved, seen, served) = self.station.poll(|core, engine| {
                // Relaxed: changed under the token that is held here.
                let served = core.served.load(Ordering::Relaxed);
                let moved = core.meet(engine);
                core.check()?;
                let is_met = core.is_complete();
                if is_met {
                    core.stop_listening(engine);
                }
                Ok::<_, Error>((is_met, moved, core.acceptor.seen(), served))
            })?;
            if is_met {
                return Ok(());
            }
            if Instant::now() > end {
                let missing = self.core().peers.iter().position(|peer| peer.state == peer::State::Connecting).unwrap_or_default();
                return Err(Error::Trouble(Trouble::NoConnection(missing as u32, Death::Unreachable(bellwire_via::Error::Timeout))));
            }
            if !moved {
                self.sleep_from(seen, served, SLICE)?;
            }
        }
    }

    /// Tries until there is a result, moving traffic meanwhile. `is_rung`: it waits for messages
    /// alone.
    #[inline]
    fn until<R>(&self, is_rung: bool, attempt: impl FnMut(&mut Core, &mut Engine<HostWire>) -> Result<Option<R>, Error>) -> Result<R, Error> {
        self.until_probed::<Off, R>(is_rung, attempt)
    }

    /// As [`until`](Self::until), the steps of what comes marked.
    #[inline]
    fn until_probed<P: Probe<Stage>, R>(
        &self,
        is_rung: bool,
        mut attempt: impl FnMut(&mut Core, &mut Engine<HostWire>) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let mut vain = 0;
        loop {
            let mut served = 0;
            let done = self.station.with(|core, engine| {
                // Relaxed: changed under the token that is held here.
                served = core.served.load(Ordering::Relaxed);
                attempt(core, engine).inspect_err(|_| core.abandon())
            })?;
            if let Some(result) = done {
                return Ok(result);
            }
            let (is_moved, must_send) = self.station.poll(|core, engine| {
                let is_moved = core.step_probed::<P, _>(engine);
                Ok::<_, Error>((is_moved, std::mem::take(&mut core.is_full) || !core.unsent.is_empty()))
            })?;
            vain = if is_moved { 0 } else { vain + 1 };
            if vain > if must_send { LOOKS_TO_SEND } else { LOOKS } {
                self.sleep(served, if is_rung && !must_send { SLICE } else { SLICE_UNRUNG })?;
            }
        }
    }

    /// Sleeps until something comes, or the helper thread has taken something since its count was
    /// `served`, or the time is over.
    #[cold]
    fn sleep(&self, served: u32, slice: Duration) -> Result<(), Error> {
        let requests = self.station.with(|_, engine| Ok::<_, Error>(engine.connection_requests()))?;
        self.sleep_from(requests, served, slice)
    }

    /// As [`sleep`](Self::sleep); also until more connection requests have come than those `seen`.
    fn sleep_from(&self, seen: u64, served: u32, slice: Duration) -> Result<(), Error> {
        let slice = match self.poll_beside() {
            Some(true) => return Ok(()),
            // Its messages do not ring here.
            Some(false) => slice.min(SLICE_UNRUNG),
            None => slice,
        };
        // Relaxed: asked under the token, under which the helper counts; then it rouses sleepers.
        let until = || self.served.load(Ordering::Relaxed) != served;
        match self.station.sleep(self.inbox, seen, Some(slice), until) {
            Ok(()) | Err(bellwire_via::Error::Timeout) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Says good-bye. With status 0 waits, for some seconds at most, until the others know; then
    /// the connections end.
    pub fn leave(self, status: i32) {
        let end = Instant::now() + if status == 0 { FAREWELL } else { Duration::ZERO };
        self.finish_beside(end);
        {
            let mut core = self.core();
            core.is_leaving = true;
            core.abandon();
        }
        loop {
            let looked = self.station.poll(|core, engine| {
                let is_done = core.try_farewell(engine, status);
                Ok::<_, Error>((is_done, core.step(engine)))
            });
            match looked {
                Ok((false, moved)) if Instant::now() < end => {
                    // Relaxed: a short sleep, whatever the helper does.
                    if !moved && self.sleep(self.served.load(Ordering::Relaxed), SLICE_UNRUNG * 10).is_err() {
                        break;
                    }
                }
                _ => break,
            }
        }
    }
}

#[cfg(test)]
mod tests;
