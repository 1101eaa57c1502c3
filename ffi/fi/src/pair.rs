// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of endpoints that are connected in pairs (`FI_EP_MSG`); what they do is in `cm.rs`.

use crate::abi::{Fid, Outcome, control, error};
use crate::cm::{self, Connector};
use crate::enabling::enable;
use crate::format::copy_address;
use crate::object::{EpObject, of};
use crate::traced::setup;
use core::ffi::{c_int, c_void};

pub(crate) unsafe extern "C" fn getpeer(fid: *mut Fid, to: *mut u8, length: *mut usize) -> c_int {
    control(|| {
        // SAFETY: F1.
        let (ep, connector) = unsafe { pair(fid) }?;
        let peer = connector.peer().ok_or(error::ENOTCONN)?;
        // SAFETY: F2.
        unsafe { copy_address(&ep.format.write(&peer), to, length) }
    })
}

/// An endpoint that is connected in pairs.
///
/// # Safety
/// F1.
unsafe fn pair<'a>(fid: *mut Fid) -> Outcome<(&'a EpObject, &'a Connector)> {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    Ok((ep, ep.connector.as_ref().ok_or(error::ENOSYS)?))
}

/// Connecting enables what is not enabled yet.
fn be_enabled(ep: &EpObject) -> Outcome {
    if ep.bound.get().is_some() { Ok(()) } else { enable(ep) }
}

pub(crate) unsafe extern "C" fn connect(fid: *mut Fid, to: *const u8, data: *const c_void, length: usize) -> c_int {
    setup("fi_connect", [fid.addr(), 0], || {
        // SAFETY: F1, F2.
        let ((ep, connector), data) = unsafe { (pair(fid)?, cm::data_of(data, length)?) };
        if to.is_null() || !ep.request.is_null() {
            return Err(error::EINVAL);
        }
        // SAFETY: F2: an address of the endpoint's format.
        let to = unsafe { ep.format.read(to) }.ok_or(error::EINVAL)?;
        be_enabled(ep)?;
        cm::connect(&ep.shared, connector, to, data)
    })
}

pub(crate) unsafe extern "C" fn accept(fid: *mut Fid, data: *const c_void, length: usize) -> c_int {
    setup("fi_accept", [fid.addr(), 0], || {
        // SAFETY: F1, F2.
        let ((ep, connector), data) = unsafe { (pair(fid)?, cm::data_of(data, length)?) };
        be_enabled(ep)?;
        cm::accept(&ep.shared, connector, &cm::take_request(ep.request)?, data)
    })
}

pub(crate) unsafe extern "C" fn shutdown(fid: *mut Fid, _flags: u64) -> c_int {
    setup("fi_shutdown", [fid.addr(), 0], || {
        // SAFETY: F1.
        let (ep, connector) = unsafe { pair(fid) }?;
        cm::shut_down(&ep.shared, connector)
    })
}
