// SPDX-License-Identifier: MIT OR Apache-2.0
//! libibverbs' interface on `bellwire-verbs`, for RDMA programs as they are. `link.sh` makes two libraries of this archive: `libbellwire-verbs.so`, to be preloaded, and a replacement
//! `libibverbs.so.1`; both with the versions of symbols that programs were linked with (`symbols.txt`).
//!
//! | file | concern |
//! |---|---|
//! | `abi.rs` | shapes of the public header |
//! | `types.rs`, `mapped.rs` | the objects behind the public structures, below the calls; memory of the library's own |
//! | `beside.rs` | real devices beside ours, whose calls go to the genuine library |
//! | `control.rs` | orders from outside: ports down and up |
//! | `devices.rs` | the devices of this process, and how many objects each has |
//! | `device.rs`, `query.rs` | devices, contexts, asynchronous events; what a device tells of itself |
//! | `objects.rs`, `events.rs` | protection domains, memory, completion queues and channels, shared receive queues, address handles |
//! | `windows.rs` | memory windows |
//! | `domains.rs` | thread, parent and XRC domains |
//! | `device_memory.rs` | memory of the device |
//! | `import.rs` | objects of another context, by their handles |
//! | `ports.rs` | devices that are open, and whose |
//! | `older.rs`, `older_types.rs`, `older/` | the interface of 2006 (`IBVERBS_1.0`) |
//! | `pair.rs`, `groups.rs` | queue pairs; multicast |
//! | `cm_kern.rs` | conversions that librdmacm asks of libibverbs |
//! | `data.rs` | posting and polling: the calls that programs make through tables in the context |
//! | `extended.rs` | the newer interfaces: requests built by calls, completions read by calls |
//! | `files.rs`, `files/` | device files and `/sys` as programs see them: calls of the C library that are taken |
//! | `strict.rs` | where reports of broken rules go |
//! | `traced.rs` | the calls of a program that is traced |
//! | `names.rs` | texts, and conversions of rates |
//!
//! Invariants, on which every `unsafe` block about an argument relies:
//! - V1: an object's first field is the public structure, and the pointer that a program has of it came from the call that made it, and has not been given to the one that ends it.
//! - V2: a pointer argument that is not NULL points to what the interface says, readable or writable for the duration of the call; buffers of requests until their completion.

mod abi;
mod beside;
mod cm_kern;
mod control;
mod data;
mod device;
mod device_memory;
mod devices;
mod domains;
mod events;
mod extended;
mod files;
mod groups;
mod import;
mod mapped;
mod names;
mod objects;
mod older;
mod older_types;
mod pair;
mod pieces;
mod ports;
mod query;
mod strict;
mod tables;
mod traced;
mod types;
mod windows;

use bellwire_verbs::Error;
use core::ffi::c_int;

/// The number of an error.
pub(crate) fn errno_of(error: Error) -> c_int {
    match error {
        Error::NoMemory => libc::ENOMEM,
        Error::Busy => libc::EBUSY,
        Error::Unsupported => libc::EOPNOTSUPP,
        Error::Fault => libc::EFAULT,
        Error::InChild => libc::EIO,
        _ => libc::EINVAL,
    }
}

/// What a call returns that gives the error back.
pub(crate) fn code(outcome: Result<(), Error>) -> c_int {
    outcome.map_or_else(errno_of, |()| 0)
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = value };
}

/// What a call returns that gives an object or NULL: sets errno.
pub(crate) fn object<T>(outcome: Result<Box<T>, Error>) -> *mut T {
    match outcome {
        Ok(object) => Box::into_raw(object),
        Err(e) => {
            set_errno(errno_of(e));
            core::ptr::null_mut()
        }
    }
}
