// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues with a file descriptor: for programs that sleep in `epoll` or `poll`, with
//! other descriptors beside.
//!
//! The descriptor is an eventfd, and *arming* is a call of its own, so that a program that polls
//! pays nothing: no system call belongs to a message.
//!
//! ```text
//!  loop:  take entries until there is none (cq_done)
//!         cq_arm: an entry is there after all? -> again
//!         sleep in epoll
//! ```
//!
//! Arming silences the descriptor, makes sure that somebody moves traffic while this process sleeps
//! (the helper, or a waiter), moves what there is, and looks for an entry; all of it under the
//! token. A thread that completes something later finds the queue armed when it lets the token go
//! (N1) and makes the descriptor readable, once. An entry that is there already makes it readable
//! at once, so that a program that forgets to look is slow, not stuck.
//!
//! Invariants
//! - W1: `armed` holds exactly the queues whose next entry is to be told; a queue leaves it when
//!   its descriptor is made readable or it is destroyed.
//! - W2: a bell that may be ringing has `rung` set.

use super::state::Shared;
use super::watches::Watch;
use super::{Core, clock};
use crate::engine::Engine;
use crate::error::Error;
use crate::handles::CqHandle;
use crate::wire::host::HostWire;
use bellwire_memory::event::Bell;
use bellwire_memory::token::Claim;
use rustix::fd::OwnedFd;

/// Turns of the engine while arming.
const TURNS: u32 = 8;

/// The descriptor of a completion queue: a duplicate that belongs to the caller.
pub(super) fn descriptor(shared: &Shared, cq: CqHandle) -> Result<OwnedFd, Error> {
    shared.here()?;
    let mut core = shared.token.enter(Claim::Bias);
    let Core { watches, engine, .. } = &mut *core;
    if !engine.has_cq(cq) {
        return Err(Error::InvalidParameter);
    }
    if !watches.all.contains_key(&cq) {
        watches.sweep(engine);
        let bell = Bell::create().map_err(|_| Error::Resource)?;
        watches.all.insert(cq, Watch { bell, rung: false });
    }
    let fd = watches.all[&cq].bell.fd().try_clone_to_owned().map_err(|_| Error::Resource)?;
    core.note_watches(shared);
    Ok(fd)
}

/// Arms a queue that has a descriptor. `false`: an entry is there, take it.
pub(super) fn arm(shared: &Shared, cq: CqHandle) -> Result<bool, Error> {
    shared.here()?;
    let mut core = shared.token.enter(Claim::Bias);
    let core = &mut *core;
    if !core.engine.has_cq(cq) {
        return Err(Error::InvalidParameter);
    }
    let Some(watch) = core.watches.all.get_mut(&cq) else { return Err(Error::InvalidState) };
    if core::mem::take(&mut watch.rung) {
        let _ = watch.bell.clear();
    }
    if !core.watches.armed.contains(&cq) {
        core.watches.armed.push(cq);
    }
    core.engine.set_now(clock());
    if core.waiters.is_empty() {
        core.arm_for_helper(&shared.port);
    }
    // The last look comes after arming: what a peer publishes later rings.
    for _ in 0..TURNS {
        if !core.engine.progress() || !is_empty(&core.engine, cq) {
            break;
        }
    }
    let empty = is_empty(&core.engine, cq);
    if !empty {
        core.watches.ring_ready(&core.engine);
    }
    core.note_watches(shared);
    if core.needs_settling() {
        core.settle(shared);
    }
    Ok(empty)
}

/// To be told of a queue that has been destroyed, or of any other change at the application's will.
pub(super) fn forget(shared: &Shared) {
    let mut core = shared.token.enter(Claim::Bias);
    let Core { watches, engine, .. } = &mut *core;
    watches.sweep(engine);
    core.note_watches(shared);
}

fn is_empty(engine: &Engine<HostWire>, cq: CqHandle) -> bool {
    engine.cqs.get(cq).is_some_and(|q| q.entries.is_empty())
}
