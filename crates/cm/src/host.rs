// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine needs of the world.

use crate::types::{Channel, Gid, Service};

/// A link to another process's machine. The host numbers links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(pub u64);

/// The world of a machine. No call may call the machine back.
pub trait Host {
    /// Takes what peers ask of a service of this host. `false`: another process has it.
    fn claim(&mut self, service: Service) -> bool;

    /// Takes it no more.
    fn release(&mut self, service: Service);

    /// Begins to make a link to the process that has a service; [`Cm::opened`](crate::Cm::opened)
    /// or [`Cm::closed`](crate::Cm::closed) says how it ends. `None`: it cannot be made.
    fn open(&mut self, gid: Gid, service: Service) -> Option<Link>;

    /// Whether somebody may have a service to which a link is being made. `false`: nobody has.
    fn may_answer(&mut self, gid: Gid, service: Service) -> bool {
        let _ = (gid, service);
        true
    }

    /// Ends a link.
    fn close(&mut self, link: Link);

    /// Sends a message on an open link. A link that cannot take it is closed, and the machine hears
    /// of that later.
    fn send(&mut self, link: Link, message: &[u8]);

    /// Whether a queue pair has completions that the program has not taken.
    fn has_completions(&mut self, qp: u32) -> bool;

    /// The process at the other end of a connection is gone, without a goodbye. `own` and `peer`
    /// are the numbers of the queue pairs.
    fn orphaned(&mut self, own: u32, gid: Gid, peer: u32) {
        let _ = (own, gid, peer);
    }

    /// Says whether a channel has events.
    fn signal(&mut self, channel: Channel, has_events: bool);
}
