// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of domains. They open the objects that need one.

use crate::abi::{Fid, Table, TableRef, class, close_unused, control, error, give, none};
use crate::attributes::Info;
use crate::flags;
use crate::format::Format;
use crate::resources::{DomainObject, DomainShared};
use crate::traced::setup;
use crate::{atomic, av, counter, cq, memory, opening, pollset, scalable, shared};
use bellwire_trace::here;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

static FID: Table<6> = Table::new([close as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<11> = Table::new([
    av::open as *const (),
    cq::open as *const (),
    opening::open as *const (),
    scalable::open as *const (),
    counter::open as *const (),
    pollset::open as *const (),
    shared::open_transmit as *const (),
    shared::open as *const (),
    atomic::query as *const (),
    none as *const (),
    opening::open2 as *const (),
]);
/// The usual calls, and those of a traced program.
static MR: [Table<3>; 2] = [registering::<false>(), registering::<true>()];

const fn registering<const TRACED: bool>() -> Table<3> {
    Table::new([memory::register::<TRACED> as *const (), memory::register_vector::<TRACED> as *const (), memory::register_with::<TRACED> as *const ()])
}

/// `fi_domain`.
pub(crate) unsafe extern "C" fn open(_fabric: *mut Fid, info: *const Info, to: *mut *mut DomainObject, context: *mut c_void) -> c_int {
    setup("fi_domain", [0; 2], || {
        // SAFETY: F2.
        let attr = unsafe { info.as_ref() }.and_then(|info| unsafe { info.domain_attr.as_ref() });
        let is_basic = attr.is_some_and(|a| a.mr_mode == flags::MR_BASIC);
        let is_automatic = attr.is_some_and(|a| a.data_progress == 1);
        // SAFETY: F2.
        let format = Format::of_answer(unsafe { info.as_ref() }.map_or(0, |info| info.addr_format));
        let shared = DomainShared::new(is_basic, is_automatic, format);
        let fid = Fid { class: class::DOMAIN, context, ops: TableRef::to(&FID) };
        give(DomainObject { fid, ops: TableRef::to(&OPS), mr: TableRef::to(&MR[usize::from(here::is_on())]), shared: Arc::new(shared) }, to)
    })
}

/// `fi_domain2`.
pub(crate) unsafe extern "C" fn open2(fabric: *mut Fid, info: *const Info, to: *mut *mut DomainObject, flags: u64, context: *mut c_void) -> c_int {
    if flags != 0 {
        return -error::BAD_FLAGS;
    }
    // SAFETY: F1, F2.
    unsafe { open(fabric, info, to, context) }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |domain: &DomainObject| &domain.shared) })
}
