// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC that is traced: its token is watched (`trace.rs` says why, and what is noted), from when
//! it is opened, or while another process wants it.

use super::state::{Core, Shared};
use super::trace::Tracer;
use bellwire_memory::token::Claim;

/// Has a NIC that is being opened traced.
pub(super) fn begin(shared: &Shared) {
    let tracer = Tracer::new(shared.identity.number);
    shared.token.enter(Claim::Visit).tracer = Some(Box::new(tracer));
    shared.token.watch(Some(look));
}

/// Has a NIC traced from now on that may have been in use for long: what it has done is not told.
pub(super) fn attach(shared: &Shared) {
    let mut core = shared.token.enter(Claim::Visit);
    let Core { tracer, engine, machine, .. } = &mut *core;
    if tracer.is_none() {
        let mut new = Tracer::new(shared.identity.number);
        new.begin(engine);
        *tracer = Some(Box::new(new));
        if let Some(machine) = machine {
            machine.get_mut().begin_trace();
        }
    }
    drop(core);
    shared.token.watch(Some(look));
}

/// Ends that.
pub(super) fn end(shared: &Shared) {
    shared.token.watch(None);
    shared.token.enter(Claim::Visit).tracer = None;
}

/// Before the token is let go.
fn look(core: &mut Core) {
    let Core { tracer: Some(tracer), engine, machine, .. } = core else { return };
    tracer.look(engine);
    if let Some(machine) = machine {
        machine.get_mut().trace();
    }
}
