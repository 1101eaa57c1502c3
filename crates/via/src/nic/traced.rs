// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC that is traced: its token is watched (`trace.rs` says why, and what is noted), from when
//! it is opened, or while another process wants it.

use super::captured::Captured;
use super::state::{Core, Shared};
use super::tapped;
use super::trace::Tracer;
use bellwire_memory::token::{Claim, Watcher};
use bellwire_trace::here;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const WATCHER: Watcher<Core> = Watcher { entered, leaves: look };

/// Has a NIC that is being opened traced.
pub(super) fn begin(shared: &Shared) {
    shared.token.watch(Some(WATCHER));
    let mut core = shared.token.enter(Claim::Visit);
    core.tracer = Some(Box::new(Tracer::new(shared.identity.number, capture(shared, &mut core))));
}

/// A capture of the NIC's virtual interfaces, if this process is captured and they are the
/// program's own.
fn capture(shared: &Shared, core: &mut Core) -> Option<Captured> {
    let snap = here::captures().filter(|_| core.machine.is_none())?;
    core.engine.be_captured(true);
    let host = shared.identity.host.parse().or_else(|_| shared.identity.host.parse().map(|address: SocketAddr| address.ip()));
    Some(Captured::new(snap, host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))))
}

/// Has a NIC traced from now on that may have been in use for long: what it has done is not told.
pub(super) fn attach(shared: &Shared) {
    // First, so that each entry after this one is seen.
    shared.token.watch(Some(WATCHER));
    let mut core = shared.token.enter(Claim::Visit);
    if core.tracer.is_none() {
        let mut new = Tracer::new(shared.identity.number, capture(shared, &mut core));
        let Core { tracer, engine, machine, .. } = &mut *core;
        new.begin(engine);
        *tracer = Some(Box::new(new));
        if let Some(tap) = tapped::tap() {
            engine.wire.set_tap(Some(tap));
        }
        if let Some(machine) = machine {
            machine.get_mut().begin_trace();
        }
    }
}

/// Ends that.
pub(super) fn end(shared: &Shared) {
    shared.token.watch(None);
    let mut core = shared.token.enter(Claim::Visit);
    let Core { tracer, engine, machine, .. } = &mut *core;
    *tracer = None;
    engine.be_captured(false);
    engine.wire.set_tap(None);
    if let Some(machine) = machine {
        machine.get_mut().end_trace();
    }
}

/// A thread has entered.
fn entered(core: &mut Core) {
    if let Some(tracer) = &mut core.tracer {
        tracer.enter();
    }
}

/// Before the token is let go.
fn look(core: &mut Core) {
    let Core { tracer: Some(tracer), engine, machine, .. } = core else { return };
    if machine.is_some() && tracer.forgo_capture() {
        engine.be_captured(false);
    }
    tracer.look(engine);
    if let Some(machine) = machine {
        machine.get_mut().trace();
    }
}
