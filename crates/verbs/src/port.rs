// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that a program has opened: the machine of `core.rs` on a NIC of its own, as programs
//! call it. Any thread may call at any time.

use crate::channel::Channel;
use crate::core::{AsyncEvent, Core};
use crate::direct::ShortAccess;
use crate::fates::Struck;
use crate::life::create_mailbox;
use crate::modify::Given;
use crate::name::{Name, PLACES, gid_of};
use crate::progress::clock;
use crate::qp::{QpAttributes, QpInit, SendRequest};
use crate::rule::Reporter;
use crate::short::ShortSend;
use crate::types::{AsyncKind, Error, Gid, QpState, SendFlags, Sge};
use bellwire_faults::FaultPlan;
use bellwire_peer::Station;
use bellwire_trace::here;
use bellwire_via::nic::{Adoption, NicConfig};
use bellwire_via::wire::Purpose;
use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::{MemoryMode, Nic};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread that waits for an event looks itself.
const SPIN: Duration = Duration::from_micros(40);
/// How long a process that ends tries to send what is complete: a peer may be gone.
const FAREWELL: Duration = Duration::from_millis(500);
/// Between two tries.
const PAUSE: Duration = Duration::from_micros(50);

/// Why a device could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The NIC could not.
    Nic(bellwire_via::nic::OpenError),
    /// Its address has a port, for which a GID has no room.
    Address,
    /// No descriptors, no room on the NIC, or all 2047 places of the host are taken.
    Resource,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Nic(e) => e.fmt(f),
            Self::Address => f.write_str("the address of an RDMA device must be an IP address without a port (BELLWIRE_ADDRESS)"),
            Self::Resource => f.write_str("no descriptors are left, or too many processes of this host have RDMA devices"),
        }
    }
}

impl std::error::Error for OpenError {}

/// A device.
#[derive(Debug)]
pub struct Port {
    pub(crate) station: Station<Core>,
    gid: Gid,
    events: Arc<Channel<AsyncEvent>>,
    /// Peers can map memory, and use it without being seen.
    pub(crate) is_mapped: bool,
    /// How memory of the program may be exchanged for such memory.
    pub(crate) adoption: Adoption,
}

impl Port {
    /// Opens a device; `reporter` hears of rules that the program breaks.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: NicConfig, reporter: Option<Reporter>) -> Result<Self, OpenError> {
        let gid = gid_of(&config.host).ok_or(OpenError::Address)?;
        let from = (config.seed.number(Purpose::Names) as u16) % PLACES;
        let plan = config.faults.clone().filter(FaultPlan::strikes_requests);
        // A plan and a reporter must see each access; peers access mapped memory on their own.
        let is_mapped = config.mode == ProtectionMode::Mapped && config.memory == MemoryMode::Trust && plan.is_none() && reporter.is_none();
        let adoption = if is_mapped { config.adoption } else { Adoption::Never };
        let keys = config.keys.clone();
        let nic = Nic::open(config).map_err(OpenError::Nic)?;
        let events = Arc::new(Channel::new().map_err(|_| OpenError::Resource)?);
        let station = Station::open(nic, |engine| {
            let mut core = Core::new(create_mailbox(engine)?, Name { gid, place: 1 }, Arc::clone(&events), Some(clock));
            core.keys = keys;
            core.settle(engine, from)?;
            if let Some(plan) = plan {
                core.be_struck(Struck::new(plan, &gid, clock(), die));
            }
            if let Some(reporter) = reporter {
                core.be_strict(reporter);
            }
            if let Some(snap) = here::captures() {
                core.be_captured(snap);
            }
            Ok(core)
        });
        let station = station.map_err(|_: Error| OpenError::Resource)?;
        Ok(Self { station, gid, events, is_mapped, adoption })
    }

    /// Its address.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// Takes the port down, or up again: nothing leaves and nothing is taken while it is down, and
    /// peers cannot reach memory that they have mapped.
    pub fn set_link(&self, is_up: bool) {
        // In the child of a fork there is no port.
        let _ = self.station.with(|core, engine| -> Result<(), Error> {
            core.close_port(engine, !is_up);
            Ok(())
        });
        // Packets that came meanwhile ring no more.
        let _ = self.station.arm(|core, engine| core.look(engine, |_| false));
    }

    /// The device is out of order for good: all requests and receives end undone, and the program
    /// is told.
    pub fn fail_device(&self) {
        let _ = self.station.with(|core, engine| -> Result<(), Error> {
            core.fail_all(engine);
            Ok(())
        });
        self.events.push(AsyncEvent { kind: AsyncKind::DeviceFatal, cookie: 0 });
    }

    /// Tells the program that the addresses of the port changed.
    pub fn tell_gid_change(&self) {
        self.events.push(AsyncEvent { kind: AsyncKind::GidChange, cookie: 1 });
    }

    /// Whether the port works: no fault and no [`set_link`](Self::set_link) took it down.
    pub fn is_up(&self) -> bool {
        !self.station.machine().is_down()
    }

    /// Whether it was opened by this process, not by the parent before a `fork`.
    pub fn is_ours(&self) -> bool {
        !self.station.in_child()
    }

    /// What happens beside the queues.
    pub fn events(&self) -> &Arc<Channel<AsyncEvent>> {
        &self.events
    }

    /// Makes a queue pair; its number.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn create_qp(&self, init: &QpInit) -> Result<u32, Error> {
        self.station.machine().create_qp(init)
    }

    /// Ends a queue pair, and what is posted with it.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn destroy_qp(&self, qp: u32) -> Result<(), Error> {
        self.station.with(|core, engine| {
            core.hear_out(engine);
            core.tell(engine, qp);
            core.destroy_qp(engine, qp)
        })
    }

    /// Changes attributes and state; `to` is the state to move to, `current` the one that it is
    /// believed to be in.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no such move, too little or too much is given, or a value is out of
    /// range.
    pub fn modify_qp(&self, qp: u32, to: Option<QpState>, current: Option<QpState>, attributes: &QpAttributes, given: Given) -> Result<(), Error> {
        self.station.with(|core, engine| {
            if matches!(to, Some(QpState::Err | QpState::Reset)) {
                core.hear_out(engine);
            }
            core.modify(engine, qp, to, current, attributes, given)
        })
    }

    /// State, attributes, and what it was made with.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn query_qp(&self, qp: u32) -> Result<(QpState, QpAttributes, QpInit), Error> {
        let mut core = self.station.machine();
        let qp = core.qp(qp).ok_or(Error::Invalid)?;
        Ok((qp.state, QpAttributes { drains: qp.state == QpState::Sqd && qp.begun != 0, ..qp.attributes }, qp.init))
    }

    /// Posts a request whose pieces are registered memory: one with [`SendFlags::INLINE`] is
    /// [`Error::Invalid`].
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    pub fn post_registered(&self, qp: u32, request: &SendRequest<'_>) -> Result<(), Error> {
        if request.flags.contains(SendFlags::INLINE) {
            return Err(Error::Invalid);
        }
        // SAFETY: R2 is of inline requests, which this is not.
        unsafe { self.post_send(qp, request) }
    }

    /// Posts a request.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`]: the queue is full; [`Error::InChild`].
    ///
    /// # Safety
    /// R2: the pieces of a request with [`SendFlags::INLINE`] are readable during the call.
    #[inline]
    pub unsafe fn post_send(&self, qp: u32, request: &SendRequest<'_>) -> Result<(), Error> {
        // SAFETY: R2, the caller's promise.
        self.station.with(|core, engine| unsafe { core.post_send(engine, qp, request) })
    }

    /// Posts a send if all is as usual. `false`: nothing is done; [`post_send`](Self::post_send)
    /// can do it, or says why not.
    ///
    /// # Safety
    /// R2, as for [`post_send`](Self::post_send).
    #[inline(always)]
    pub unsafe fn post_short(&self, qp: u32, request: &ShortSend) -> bool {
        // In the child of a fork it is not.
        // SAFETY: R2, the caller's promise.
        self.station.with(|core, engine| Ok::<_, Error>(unsafe { core.send_short(engine, qp, request) })).unwrap_or(false)
    }

    /// As [`post_short`](Self::post_short), a send of two registered pieces, of which `lead` is the
    /// first.
    ///
    /// # Safety
    /// R2, as for [`post_send`](Self::post_send).
    #[inline]
    pub unsafe fn post_led(&self, qp: u32, request: &ShortSend, lead: &Sge) -> bool {
        // In the child of a fork it is not.
        // SAFETY: R2, the caller's promise.
        self.station.with(|core, engine| Ok::<_, Error>(unsafe { core.send_led(engine, qp, request, lead) })).unwrap_or(false)
    }

    /// As [`post_short`](Self::post_short), a write or read in memory that is mapped here.
    ///
    /// # Safety
    /// R2, as for [`post_send`](Self::post_send).
    #[inline(always)]
    pub unsafe fn access_short(&self, qp: u32, request: &ShortAccess) -> bool {
        // In the child of a fork it is not.
        // SAFETY: R2, the caller's promise.
        self.station.with(|core, engine| Ok::<_, Error>(unsafe { core.access_shortly(engine, qp, request) })).unwrap_or(false)
    }

    /// Posts a receive of one piece if all is as usual; `false`: nothing is done, and
    /// [`post_receive`](Self::post_receive) knows why.
    #[inline(always)]
    pub fn post_receive_short(&self, qp: u32, wr_id: u64, piece: &Sge) -> bool {
        self.station.machine().receive_short(qp, wr_id, piece)
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`]: the queue is full.
    #[inline]
    pub fn post_receive(&self, qp: u32, wr_id: u64, pieces: &[Sge]) -> Result<(), Error> {
        self.station.machine().post_receive(qp, wr_id, pieces)
    }

    /// Answers peers whose requests have come, tells them what was done for them and not said yet,
    /// and sends what is complete but waits to leave: to be called before the process ends.
    /// Unreliable messages are complete when they are handed over, so nobody else waits for them.
    pub fn settle(&self) {
        let must_wait = self.station.with(|core, engine| {
            core.hear_out(engine);
            core.tell_owed(engine);
            core.report_rest();
            Ok::<_, Error>(core.sends_unreliably)
        });
        // In the child of a fork nothing is sent.
        if !must_wait.unwrap_or(false) {
            return;
        }
        let end = Instant::now() + FAREWELL;
        loop {
            let waits = self.station.with(|core, engine| {
                core.look(engine, |_| false);
                engine.progress();
                Ok::<_, Error>(!core.unsent.is_empty() || engine.wire().has_outstanding())
            });
            if !waits.unwrap_or(false) || Instant::now() >= end {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits like [`Port::wait`] for completions. A queue that is armed and was not emptied counts
    /// as one that has something new.
    ///
    /// # Errors
    /// As there.
    pub fn wait_for_completions(&self, channel: &Channel<u64>) -> rustix::io::Result<()> {
        {
            let mut core = self.station.machine();
            core.tell_left(channel);
            core.armed.waits_itself();
        }
        self.wait_or(channel, || {
            self.station.machine().armed.sleepers += 1;
            let outcome = self.sleep(channel);
            self.station.machine().armed.sleepers -= 1;
            outcome
        })
    }

    /// Waits until a channel of this device may have something: moves everything for a moment, then
    /// sleeps, while the helper does.
    ///
    /// # Errors
    /// A signal came whose handler interrupts calls; in the child of a fork nothing is to be waited
    /// for (`EIO`).
    pub fn wait<T>(&self, channel: &Channel<T>) -> rustix::io::Result<()> {
        self.wait_or(channel, || self.sleep(channel))
    }

    /// Moves everything until the channel has something; after a moment it calls `sleep` instead.
    fn wait_or<T>(&self, channel: &Channel<T>, sleep: impl FnOnce() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
        let end = Instant::now() + SPIN;
        while channel.is_empty() {
            let looked = self.station.poll(|core, engine| Ok::<_, Error>(core.look(engine, |_| !channel.is_empty())));
            looked.map_err(|_| rustix::io::Errno::IO)?;
            if Instant::now() >= end {
                return sleep();
            }
        }
        Ok(())
    }

    /// Sleeps until something may be in the channel. Peers ring from before the last look on, so
    /// what that look misses wakes the helper thread, which fills the channel.
    fn sleep<T>(&self, channel: &Channel<T>) -> rustix::io::Result<()> {
        self.station.arm(|core, engine| core.look(engine, |_| !channel.is_empty())).map_err(|_| rustix::io::Errno::IO)?;
        channel.sleep()
    }
}

/// Ends the process at once, by SIGKILL.
fn die() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}
