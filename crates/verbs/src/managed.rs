// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device's state of connection management: the machine, its acceptors, and the bells of
//! programs. `cm.rs` drives it.

use bellwire_cm::{Channel, Cm, Service};
use bellwire_via::Acceptor;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a program sleeps on: a socket that is readable while its channel has events.
#[derive(Debug)]
pub struct Bell {
    /// The program's end, to take back what was rung.
    end: OwnedFd,
    other: OwnedFd,
}

impl Bell {
    /// `end` duplicates the program's descriptor; `other` is the other end of its socket pair.
    pub fn new(end: OwnedFd, other: OwnedFd) -> Self {
        Self { end, other }
    }

    pub(crate) fn set(&self, rings: bool) {
        // One byte is there for each device whose part of the channel has events: neither call can
        // block, and both ends are open.
        if rings {
            let _ = send(&self.other, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        } else {
            let _ = recv(&self.end, &mut [0; 1], RecvFlags::DONTWAIT);
        }
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

/// The machine, and what stands for it here.
#[derive(Debug)]
pub(crate) struct Managed {
    pub cm: Cm,
    pub world: World,
    /// When the machine is due next, as the timers have it; 0: never.
    pub due: u64,
}

/// The machine's world.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub acceptors: BTreeMap<Service, Acceptor>,
    pub bells: BTreeMap<Channel, Arc<Bell>>,
}
