// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices as programs list and open them. Each context has a NIC of its own.

use crate::abi::{IbvAsyncEvent, IbvContext, IbvDevice, OP_ALLOC_MW, OP_BIND_MW, OP_DEALLOC_MW, OP_REQ_NOTIFY_CQ, VerbsContext};
use crate::beside::{self, or_real};
use crate::devices::{self, Own};
use crate::mapped::Used;
use crate::types::{Context, Shared, context};
use crate::{data, device_memory, domains, extended, files, import, objects, pair, ports, query, set_errno, tables, windows};
use bellwire_trace::call as trace;
use core::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Lists the devices, real ones behind ours; NULL ends the list. Behind it stands the genuine
/// library's list, or NULL: that one holds its devices until it is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut IbvDevice {
    let own = devices::all().unwrap_or_else(|why| {
        devices::complain(why);
        &[]
    });
    let own: Vec<&Own> = own.iter().filter(|own| !own.is_removed()).collect();
    // The genuine library must not find our devices, which may look as those of a vendor whose
    // driver it has.
    let (real, others) = files::as_the_system_has_them(beside::list);
    // SAFETY: zeroed, so that NULL ends it; `ibv_free_device_list` frees it.
    let list = unsafe { libc::calloc(own.len() + others + 2, size_of::<*mut IbvDevice>()) }.cast::<*mut IbvDevice>();
    if !list.is_null() {
        for (place, own) in own.iter().enumerate() {
            // SAFETY: just made, with room for all.
            unsafe { list.add(place).write(own.public()) };
        }
        // SAFETY: room for these and two words; the genuine list has as many as it said.
        unsafe {
            if others != 0 {
                real.copy_to_nonoverlapping(list.add(own.len()), others);
            }
            list.add(own.len() + others + 1).write(real.cast());
        }
    }
    if !count.is_null() {
        // SAFETY: V2.
        unsafe { *count = if list.is_null() { 0 } else { (own.len() + others) as c_int } };
    }
    list
}

/// Frees the list; our devices stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut IbvDevice) {
    if list.is_null() {
        return;
    }
    // SAFETY: V1: NULL ends the devices, and one word stands behind it.
    let real: *mut *mut IbvDevice = unsafe {
        let end = (0..).find(|place| (*list.add(*place)).is_null()).unwrap_or(0);
        (*list.add(end + 1)).cast()
    };
    if !real.is_null() {
        beside::real!(ibv_free_device_list(real))
    }
    // SAFETY: V1.
    unsafe { libc::free(list.cast()) };
}

/// The name of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut IbvDevice) -> *const c_char {
    // SAFETY: V1.
    unsafe { (*device).name.as_ptr() }
}

/// The identifier of a device, in network order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut IbvDevice) -> u64 {
    if beside::is_real_device(device) {
        return beside::real!(ibv_get_device_guid(device));
    }
    devices::of(device).map_or(0, |own| own.guid().to_be())
}

/// The index of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut IbvDevice) -> c_int {
    if beside::is_real_device(device) {
        return beside::real!(ibv_get_device_index(device));
    }
    devices::of(device).map_or(-1, |own| own.index as c_int)
}

/// Opens a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut IbvDevice) -> *mut IbvContext {
    if beside::is_real_device(device) {
        return beside::real!(ibv_open_device(device));
    }
    trace::call("ibv_open_device", [device.addr() as u64, 0], || {
        let Some(own) = devices::of(device) else {
            set_errno(libc::EINVAL);
            return core::ptr::null_mut();
        };
        let Some(port) = (!own.is_removed()).then(|| ports::open(own).ok()).flatten() else {
            set_errno(libc::ENODEV);
            return core::ptr::null_mut();
        };
        let shared = Arc::new(Shared { port, own, device_memory: Used::default() });
        let Some(command) = import::descriptor(&shared) else {
            set_errno(libc::EMFILE);
            return core::ptr::null_mut();
        };
        make(shared, command)
    })
}

/// A second context of a device, whose objects are those of the first one. It owns the descriptor
/// from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut IbvContext {
    let fail = |errno| {
        set_errno(errno);
        core::ptr::null_mut()
    };
    // SAFETY: F_GETFD takes any number.
    if cmd_fd < 0 || unsafe { libc::fcntl(cmd_fd, libc::F_GETFD) } < 0 {
        return fail(libc::EBADF);
    }
    // SAFETY: open, just looked; the program does not close it during the call (V2).
    match import::shared_of(unsafe { BorrowedFd::borrow_raw(cmd_fd) }) {
        // SAFETY: the interface gives the descriptor to the context.
        Ok(shared) => make(shared, unsafe { OwnedFd::from_raw_fd(cmd_fd) }),
        Err(libc::EINVAL) if devices::shows_real() => beside::real!(ibv_import_device(cmd_fd)),
        Err(errno) => fail(errno),
    }
}

/// Makes a context.
fn make(shared: Arc<Shared>, command: OwnedFd) -> *mut IbvContext {
    let (port, own, device) = (Arc::clone(&shared.port), shared.own, shared.own.public());
    let async_fd = port.events().fd().as_raw_fd();
    let null: *const c_void = core::ptr::null();
    let mut ops = [null; 32];
    for (place, call) in [
        (OP_ALLOC_MW, windows::alloc_mw as *const c_void),
        (OP_BIND_MW, windows::bind_mw as *const c_void),
        (OP_DEALLOC_MW, windows::dealloc_mw as *const c_void),
        (OP_REQ_NOTIFY_CQ, data::req_notify_cq as *const c_void),
    ] {
        ops[place] = call;
    }
    let context = IbvContext {
        device,
        ops,
        cmd_fd: command.as_raw_fd(),
        async_fd,
        num_comp_vectors: 1,
        mutex: [0; 5],
        abi_compat: core::ptr::without_provenance_mut(usize::MAX),
    };
    let verbs = VerbsContext {
        query_port: query::query_port as *const c_void,
        advise_mr: objects::advise_mr as *const c_void,
        counters: [null; 5],
        reg_dm_mr: device_memory::reg_dm_mr as *const c_void,
        alloc_dm: device_memory::alloc_dm as *const c_void,
        free_dm: device_memory::free_dm as *const c_void,
        flow_actions: [null; 4],
        alloc_parent_domain: domains::alloc_parent_domain as *const c_void,
        dealloc_td: domains::dealloc_td as *const c_void,
        alloc_td: domains::alloc_td as *const c_void,
        work_queues: [null; 7],
        query_rt_values: extended::query_rt_values as *const c_void,
        create_cq_ex: extended::create_cq_ex as *const c_void,
        private: null,
        query_device_ex: extended::query_device_ex as *const c_void,
        flows: [null; 4],
        open_qp: pair::open_qp as *const c_void,
        create_qp_ex: extended::create_qp_ex as *const c_void,
        get_srq_num: objects::get_srq_num as *const c_void,
        create_srq_ex: objects::create_srq_ex as *const c_void,
        open_xrcd: domains::open_xrcd as *const c_void,
        close_xrcd: domains::close_xrcd as *const c_void,
        placeholder: 0,
        size: size_of::<VerbsContext>(),
        context,
    };
    let made = Box::into_raw(Box::new(Context { verbs, port, own, shared, _command: command }));
    // SAFETY: just made.
    let context = unsafe { &raw mut (*made).verbs.context };
    // SAFETY: C1 of tables.rs: just made; `ibv_close_device` takes it away.
    unsafe { tables::add(&raw mut (*context).ops) };
    context
}

/// Closes a device. Objects that the program made with it and did not end go with the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(public: *mut IbvContext) -> c_int {
    or_real!(public, ibv_close_device(public));
    trace::call("ibv_close_device", [public.addr() as u64, 0], || {
        // SAFETY: V1: a part of it, named and not read.
        tables::remove(unsafe { &raw mut (*public).ops });
        // SAFETY: V1.
        drop(unsafe { Box::from_raw(core::ptr::from_ref(context(public)).cast_mut()) });
        0
    })
}

/// Waits for an asynchronous event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(public: *mut IbvContext, to: *mut IbvAsyncEvent) -> c_int {
    or_real!(public, ibv_get_async_event(public, to));
    trace::call("ibv_get_async_event", [public.addr() as u64, 0], || {
        // SAFETY: V1.
        let events = Arc::clone(unsafe { context(public) }.port.events());
        loop {
            if let Some(event) = events.pop() {
                let element = core::ptr::with_exposed_provenance_mut(event.cookie as usize);
                // SAFETY: V2.
                unsafe { to.write(IbvAsyncEvent { element, event_type: event.kind as u32 }) };
                return 0;
            }
            if events.is_nonblocking() {
                set_errno(libc::EAGAIN);
                return -1;
            }
            if let Err(e) = events.sleep() {
                set_errno(e.raw_os_error());
                return -1;
            }
        }
    })
}

/// Says that an event has been seen to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut IbvAsyncEvent) {
    or_real!(event, ibv_ack_async_event(event));
}
/// Reads a file of a directory; how many bytes, without a line's end, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(dir: *const c_char, file: *const c_char, to: *mut c_char, room: usize) -> c_int {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: V2: texts that end.
    let (dir, file) = unsafe { (core::ffi::CStr::from_ptr(dir), core::ffi::CStr::from_ptr(file)) };
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(dir.to_bytes())).join(std::ffi::OsStr::from_bytes(file.to_bytes()));
    let Ok(text) = std::fs::read(path) else { return -1 };
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let n = text.len().min(room.saturating_sub(1));
    if room != 0 {
        // SAFETY: V2: `room` bytes.
        unsafe {
            text.as_ptr().copy_to_nonoverlapping(to.cast(), n);
            to.add(n).write(0);
        }
    }
    n as c_int
}

/// Where the system tells of devices; ours are there too (`files.rs`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}
