// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of 2006, for programs that were linked before libibverbs 1.1: their names have the
//! version `IBVERBS_1.0` (`older.txt`; `link.sh` gives each function here that name and version).
//! Their objects have other shapes, so each stands in front of one of today's, and calls go on to
//! that one. It may be of a real device as well (`beside.rs`).
//!
//! Its shapes are in `older_types.rs`; `older/data.rs` has the calls that programs make through the
//! table of the context.

mod data;

use crate::abi::{
    Call, IbvAhAttr, IbvAsyncEvent, IbvCompChannel, IbvCq, IbvDeviceAttr, IbvPortAttr, IbvQp, IbvQpAttr, IbvQpInitAttr, IbvSrq, IbvSrqAttr, IbvSrqInitAttr,
};
use crate::older_types::{
    MARK, OLD_MARK, OLD_OPS, OLD_POLL_CQ, OLD_POST_RECV, OLD_POST_SEND, OLD_POST_SRQ_RECV, OLD_REQ_NOTIFY_CQ, OldAh, OldContext, OldCq, OldDevice, OldMr,
    OldPd, OldQp, OldQpInitAttr, OldSrq,
};
use crate::{device, events, groups, objects, pair, query};
use bellwire_verbs::Gid;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

/// `event_type` of events of a completion queue, a queue pair, a shared receive queue.
const OF_CQ: [u32; 1] = [0];
const OF_QP: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 16];
const OF_SRQ: [u32; 2] = [14, 15];

fn keep<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

/// Frees an object once the real one has ended.
///
/// # Safety
/// V1.
unsafe fn end<T>(object: *mut T, outcome: c_int) -> c_int {
    if outcome == 0 {
        // SAFETY: the caller's; it is used no more.
        drop(unsafe { Box::from_raw(object) });
    }
    outcome
}

/// Calls whose only difference is the object.
macro_rules! pass_on {
    ($($(#[$doc:meta])* $old:ident => $real:path: ($object:ident: $type:ty $(, $argument:ident: $kind:ty)*) -> $result:ty;)*) => {
        $($(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old($object: *mut $type $(, $argument: $kind)*) -> $result {
            // SAFETY: V1, and the arguments are the program's.
            unsafe { $real((*$object).real $(, $argument)*) }
        })*
    };
}

/// Calls that end an object.
macro_rules! end_with {
    ($($(#[$doc:meta])* $old:ident => $real:path: $type:ty;)*) => {
        $($(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old(object: *mut $type) -> c_int {
            // SAFETY: V1.
            unsafe { end(object, $real((*object).real)) }
        })*
    };
}

pass_on! {
    /// The name of a device.
    older_ibv_get_device_name => device::ibv_get_device_name: (object: OldDevice) -> *const c_char;
    /// The identifier of a device.
    older_ibv_get_device_guid => device::ibv_get_device_guid: (object: OldDevice) -> u64;
    /// What a device is like.
    older_ibv_query_device => query::ibv_query_device: (object: OldContext, to: *mut IbvDeviceAttr) -> c_int;
    /// What a port is like.
    older_ibv_query_port => query::ibv_query_port: (object: OldContext, port: u8, to: *mut IbvPortAttr) -> c_int;
    /// An address.
    older_ibv_query_gid => query::ibv_query_gid: (object: OldContext, port: u8, index: c_int, to: *mut [u8; 16]) -> c_int;
    /// A partition key.
    older_ibv_query_pkey => query::ibv_query_pkey: (object: OldContext, port: u8, index: c_int, to: *mut u16) -> c_int;
    /// The number of events seen to.
    older_ibv_ack_cq_events => events::ibv_ack_cq_events: (object: OldCq, count: u32) -> ();
    /// Changes a shared receive queue.
    older_ibv_modify_srq => objects::ibv_modify_srq: (object: OldSrq, attr: *const IbvSrqAttr, mask: c_int) -> c_int;
    /// What a shared receive queue is like.
    older_ibv_query_srq => objects::ibv_query_srq: (object: OldSrq, to: *mut IbvSrqAttr) -> c_int;
    /// Joins a group.
    older_ibv_attach_mcast => groups::ibv_attach_mcast: (object: OldQp, gid: *const Gid, lid: u16) -> c_int;
    /// Leaves a group.
    older_ibv_detach_mcast => groups::ibv_detach_mcast: (object: OldQp, gid: *const Gid, lid: u16) -> c_int;
}

end_with! {
    /// Closes a device.
    older_ibv_close_device => device::ibv_close_device: OldContext;
    /// Ends a protection domain.
    older_ibv_dealloc_pd => objects::ibv_dealloc_pd: OldPd;
    /// Ends a registration.
    older_ibv_dereg_mr => objects::ibv_dereg_mr: OldMr;
    /// Ends a completion queue.
    older_ibv_destroy_cq => events::ibv_destroy_cq: OldCq;
    /// Ends a shared receive queue.
    older_ibv_destroy_srq => objects::ibv_destroy_srq: OldSrq;
    /// Ends a queue pair.
    older_ibv_destroy_qp => pair::ibv_destroy_qp: OldQp;
    /// Ends an address handle.
    older_ibv_destroy_ah => objects::ibv_destroy_ah: OldAh;
}

/// Lists the devices. Before the first stands today's list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_get_device_list(count: *mut c_int) -> *mut *mut OldDevice {
    let mut n = 0;
    // SAFETY: room for a number; the list has `n` devices. The new one has room for them, and for a
    // word on each side.
    unsafe {
        let real = device::ibv_get_device_list(&raw mut n);
        let list = if real.is_null() { null_mut() } else { libc::calloc(n as usize + 2, size_of::<*mut OldDevice>()).cast::<*mut OldDevice>() };
        if list.is_null() {
            device::ibv_free_device_list(real);
            return null_mut();
        }
        list.write(real.cast());
        for place in 0..n as usize {
            let old = OldDevice { obsolete: [core::ptr::null(); 2], real: *real.add(place), ops: [core::ptr::null(); 2] };
            list.add(place + 1).write(keep(old));
        }
        if !count.is_null() {
            count.write(n);
        }
        list.add(1)
    }
}

/// Frees the list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_free_device_list(list: *mut *mut OldDevice) {
    if list.is_null() {
        return;
    }
    // SAFETY: V1: NULL ends the list, and today's stands before it.
    unsafe {
        let mut at = list;
        while !(*at).is_null() {
            drop(Box::from_raw(*at));
            at = at.add(1);
        }
        device::ibv_free_device_list((*list.sub(1)).cast());
        libc::free(list.sub(1).cast());
    }
}

/// Opens a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_open_device(device: *mut OldDevice) -> *mut OldContext {
    // SAFETY: V1.
    let real = unsafe { device::ibv_open_device((*device).real) };
    if real.is_null() {
        return null_mut();
    }
    let mut ops = [core::ptr::null(); OLD_OPS];
    ops[OLD_MARK] = &raw const MARK as Call;
    ops[OLD_POLL_CQ] = data::poll_cq as Call;
    ops[OLD_REQ_NOTIFY_CQ] = data::req_notify_cq as Call;
    ops[OLD_POST_SRQ_RECV] = data::post_srq_recv as Call;
    ops[OLD_POST_SEND] = data::post_send as Call;
    ops[OLD_POST_RECV] = data::post_recv as Call;
    // SAFETY: just opened.
    let (cmd_fd, async_fd, num_comp_vectors) = unsafe { ((*real).cmd_fd, (*real).async_fd, (*real).num_comp_vectors) };
    keep(OldContext { device, ops, cmd_fd, async_fd, num_comp_vectors, real })
}

/// Waits for an asynchronous event. Today's objects have the old ones as their context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_get_async_event(context: *mut OldContext, event: *mut IbvAsyncEvent) -> c_int {
    // SAFETY: V1, V2; the element is of the kind that the event's type says.
    unsafe {
        let outcome = device::ibv_get_async_event((*context).real, event);
        if outcome == 0 {
            let (kind, element) = ((*event).event_type, (*event).element);
            if OF_CQ.contains(&kind) {
                (*event).element = (*element.cast::<IbvCq>()).cq_context;
            } else if OF_QP.contains(&kind) {
                (*event).element = (*element.cast::<IbvQp>()).qp_context;
            } else if OF_SRQ.contains(&kind) {
                (*event).element = (*element.cast::<IbvSrq>()).srq_context;
            }
        }
        outcome
    }
}

/// Says that an event has been seen to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_ack_async_event(event: *mut IbvAsyncEvent) {
    // SAFETY: V1, V2: the element is an old object of the kind that the event's type says.
    unsafe {
        let (event_type, element) = ((*event).event_type, (*event).element);
        let element = if OF_CQ.contains(&event_type) {
            (*element.cast::<OldCq>()).real.cast()
        } else if OF_QP.contains(&event_type) {
            (*element.cast::<OldQp>()).real.cast()
        } else if OF_SRQ.contains(&event_type) {
            (*element.cast::<OldSrq>()).real.cast()
        } else {
            element
        };
        device::ibv_ack_async_event(&mut IbvAsyncEvent { element, event_type });
    }
}

/// Makes a protection domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_alloc_pd(context: *mut OldContext) -> *mut OldPd {
    // SAFETY: V1.
    unsafe {
        let real = objects::ibv_alloc_pd((*context).real);
        if real.is_null() { null_mut() } else { keep(OldPd { context, handle: (*real).handle, real }) }
    }
}

/// Registers memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_reg_mr(pd: *mut OldPd, addr: *mut c_void, length: usize, access: c_int) -> *mut OldMr {
    // SAFETY: V1, V2.
    unsafe {
        let real = objects::ibv_reg_mr((*pd).real, addr, length, access);
        if real.is_null() {
            return null_mut();
        }
        keep(OldMr { context: (*pd).context, pd, handle: (*real).handle, lkey: (*real).lkey, rkey: (*real).rkey, real })
    }
}

/// Makes a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_create_cq(
    context: *mut OldContext,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut IbvCompChannel,
    vector: c_int,
) -> *mut OldCq {
    // SAFETY: V1.
    unsafe {
        let real = events::ibv_create_cq((*context).real, entries, cq_context, channel, vector);
        if real.is_null() {
            return null_mut();
        }
        let (mutex, cond) = Default::default();
        let (handle, cqe) = ((*real).handle, (*real).cqe);
        let old = keep(OldCq { context, cq_context, handle, cqe, mutex, cond, comp_events_completed: 0, async_events_completed: 0, real });
        (*real).cq_context = old.cast();
        old
    }
}

/// Changes the length of a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_resize_cq(cq: *mut OldCq, entries: c_int) -> c_int {
    // SAFETY: V1.
    unsafe {
        let outcome = events::ibv_resize_cq((*cq).real, entries);
        (*cq).cqe = (*(*cq).real).cqe;
        outcome
    }
}

/// Waits for an event of a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_get_cq_event(channel: *mut IbvCompChannel, cq: *mut *mut OldCq, cq_context: *mut *mut c_void) -> c_int {
    let (mut real, mut ignored) = (null_mut::<IbvCq>(), null_mut());
    // SAFETY: V1, V2; the real queue has the old one as its context.
    unsafe {
        let outcome = events::ibv_get_cq_event(channel, &raw mut real, &raw mut ignored);
        if outcome == 0 {
            let old = (*real).cq_context.cast::<OldCq>();
            cq.write(old);
            cq_context.write((*old).cq_context);
        }
        outcome
    }
}

/// Makes a shared receive queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_create_srq(pd: *mut OldPd, init: *mut IbvSrqInitAttr) -> *mut OldSrq {
    // SAFETY: V1, V2.
    unsafe {
        let real = objects::ibv_create_srq((*pd).real, init);
        if real.is_null() {
            return null_mut();
        }
        let (mutex, cond) = Default::default();
        let (context, srq_context, handle) = ((*pd).context, (*init).srq_context, (*real).handle);
        let old = keep(OldSrq { context, srq_context, pd, handle, mutex, cond, events_completed: 0, real });
        (*real).srq_context = old.cast();
        old
    }
}

/// Makes a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_create_qp(pd: *mut OldPd, init: *mut OldQpInitAttr) -> *mut OldQp {
    // SAFETY: V1, V2; zero is a value of each field.
    unsafe {
        let a = &mut *init;
        let mut attr: IbvQpInitAttr = core::mem::zeroed();
        (attr.qp_context, attr.cap, attr.qp_type, attr.sq_sig_all) = (a.qp_context, a.cap, a.qp_type, a.sq_sig_all);
        attr.send_cq = if a.send_cq.is_null() { null_mut() } else { (*a.send_cq).real };
        attr.recv_cq = if a.recv_cq.is_null() { null_mut() } else { (*a.recv_cq).real };
        attr.srq = if a.srq.is_null() { null_mut() } else { (*a.srq).real };
        let real = pair::ibv_create_qp((*pd).real, &raw mut attr);
        if real.is_null() {
            return null_mut();
        }
        a.cap = attr.cap;
        let (mutex, cond) = Default::default();
        let old = keep(OldQp {
            context: (*pd).context,
            qp_context: a.qp_context,
            pd,
            send_cq: a.send_cq,
            recv_cq: a.recv_cq,
            srq: a.srq,
            handle: (*real).handle,
            qp_num: (*real).qp_num,
            state: (*real).state,
            qp_type: a.qp_type,
            mutex,
            cond,
            events_completed: 0,
            real,
        });
        (*real).qp_context = old.cast();
        old
    }
}

/// What a queue pair is like.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_query_qp(qp: *mut OldQp, attr: *mut IbvQpAttr, mask: c_int, init: *mut OldQpInitAttr) -> c_int {
    // SAFETY: V1, V2; zero is a value of each field.
    unsafe {
        let mut now: IbvQpInitAttr = core::mem::zeroed();
        let old = &mut *qp;
        let outcome = pair::ibv_query_qp(old.real, attr, mask, &raw mut now);
        if outcome == 0 {
            old.state = (*old.real).state;
            init.write(OldQpInitAttr {
                qp_context: old.qp_context,
                send_cq: old.send_cq,
                recv_cq: old.recv_cq,
                srq: old.srq,
                cap: now.cap,
                qp_type: now.qp_type,
                sq_sig_all: now.sq_sig_all,
            });
        }
        outcome
    }
}

/// Changes a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_modify_qp(qp: *mut OldQp, attr: *mut IbvQpAttr, mask: c_int) -> c_int {
    // SAFETY: V1, V2.
    unsafe {
        let outcome = pair::ibv_modify_qp((*qp).real, attr, mask);
        (*qp).state = (*(*qp).real).state;
        outcome
    }
}

/// Makes an address handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn older_ibv_create_ah(pd: *mut OldPd, attr: *mut IbvAhAttr) -> *mut OldAh {
    // SAFETY: V1, V2.
    unsafe {
        let real = objects::ibv_create_ah((*pd).real, attr);
        if real.is_null() { null_mut() } else { keep(OldAh { context: (*pd).context, pd, handle: (*real).handle, real }) }
    }
}
