// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast groups.

use crate::abi::IbvQp;
use crate::beside::or_real;
use crate::types::{Qp, inside};
use crate::{code, set_errno};
use bellwire_trace::call as trace;
use bellwire_verbs::Gid;
use core::ffi::c_int;

/// Attaches a queue pair to a group. The LID means nothing on Ethernet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(qp: *mut IbvQp, gid: *const Gid, lid: u16) -> c_int {
    or_real!(qp, ibv_attach_mcast(qp, gid, lid));
    trace::call("ibv_attach_mcast", [qp.addr() as u64, 0], || {
        // SAFETY: V1, V2.
        let (qp, gid) = unsafe { (inside::<_, Qp>(qp), &*gid) };
        failed(code(qp.port.attach_to_group(qp.number, gid)))
    })
}

/// Detaches one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(qp: *mut IbvQp, gid: *const Gid, lid: u16) -> c_int {
    or_real!(qp, ibv_detach_mcast(qp, gid, lid));
    // SAFETY: V1, V2.
    let (qp, gid) = unsafe { (inside::<_, Qp>(qp), &*gid) };
    failed(code(qp.port.detach_from_group(qp.number, gid)))
}

/// Programs look at `errno` too.
fn failed(code: c_int) -> c_int {
    if code != 0 {
        set_errno(code);
    }
    code
}
