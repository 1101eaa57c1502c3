// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device's state of connection management: the machine, its acceptors, and the bells of
//! programs. `cm.rs` drives it.

use bellwire_cm::{Channel, Cm, Service};
use bellwire_via::Acceptor;
use bellwire_via::nic::Ring;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a program sleeps on: a socket that is readable while its channel has events.
#[derive(Debug)]
pub struct Bell {
    /// The program's end, to take back what was rung.
    end: OwnedFd,
    other: OwnedFd,
    count: Mutex<Count>,
}

/// Devices whose part of the channel has events, and bytes in the socket, which become as many.
#[derive(Debug, Default)]
struct Count {
    wanted: u32,
    sent: u32,
}

impl Bell {
    /// `end` duplicates the program's descriptor; `other` is the other end of its socket pair.
    pub fn new(end: OwnedFd, other: OwnedFd) -> Self {
        Self { end, other, count: Mutex::default() }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device's part of the channel has events from now on, or none any more. [`Ring::ring`] is
    /// to be called next.
    pub(crate) fn set(&self, has_events: bool) {
        let wanted = &mut self.count().wanted;
        *wanted = if has_events { wanted.saturating_add(1) } else { wanted.saturating_sub(1) };
    }

    /// Sleeps until it rings: in a call that signals interrupt, or do not, as programs have asked
    /// for.
    ///
    /// # Errors
    /// A signal came whose handler interrupts calls; the program does not want to wait any more
    /// (`EAGAIN`).
    pub fn sleep(&self) -> rustix::io::Result<()> {
        recv(&self.end, &mut [0; 1], RecvFlags::PEEK).map(drop)
    }

    /// The program's end.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

impl Ring for Bell {
    /// Has the socket hold as many bytes as devices have events. Neither call can block, and both
    /// ends are open.
    fn ring(&self) {
        let mut count = self.count();
        while count.sent < count.wanted && send(&self.other, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok() {
            count.sent += 1;
        }
        while count.sent > count.wanted && recv(&self.end, &mut [0; 1], RecvFlags::DONTWAIT).is_ok() {
            count.sent -= 1;
        }
    }
}

/// The machine, and what stands for it here.
#[derive(Debug)]
pub(crate) struct Managed {
    pub cm: Cm,
    pub world: World,
    /// When the machine is due next, as the timers have it; 0: never.
    pub due: u64,
    /// It was called since that time came last.
    pub is_used: bool,
}

/// The machine's world.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub acceptors: BTreeMap<Service, Acceptor>,
    pub bells: BTreeMap<Channel, Arc<Bell>>,
    /// To be rung when the helper thread, which steps the machine, lets the token go.
    pub unrung: Vec<Arc<Bell>>,
    /// Until when the program expects an event soon ([`ArmedQueues`](crate::armed::ArmedQueues)).
    pub expected_until: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn the_bell_has_a_byte_for_each_device_with_events() {
        let (end, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let bell = Bell::new(end, other);
        let bytes = || recv(&bell.end, &mut [0; 4], RecvFlags::PEEK | RecvFlags::DONTWAIT).map_or(0, |(n, _)| n);
        bell.set(true);
        assert_eq!(bytes(), 0, "it does not ring while the token may be held");
        // The program took the event before the helper came to ring.
        bell.set(false);
        bell.ring();
        assert_eq!(bytes(), 0);
        for (has_events, rung) in [(true, 1), (true, 2), (false, 1), (true, 2), (false, 1), (false, 0)] {
            bell.set(has_events);
            bell.ring();
            bell.ring();
            assert_eq!(bytes(), rung);
        }
    }
}
