// SPDX-License-Identifier: MIT OR Apache-2.0
//! How to reach the helper and the leading waiter, and what they sleep on: two epoll sets, which
//! hold the wire's bell in turn. Can be used without the token.

use super::timespec;
use crate::time::{Duration, Instant};
use crate::wire::host::HostWire;
use bellwire_memory::MemoryError;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::event::Bell;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::net::UdpSocket;

/// Reasons for which the helper is woken.
pub(super) const CLOSE: u32 = 1;
/// There are events, or a new error handler.
pub(super) const EVENTS: u32 = 2;
/// A call has left work in the engine; the application probably goes on polling.
pub(super) const WORK: u32 = 4;
/// There is a new handler.
pub(super) const DUTY: u32 = 8;

/// Edge-triggered: one wake-up per ring, though nobody silences a bell that rings while the
/// application polls.
const BELL_FLAGS: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ET);

pub(super) const CONTROL: u64 = 0;
pub(super) const TOLD: u64 = 1;
pub(super) const BELL: u64 = 2;
pub(super) const GUARD: u64 = 3;
const ALARM: u64 = 4;
/// Sockets of the live view; the slot is added.
pub(super) const STAT: u64 = 16;

/// The event that ended a leader's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nic) enum WokenBy {
    /// Its time, or a signal.
    Time,
    /// A bell.
    Bell,
    /// What it watched apart.
    Packet,
}

/// How to reach the helper, and what it sleeps on.
pub(in crate::nic) struct Port {
    pub(super) reasons: AtomicU32,
    pub(super) told: Bell,
    pub(super) epoll: OwnedFd,
    /// What the leading waiter sleeps on: the wire's bell, `lead` and `alarm`.
    leader: OwnedFd,
    /// Wakes the leading waiter from within this process.
    lead: Bell,
    /// .. and at a time. A timer of its own for each sleep would cost more than the sleep: the
    /// kernel sets the processor's clock when one begins and when it ends early.
    alarm: OwnedFd,
    /// The wire's bell: a descriptor that can be used without the token.
    wire_bell: OwnedFd,
    /// The wire's control set, likewise; kept open because the epoll set refers to it.
    _control: OwnedFd,
}

impl Port {
    pub(in crate::nic) fn new(wire: &HostWire) -> Result<Self, MemoryError> {
        let os = |call| move |errno| MemoryError::os(call, errno);
        let told = Bell::create()?;
        let wire_bell = rustix::io::fcntl_dupfd_cloexec(wire.bell(), 0).map_err(os("fcntl(F_DUPFD_CLOEXEC)"))?;
        let control = rustix::io::fcntl_dupfd_cloexec(wire.control_fd(), 0).map_err(os("fcntl(F_DUPFD_CLOEXEC)"))?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os("epoll_create1"))?;
        for (fd, data, flags) in
            [(control.as_fd(), CONTROL, epoll::EventFlags::IN), (told.fd(), TOLD, epoll::EventFlags::IN), (wire_bell.as_fd(), BELL, BELL_FLAGS)]
        {
            epoll::add(&set, fd, epoll::EventData::new_u64(data), flags).map_err(os("epoll_ctl"))?;
        }
        if let Some(guard) = wire.guard_fd() {
            epoll::add(&set, guard, epoll::EventData::new_u64(GUARD), BELL_FLAGS).map_err(os("epoll_ctl"))?;
        }
        let lead = Bell::create()?;
        let leader = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os("epoll_create1"))?;
        let alarm = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK).map_err(os("timerfd_create"))?;
        for (fd, data) in [(wire_bell.as_fd(), BELL), (lead.fd(), BELL), (alarm.as_fd(), ALARM)] {
            epoll::add(&leader, fd, epoll::EventData::new_u64(data), BELL_FLAGS).map_err(os("epoll_ctl"))?;
        }
        Ok(Self { reasons: AtomicU32::new(0), told, epoll: set, leader, lead, alarm, wire_bell, _control: control })
    }

    /// Wakes the helper.
    pub(in crate::nic) fn tell(&self, reason: u32) {
        // Release: what the reason is about comes before; pairs with the swap in sleep(). The ring
        // comes after, so no reason is missed.
        self.reasons.fetch_or(reason, Ordering::Release);
        let _ = self.told.ring();
    }

    /// Whether the helper is woken by the NIC's bell.
    pub(in crate::nic) fn listen_to_bell(&self, yes: bool) {
        // Taken out altogether: the kernel then has one sleeper less to look at when a peer rings.
        let _ = if yes {
            epoll::add(&self.epoll, &self.wire_bell, epoll::EventData::new_u64(BELL), BELL_FLAGS)
        } else {
            epoll::delete(&self.epoll, &self.wire_bell)
        };
    }

    /// Wakes the leading waiter.
    pub(in crate::nic) fn wake_leader(&self) {
        let _ = self.lead.ring();
    }

    /// Has the leader woken at a time, if it is not woken before; whether it will be.
    pub(in crate::nic) fn wake_leader_at(&self, at: Instant) -> bool {
        let it_value = timespec(Duration(at.0));
        let once = Itimerspec { it_interval: timespec(Duration(0)), it_value };
        timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &once).is_ok()
    }

    /// Sleeps until the wire's bell rings, or the leader is woken, or `apart` is readable, or its
    /// alarm rings, or for `time`. Rings that came while nobody slept here end the next sleep.
    pub(in crate::nic) fn sleep_as_leader(&self, time: Option<Duration>, apart: Option<&UdpSocket>) -> WokenBy {
        let mut timeout = time.map(timespec);
        if let Some(apart) = apart {
            let mut fds = [PollFd::new(apart, PollFlags::IN), PollFd::new(&self.leader, PollFlags::IN)];
            let woken = poll(&mut fds, timeout.as_ref()).is_ok_and(|n| n != 0);
            if fds[1].revents().is_empty() {
                return if woken { WokenBy::Packet } else { WokenBy::Time };
            }
            // Silences what is edge-triggered.
            timeout = Some(timespec(Duration(0)));
        }
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 4];
        let n = epoll::wait(&self.leader, &mut events[..], timeout.as_ref()).unwrap_or(0);
        if events[..n].iter().any(|e| e.data.u64() == BELL) { WokenBy::Bell } else { WokenBy::Time }
    }

    /// Adds a socket of the live view.
    pub(in crate::nic) fn listen_to(&self, fd: BorrowedFd<'_>, slot: usize) -> bool {
        // The listening one edge-triggered: while nobody can be accepted for want of descriptors,
        // it must not keep the helper awake.
        let flags = if slot == 0 { epoll::EventFlags::IN | epoll::EventFlags::ET } else { epoll::EventFlags::IN };
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(STAT + slot as u64), flags).is_ok()
    }

    /// Adds a descriptor that a machine reads: while it is readable, the helper steps the machine.
    pub(in crate::nic) fn attend(&self, fd: BorrowedFd<'_>) -> bool {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(CONTROL), epoll::EventFlags::IN).is_ok()
    }

    /// Takes one away that is about to be closed; a child of a `fork` may keep it open.
    pub(in crate::nic) fn forget(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }
}
