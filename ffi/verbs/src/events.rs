// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues and completion channels.

use crate::abi::{IbvCompChannel, IbvContext, IbvCq};
use crate::beside::or_real;
use crate::devices::Kind;
use crate::older_types::today;
use crate::types::{CompChannel, Cq, context, inside};
use crate::{code, errno_of, set_errno};
use bellwire_devices::Model;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_trace::call as trace;
use bellwire_verbs::{Channel, Error, Stamp, WcFlags};
use core::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Makes a completion channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(public: *mut IbvContext) -> *mut IbvCompChannel {
    // SAFETY: V1.
    let public = unsafe { today(public) };
    or_real!(public, ibv_create_comp_channel(public));
    // SAFETY: V1.
    let port = Arc::clone(&unsafe { context(public) }.port);
    let Ok(events) = Channel::new() else {
        set_errno(libc::EMFILE);
        return core::ptr::null_mut();
    };
    let fd = events.fd().as_raw_fd();
    let channel = CompChannel { public: IbvCompChannel { context: public, fd, refcnt: 0 }, port, events: Arc::new(events), users: AtomicU32::new(0) };
    Box::into_raw(Box::new(channel)).cast()
}

/// Ends one that no completion queue uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut IbvCompChannel) -> c_int {
    or_real!(channel, ibv_destroy_comp_channel(channel));
    // SAFETY: V1.
    let inner = unsafe { inside::<_, CompChannel>(channel) };
    // Relaxed: the program does not make queues of a channel that it ends.
    if inner.users.load(Ordering::Relaxed) != 0 {
        return libc::EBUSY;
    }
    // SAFETY: V1; it is used no more.
    drop(unsafe { Box::from_raw(channel.cast::<CompChannel>()) });
    0
}

/// Makes a completion queue.
pub(crate) fn create(public: *mut IbvContext, entries: c_int, cq_context: *mut c_void, channel: *mut IbvCompChannel, vector: u32) -> *mut IbvCq {
    // SAFETY: V1.
    let (port, own) = unsafe { (Arc::clone(&context(public).port), context(public).own) };
    let most = own.device.limits.max_cqe;
    let counted = match own.count(Kind::Cq) {
        Ok(counted) if entries >= 1 && entries as u64 <= most && vector == 0 => counted,
        Ok(_) => {
            set_errno(libc::EINVAL);
            return core::ptr::null_mut();
        }
        Err(e) => {
            set_errno(errno_of(e));
            return core::ptr::null_mut();
        }
    };
    // SAFETY: V1.
    let channel_inside = (!channel.is_null()).then(|| unsafe { inside::<_, CompChannel>(channel) });
    let made = Box::into_raw(Box::new(Cq {
        public: IbvCq {
            context: public,
            channel,
            cq_context,
            handle: 0,
            cqe: entries,
            mutex: [0; 5],
            cond: [0; 6],
            comp_events_completed: 0,
            async_events_completed: 0,
            comp_mask: 0,
            status: 0,
            wr_id: 0,
            calls: [core::ptr::null(); 18],
        },
        port: Arc::clone(&port),
        id: 0,
        given: AtomicU32::new(0),
        seen: AtomicU32::new(0),
        current: None,
        stamp: Stamp::default(),
        is_stamped: false,
        received: if own.device.model == Model::Rxe { WcFlags::GRH } else { WcFlags::empty() },
        _counted: counted,
        most,
    }));
    match port.create_cq(entries as usize, channel_inside.map(|c| Arc::clone(&c.events)), made.expose_provenance() as u64) {
        Ok(id) => {
            // SAFETY: just made.
            unsafe { ((*made).id, (*made).public.handle) = (id, id) };
            if let Some(c) = channel_inside {
                // Relaxed: a count.
                c.users.fetch_add(1, Ordering::Relaxed);
            }
            made.cast()
        }
        Err(e) => {
            // SAFETY: just made; nobody has it.
            drop(unsafe { Box::from_raw(made) });
            set_errno(errno_of(e));
            core::ptr::null_mut()
        }
    }
}

/// Makes a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    public: *mut IbvContext,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut IbvCompChannel,
    vector: c_int,
) -> *mut IbvCq {
    or_real!(public, ibv_create_cq(public, entries, cq_context, channel, vector));
    trace::call("ibv_create_cq", [public.addr() as u64, entries as u64], || create(public, entries, cq_context, channel, vector as u32))
}

/// Changes its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut IbvCq, entries: c_int) -> c_int {
    or_real!(cq, ibv_resize_cq(cq, entries));
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Cq>(cq) };
    let outcome = usize::try_from(entries).ok().filter(|n| *n as u64 <= inner.most).ok_or(Error::Invalid).and_then(|n| inner.port.resize_cq(inner.id, n));
    if outcome.is_ok() {
        // SAFETY: V1.
        unsafe { (*cq).cqe = entries };
    }
    code(outcome)
}

/// Ends one, when all events of it that were given are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut IbvCq) -> c_int {
    or_real!(cq, ibv_destroy_cq(cq));
    trace::call("ibv_destroy_cq", [cq.addr() as u64, 0], || {
        // SAFETY: V1.
        let inner = unsafe { inside::<_, Cq>(cq) };
        let outcome = inner.port.destroy_cq(inner.id);
        if outcome.is_err() {
            return code(outcome);
        }
        let cookie = cq.addr() as u64;
        inner.port.events().discard(|e| e.cookie == cookie);
        if !inner.public.channel.is_null() {
            // SAFETY: V1.
            let channel = unsafe { inside::<_, CompChannel>(inner.public.channel) };
            channel.events.discard(|e| *e == cookie);
            // Acquire: what the acknowledging thread did with the queue is done; pairs with the
            // release there.
            while inner.given.load(Ordering::Relaxed) != inner.seen.load(Ordering::Acquire) {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            // Relaxed: a count.
            channel.users.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: V1; it is used no more.
        drop(unsafe { Box::from_raw(cq.cast::<Cq>()) });
        0
    })
}

/// Waits for an event of a completion channel; meanwhile this thread moves everything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(channel: *mut IbvCompChannel, cq: *mut *mut IbvCq, cq_context: *mut *mut c_void) -> c_int {
    or_real!(channel, ibv_get_cq_event(channel, cq, cq_context));
    trace::call("ibv_get_cq_event", [channel.addr() as u64, 0], || {
        // SAFETY: V1.
        let inner = unsafe { inside::<_, CompChannel>(channel) };
        loop {
            if let Some(cookie) = inner.events.pop() {
                let found = core::ptr::with_exposed_provenance_mut::<IbvCq>(cookie as usize);
                // SAFETY: V1: events of a queue that has ended are discarded. Relaxed: a count that
                // this thread's program compares later.
                unsafe {
                    inside::<_, Cq>(found).given.fetch_add(1, Ordering::Relaxed);
                    *cq = found;
                    *cq_context = (*found).cq_context;
                }
                return 0;
            }
            if inner.events.is_nonblocking() {
                set_errno(libc::EAGAIN);
                return -1;
            }
            if let Err(e) = inner.port.wait_for_completions(&inner.events) {
                set_errno(e.raw_os_error());
                return -1;
            }
        }
    })
}

/// Says that events have been seen to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut IbvCq, count: u32) {
    or_real!(cq, ibv_ack_cq_events(cq, count));
    // SAFETY: V1. Release: pairs with the acquire of who ends the queue.
    unsafe { inside::<_, Cq>(cq) }.seen.fetch_add(count, Ordering::Release);
}
