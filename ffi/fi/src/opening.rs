// SPDX-License-Identifier: MIT OR Apache-2.0
//! How endpoints are opened.

use crate::abi::{Fid, class, error};
use crate::attributes::Info;
use crate::cm::{self, Connector};
use crate::endpoint::{Making, make};
use crate::format::Format;
use crate::named::open_named;
use crate::object::EpObject;
use crate::resources::domain_of;
use crate::traced::setup;
use crate::{flags, hints, message, names, passive};
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// `fi_endpoint`.
pub(crate) unsafe extern "C" fn open(domain: *mut Fid, info: *const Info, to: *mut *mut EpObject, context: *mut c_void) -> c_int {
    setup("fi_endpoint", [0; 2], || {
        // SAFETY: F2.
        let info = unsafe { info.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F2.
        let (ep, tx, rx) = unsafe { (info.ep_attr.as_ref(), info.tx_attr.as_ref(), info.rx_attr.as_ref()) };
        let kind = ep.map_or(0, |a| a.kind);
        if !matches!(kind, 0 | hints::RDM | hints::MSG_KIND | hints::DGRAM) {
            return Err(error::EINVAL);
        }
        let is_pair = kind == hints::MSG_KIND;
        // What a handle says: nothing, the request that this is to accept, or an endpoint that
        // waits for requests, whose name this one takes over.
        let is_request = is_pair && cm::is_request(info.handle);
        // SAFETY: F1.
        let given = if is_request || !is_pair { None } else { unsafe { passive::give_up(info.handle) } };
        if !info.handle.is_null() && !is_request && given.is_none() {
            return Err(error::EINVAL);
        }
        // SAFETY: F1.
        let domain = unsafe { domain_of(domain) };
        let format = Format::of_answer(info.addr_format);
        let id = match given {
            Some(name) => name.id(),
            None if is_request => None,
            // SAFETY: F2.
            None => unsafe { names::wanted_id(info) }?,
        };
        let endpoint = open_named(&domain.regions, id, format)?;
        if is_pair {
            endpoint.take_known_only();
        }
        let is_prefixed = info.mode & flags::MSG_PREFIX != 0;
        let making = Making {
            class: class::EP,
            calls: message::calls_of(class::EP, is_prefixed),
            caps: info.caps,
            flags: [tx.map_or(0, |a| a.op_flags), rx.map_or(0, |a| a.op_flags)],
            format,
            // As with sockets, who accepts has the address that was asked.
            // SAFETY: F2.
            told: if is_request && format != Format::Name { unsafe { names::source_of(info) } } else { None },
            is_prefixed,
            scalable: None,
            connector: is_pair.then(|| Arc::new(Connector::new(None))),
            request: if is_request { info.handle } else { core::ptr::null_mut() },
        };
        make(endpoint, domain, making, to, context)
    })
}

/// `fi_endpoint2`.
pub(crate) unsafe extern "C" fn open2(domain: *mut Fid, info: *const Info, to: *mut *mut EpObject, flags: u64, context: *mut c_void) -> c_int {
    if flags != 0 {
        return -error::BAD_FLAGS;
    }
    // SAFETY: F1, F2.
    unsafe { open(domain, info, to, context) }
}
