// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC that is traced: its token is watched (`trace.rs` says why, and what is noted).

use super::state::{Core, Shared};
use super::trace::Tracer;
use bellwire_memory::token::Claim;

/// Has a NIC traced from now on.
pub(super) fn begin(shared: &Shared) {
    let tracer = Tracer::new(shared.identity.number);
    shared.token.enter(Claim::Visit).tracer = Some(Box::new(tracer));
    shared.token.watch(Some(look));
}

/// Before the token is let go.
fn look(core: &mut Core) {
    let Core { tracer: Some(tracer), engine, machine, .. } = core else { return };
    tracer.look(engine);
    if let Some(machine) = machine {
        machine.get_mut().trace();
    }
}
