// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory windows: made, bound by the older call, ended. Requests that bind or invalidate are in
//! `data.rs` and `extended.rs`.

use crate::abi::{IbvMr, IbvMw, IbvMwBind, IbvMwBindInfo, IbvPd, IbvQp};
use crate::objects::ZERO_BASED;
use crate::types::{Pd, Qp, inside};
use crate::{code, object, set_errno};
use bellwire_verbs::{Access, Bind, Error, Extra, Opcode, Port, SendFlags, SendRequest, WindowKind};
use core::ffi::c_int;
use std::sync::Arc;

/// A memory window.
#[repr(C)]
pub(crate) struct Mw {
    public: IbvMw,
    port: Arc<Port>,
}

/// What a request binds: the window, its key from now on, and the range.
///
/// # Safety
/// V1 for the window and, if there is one, the region.
pub(crate) unsafe fn bind_of(mw: *const IbvMw, key: u32, info: &IbvMwBindInfo) -> Result<Extra, Error> {
    if mw.is_null() || (info.mr.is_null() && info.length != 0) {
        return Err(Error::Invalid);
    }
    let known = (Access::all() - Access::WINDOW_BIND - Access::ON_DEMAND).bits() | ZERO_BASED;
    if info.access & !known != 0 {
        return Err(Error::Invalid);
    }
    // SAFETY: V1.
    let (window, region) = unsafe { ((*mw).rkey, if info.mr.is_null() { 0 } else { (*info.mr.cast::<IbvMr>()).lkey }) };
    let access = Access::from_bits_truncate(info.access);
    Ok(Extra::Bind(Bind { window, key, region, address: info.addr, length: info.length, access, zero_based: info.access & ZERO_BASED != 0 }))
}

/// Makes a memory window.
pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut IbvPd, kind: u32) -> *mut IbvMw {
    let of_kind = match kind {
        1 => WindowKind::Domain,
        2 => WindowKind::QueuePair,
        _ => {
            set_errno(libc::EINVAL);
            return core::ptr::null_mut();
        }
    };
    // SAFETY: V1.
    let (inner, context) = unsafe { (inside::<_, Pd>(pd), (*pd).context) };
    let port = Arc::clone(&inner.port);
    object(port.create_window(inner.id, of_kind).map(|rkey| Box::new(Mw { public: IbvMw { context, pd, rkey, handle: rkey, kind }, port }))).cast()
}

/// Binds a window of type 1: its key changes with each binding.
pub(crate) unsafe extern "C" fn bind_mw(qp: *mut IbvQp, mw: *mut IbvMw, bind: *const IbvMwBind) -> c_int {
    // SAFETY: V1, V2.
    let (inner, bind, old) = unsafe { (inside::<_, Qp>(qp), &*bind, (*mw).rkey) };
    let key = (old & !0xff) | (old.wrapping_add(1) & 0xff);
    // SAFETY: V1.
    let outcome = unsafe { bind_of(mw, key, &bind.info) }.and_then(|extra| {
        inner.port.post_registered(
            inner.number,
            &SendRequest {
                wr_id: bind.wr_id,
                opcode: Opcode::Bind,
                flags: SendFlags::from_bits_truncate(bind.send_flags) - SendFlags::INLINE,
                pieces: &[],
                immediate: 0,
                address: 0,
                key: 0,
                operands: [0; 2],
                extra,
                to: None,
            },
        )
    });
    if outcome.is_ok() {
        // SAFETY: V1.
        unsafe { (*mw).rkey = key };
    }
    code(outcome)
}

/// Ends a memory window.
pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut IbvMw) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Mw>(mw) };
    let outcome = inner.port.destroy_window(inner.public.rkey);
    if matches!(outcome, Ok(()) | Err(Error::InChild)) {
        // SAFETY: V1; it is used no more.
        drop(unsafe { Box::from_raw(mw.cast::<Mw>()) });
        return 0;
    }
    code(outcome)
}
