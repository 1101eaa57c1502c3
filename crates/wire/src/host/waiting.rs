// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a sleeper and the helper thread need of both wires: descriptors to sleep on, bells, when to
//! ring, and taking leave.

use crate::host::{HostWire, OTHERS};
use crate::packet::{PacketPort, PacketWire};
use crate::time::Duration;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::fd::BorrowedFd;
use std::net::UdpSocket;
use std::sync::Arc;

/// Longest sleep of a NIC that is being closed.
const FAREWELL_SLEEP_MAX: Duration = Duration::from_millis(100);

impl HostWire {
    /// Readable when [`handle_control`](Self::handle_control) has something to do.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.shm.control_fd()
    }

    /// Handles what is ready on control descriptors; never blocks. The outcome is told by the
    /// engine's next turn.
    pub fn handle_control(&mut self) {
        self.shm.handle_control();
        if let Some(s) = &mut self.sisci {
            s.handle_control();
        }
        if let Some(p) = &mut self.packet {
            p.port_mut().handle_control();
        }
    }

    /// Readable, edge-triggered, when somebody must look every so often, for frames wait to share a
    /// packet; if there are such.
    pub fn guard_fd(&self) -> Option<BorrowedFd<'_>> {
        self.packet.as_ref().map(|p| p.port().guard_fd())
    }

    /// Whether that is over.
    pub fn guard_may_go(&mut self) -> bool {
        self.packet.as_mut().is_none_or(|p| p.port_mut().guard_may_go())
    }

    /// To sleep on: readable when a peer has rung, or (while armed) a packet has come.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shm.bell()
    }

    /// Whether the bell must be silenced before each sleep, else now and then.
    pub fn bell_must_be_cleared(&self) -> bool {
        self.shm.bell_must_be_cleared()
    }

    /// Silences the bell.
    pub fn clear_bell(&mut self) {
        self.shm.clear_bell();
    }

    /// Peers ring from now on, and packets wake. Then look once more before sleeping.
    pub fn arm(&mut self, for_room: bool) {
        if let Some(p) = &mut self.packet {
            p.set_armed(true);
            // Edge-triggered, and only while somebody sleeps: a poller is not to wake the helper
            // with each packet. Added already: then it stays.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            let _ = epoll::add(self.shm.bell(), p.port().arrival_fd(), epoll::EventData::new_u64(OTHERS), flags);
        } else if let Some(s) = &mut self.sisci {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            let _ = epoll::add(self.shm.bell(), s.bell_fd(), epoll::EventData::new_u64(OTHERS), flags);
            s.arm(for_room);
        }
        self.shm.arm(for_room);
    }

    /// A thread of the program is about to sleep until something comes: what it has taken is
    /// acknowledged, for it has had its chance to answer.
    pub fn acknowledge_before_sleep(&mut self) {
        if let Some(p) = &mut self.packet {
            p.acknowledge_before_sleep();
        }
    }

    /// While armed: what a sleeper watches itself beside [`bell`](Self::bell), which does not tell
    /// of it from now on; if there is such.
    pub fn watch_apart(&mut self) -> Option<Arc<UdpSocket>> {
        self.packet.as_mut()?.port_mut().watch_only_peer()
    }

    /// The [`bell`](Self::bell) tells of everything.
    pub fn watch_all(&mut self) {
        if let Some(p) = &mut self.packet {
            p.port_mut().watch_all();
        }
    }

    /// The [`bell`](Self::bell) has told of something.
    pub fn look_everywhere(&mut self) {
        if let Some(p) = &mut self.packet {
            p.port_mut().look_everywhere();
        }
    }

    /// Room is no longer waited for.
    pub fn arm_less(&mut self) {
        self.shm.arm_less();
        if let Some(s) = &mut self.sisci {
            s.arm_less();
        }
    }

    /// Whether peers ring also for room.
    pub fn is_armed_for_room(&self) -> bool {
        self.shm.is_armed_for_room()
    }

    /// Peers need not ring any more.
    pub fn disarm(&mut self) {
        if let Some(p) = &mut self.packet {
            p.set_armed(false);
            let _ = epoll::delete(self.shm.bell(), p.port().arrival_fd());
        } else if let Some(s) = &mut self.sisci {
            s.disarm();
            let _ = epoll::delete(self.shm.bell(), s.bell_fd());
        }
        self.shm.disarm();
    }

    /// Says to the peers of this host that we let others have this processor; `None`: that we do
    /// not.
    pub fn set_away(&self, from: Option<usize>) {
        match &self.sisci {
            Some(s) => s.set_away(from),
            None => self.shm.set_away(from),
        }
    }

    /// See [`ShmWire::shares`](crate::shm::ShmWire::shares).
    pub fn shares(&self, processor: usize) -> Option<bool> {
        self.sisci.as_ref().map_or_else(|| self.shm.shares(processor), |s| s.shares(processor))
    }

    /// Whether some peer of this host is at work, and may send something any moment; with the
    /// number of links to such. Of other hosts that is not known.
    pub fn peers_at_work(&self) -> (bool, usize) {
        self.sisci.as_ref().map_or_else(|| self.shm.peers_at_work(), |s| s.peers_at_work())
    }

    /// Rings every peer's bell, armed or not.
    pub fn kick_peers(&mut self) {
        self.shm.kick_peers();
        if let Some(s) = &mut self.sisci {
            s.kick_peers();
        }
    }

    /// Whether there is something that needs this process even while it computes.
    pub fn has_links(&self) -> bool {
        self.shm.has_links() || self.sisci.as_ref().is_some_and(|s| s.has_links()) || self.packet.as_ref().is_some_and(PacketWire::has_links)
    }

    /// Whether something is under way between hosts that its receiver has not acknowledged.
    pub fn has_outstanding(&self) -> bool {
        self.packet.as_ref().is_some_and(|packet| packet.has_outstanding())
    }

    /// The NIC is being closed: returns when everything sent by UDP has been acknowledged, or after
    /// 3 s (`close_time` of the transport) without that. Peers hear of the end.
    pub fn take_leave(&mut self) {
        let Some(p) = &mut self.packet else { return };
        p.begin_farewell();
        p.port_mut().watch_all();
        p.set_armed(true);
        let mut settled = None;
        while let Some(until) = p.farewell_turn(&mut settled) {
            let port = p.port();
            let wait = until.since(port.now()).0.clamp(1, FAREWELL_SLEEP_MAX.0);
            let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: wait as i64 };
            let mut fds = [PollFd::from_borrowed_fd(port.arrival_fd(), PollFlags::IN)];
            // Interrupted: the loop looks again.
            let _ = poll(&mut fds, Some(&wait));
        }
    }
}
