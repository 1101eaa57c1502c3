// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that share no memory with this one: on other hosts, or kept apart on purpose. Global memory by messages on connected VIs, one for each pair of processes.
//!
//! | file | what |
//! |---|---|
//! | `header.rs` | messages as bytes |
//! | `meet.rs` | how the processes connect |
//! | `peer.rs` | credits; what leaves, what is awaited |
//! | `pack.rs` | several short requests in one message |
//! | `answers.rs` | what peers have asked for |
//! | `memory.rs` | this process's memory as peers may reach it |
//! | `core.rs` | the machine: what comes |
//! | `ask.rs` | what the program asks for, tried once |
//! | `calls.rs`, `gather.rs` | the same until it is done: accesses, collective calls |
//! | `rounds.rs` | what a collective call sends to whom |
//! | `machine.rs` | the machine without a NIC, for fuzzers |
//! | `service.rs` | the thread that answers while the program computes |
//!
//! Here is the machine on a NIC: the token, trying again, sleeping. Every call of the program moves traffic of both directions while it waits; nothing waits inside the machine, so no two processes wait for each
//! other. Locks are taken in the order machine, NIC.
//!
//! Invariant C1 (of callers): memory that a call is given is readable or writable for its length; that of a get, until [`Net::sync`] has returned.

mod answers;
mod ask;
mod calls;
mod core;
mod gather;
mod header;
pub mod machine;
mod meet;
mod memory;
mod pack;
mod peer;
mod rounds;
mod service;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bellwire_memory::atomic::{AtomicBool, AtomicU32, Ordering};
use bellwire_memory::token::{Claim, Held, Token};
use bellwire_via::nic::{NicConfig, Udp};
use bellwire_via::wire::Wire;
use bellwire_via::wire::host::HostWire;
use bellwire_via::wire::udp::{address_from, host_address};
use bellwire_via::{Engine, InboxHandle, Nic};
use rustix::rand::{GetRandomFlags, getrandom};

use self::core::Core;
use self::meet::{Name, create_mailbox};
pub use self::memory::Atomic;
use self::memory::Memory;
use crate::call::Lock;
use crate::error::{Death, Error, Trouble};
use crate::probe::{Off, Probe};
use crate::window::Window;

/// Looks in vain before a call sleeps; sleeping begins with a spin of its own.
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

/// What the program's thread and the service thread share.
struct Shared {
    core: Token<Core>,
    nic: Nic,
    inbox: InboxHandle,
    /// Calls of the program so far, and whether one is asleep.
    calls: AtomicU32,
    waiting: AtomicBool,
    /// 0, or the number of packs so far, the last of which has not left.
    packing: AtomicU32,
    /// Times that the service thread has taken something.
    served: AtomicU32,
    is_ending: AtomicBool,
}

/// Global memory by messages.
pub struct Net {
    shared: Arc<Shared>,
    service: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

/// How the NIC of a process is opened whose job spans hosts, or whose processes are kept apart.
pub fn config(is_on_several_hosts: bool) -> Result<NicConfig, Error> {
    let mut config = NicConfig::from_env().map_err(|error| Error::Nic(error.to_string()))?;
    if is_on_several_hosts && std::env::var_os("BELLWIRE_ADDRESS").is_none() {
        let address = address_from("auto")
            .ok_or_else(|| Error::Nic("this job is on several hosts, and this one has no address for others: set BELLWIRE_ADDRESS".to_owned()))?;
        config.host = host_address(address);
    }
    config.udp.get_or_insert(Udp::default());
    Ok(config)
}

impl Net {
    /// Opens a NIC and connects to all `size` processes of the job, which reach the window, and call functions on it under the lock. Collective: `gather` gives everybody's block to everybody.
    ///
    /// # Errors
    /// [`Error::Nic`]; those of `gather`; [`Error::Trouble`]: a process cannot be reached.
    pub fn open(
        (rank, size): (u32, u32),
        config: NicConfig,
        memory: (Window, Lock),
        gather: impl FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, Error>,
    ) -> Result<Self, Error> {
        let (nic, mut core) = connect((rank, size), config, memory, gather)?;
        meet(&nic, &mut core)?;
        let shared = Arc::new(Shared {
            inbox: core.mailbox.inbox(),
            core: Token::new(core),
            nic,
            calls: AtomicU32::new(0),
            waiting: AtomicBool::new(false),
            packing: AtomicU32::new(0),
            served: AtomicU32::new(0),
            is_ending: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let service = std::thread::Builder::new().name("bellwire-gas".to_owned()).spawn(move || of_thread.serve());
        let service = service.map_err(|_| Error::Nic("no thread can be started to answer other processes".to_owned()))?;
        Ok(Self { shared, service: Some(service) })
    }

    /// Tries until there is a result, moving traffic meanwhile. `is_rung`: what it waits for comes by messages alone.
    #[inline]
    fn until<R>(&self, is_rung: bool, attempt: impl FnMut(&mut Core, &mut Engine<HostWire>) -> Result<Option<R>, Error>) -> Result<R, Error> {
        self.until_probed::<Off, R>(is_rung, attempt)
    }

    /// As [`until`](Self::until), the steps of what comes marked.
    #[inline]
    fn until_probed<P: Probe, R>(
        &self,
        is_rung: bool,
        mut attempt: impl FnMut(&mut Core, &mut Engine<HostWire>) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let shared = &*self.shared;
        // Relaxed: the service thread's hint; only the program's thread writes it.
        shared.calls.store(shared.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let (mut vain, mut asleep) = (0, None);
        loop {
            let mut core = shared.core();
            // Relaxed: changed under the same token.
            let served = shared.served.load(Ordering::Relaxed);
            match shared.nic.with(|engine| attempt(&mut core, engine)) {
                Ok(Some(result)) => {
                    // Relaxed: a hint to the service thread.
                    shared.packing.store(if core.packing.is_empty() { 0 } else { core.packs | 1 << 31 }, Ordering::Relaxed);
                    self.awake(asleep);
                    return Ok(result);
                }
                Ok(None) => {}
                Err(error) => {
                    core.abandon();
                    return Err(error);
                }
            }
            let is_moved =
                shared.nic.poll_with(|engine| Ok(Some(core.step_probed::<P, _>(engine)))).map_err(|error| Error::Nic(error.to_string()))? == Some(true);
            vain = if is_moved { 0 } else { vain + 1 };
            let must_send = std::mem::take(&mut core.is_full) || !core.unsent.is_empty();
            if vain > if must_send { LOOKS_TO_SEND } else { LOOKS } {
                drop(core);
                asleep.get_or_insert_with(Instant::now);
                self.sleep(served, if is_rung && !must_send { SLICE } else { SLICE_UNRUNG })?;
            }
        }
    }

    /// A call is over that may have slept: the service thread is to look at the program again, if it has seen that.
    fn awake(&self, asleep: Option<Instant>) {
        if asleep.is_some_and(|since| since.elapsed() >= service::TICK / 2)
            && let Some(service) = &self.service
        {
            service.thread().unpark();
        }
    }

    /// Sleeps until something comes, or the service thread has taken something since its count was `served`, or the time is over.
    fn sleep(&self, served: u32, slice: Duration) -> Result<(), Error> {
        let shared = &*self.shared;
        // SeqCst: the announcement before the look at the count; the service thread counts before it looks at the announcement.
        shared.waiting.store(true, Ordering::SeqCst);
        let requests = shared.nic.with(|engine| engine.connection_requests());
        // SeqCst: as above.
        let until = || shared.served.load(Ordering::SeqCst) != served;
        let slept = shared.nic.inbox_wait_until(shared.inbox, requests, Some(slice), until);
        // SeqCst: as above.
        shared.waiting.store(false, Ordering::SeqCst);
        match slept {
            Ok(()) | Err(bellwire_via::Error::Timeout) => Ok(()),
            Err(error) => Err(Error::Nic(error.to_string())),
        }
    }

    /// Says good-bye. With status 0 waits, for some seconds at most, until the others know; then the connections end.
    pub fn leave(self, status: i32) {
        let end = Instant::now() + if status == 0 { FAREWELL } else { Duration::ZERO };
        self.shared.core().is_leaving = true;
        self.shared.core().abandon();
        loop {
            let mut core = self.shared.core();
            let is_done = self.shared.nic.with(|engine| core.try_farewell(engine, status));
            let moved = self.shared.nic.poll_with(|engine| Ok(Some(core.step(engine))));
            drop(core);
            if is_done || Instant::now() >= end || moved.is_err() {
                break;
            }
            // Relaxed: a short sleep, whatever the service thread does.
            if moved == Ok(Some(false)) && self.sleep(self.shared.served.load(Ordering::Relaxed), SLICE_UNRUNG * 10).is_err() {
                break;
            }
        }
    }
}

impl Drop for Net {
    /// Ends the service thread and the connections: to the others this process is gone, unless it has said good-bye.
    fn drop(&mut self) {
        // Release: pairs with the acquire in the service thread.
        self.shared.is_ending.store(true, Ordering::Release);
        let Some(service) = self.service.take() else { return };
        service.thread().unpark();
        self.shared.wake();
        let _ = service.join();
    }
}

/// Opens a NIC and asks for connections.
fn connect(
    (rank, size): (u32, u32),
    config: NicConfig,
    (window, lock): (Window, Lock),
    gather: impl FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, Error>,
) -> Result<(Nic, Core), Error> {
    let failed = |error: bellwire_via::Error| Error::Nic(error.to_string());
    let nic = Nic::open(config).map_err(|error| Error::Nic(error.to_string()))?;
    nic.ignore_errors();
    let mut id = [0; 16];
    getrandom(&mut id, GetRandomFlags::empty()).map_err(Error::from_call("getrandom"))?;
    nic.now();
    let made = nic.try_with(|engine| {
        let name = Name::new(engine.wire().host_address(), id).ok_or(bellwire_via::Error::InvalidParameter)?;
        let mut core = Core::new(create_mailbox(engine)?, rank, size, Memory::new(window, lock));
        core.listen(engine, &name)?;
        Ok((core, name))
    });
    let (mut core, name) = made.map_err(failed)?;
    for (block, rank) in gather(&name.to_bytes())?.iter().zip(0..) {
        core.names.push(Name::from_bytes(block).ok_or(Error::Misfit(rank))?);
    }
    if core.names.len() != size as usize {
        return Err(Error::Nic("a process has not said where it is".to_owned()));
    }
    nic.now();
    nic.try_with(|engine| core.connect(engine)).map_err(failed)?;
    Ok((nic, core))
}

/// Moves traffic until all processes are connected.
fn meet(nic: &Nic, core: &mut Core) -> Result<(), Error> {
    let end = Instant::now() + MEETING;
    loop {
        let mut requests = 0;
        let moved = nic
            .poll_with(|engine| {
                requests = engine.connection_requests();
                Ok(Some(core.step(engine)))
            })
            .map_err(|error| Error::Nic(error.to_string()))?;
        core.check()?;
        if requests != core.acceptor.seen() {
            nic.now();
            nic.with(|engine| core.accept(engine));
            continue;
        }
        if core.is_complete() {
            nic.with(|engine| core.stop_listening(engine));
            return Ok(());
        }
        if Instant::now() > end {
            let missing = core.peers.iter().position(|peer| peer.state == peer::State::Connecting).unwrap_or_default();
            return Err(Error::Trouble(Trouble::NoConnection(missing as u32, Death::Unreachable(bellwire_via::Error::Timeout))));
        }
        if moved == Some(false) {
            // What has come is looked at in any case.
            let _ = nic.inbox_wait(core.mailbox.inbox(), core.acceptor.seen(), Some(SLICE));
        }
    }
}

impl Shared {
    fn core(&self) -> Held<'_, Core> {
        self.core.enter(Claim::Bias)
    }

    fn is_waiting(&self) -> bool {
        // SeqCst: pairs with the stores in `sleep`.
        self.waiting.load(Ordering::SeqCst)
    }

    /// Has whoever waits look again.
    fn wake(&self) {
        self.nic.with(Engine::rouse);
    }
}

#[cfg(test)]
mod tests;
