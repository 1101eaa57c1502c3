// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints that wait for requests (`fi_passive_ep`).

use crate::abi::{Fid, Table, TableRef, class, command, control, error, give, none};
use crate::attributes::Info;
use crate::av::copy_name;
use crate::bound::EpShared;
use crate::cm::{self, Connector};
use crate::domain::DomainShared;
use crate::endpoint::{complain, end};
use crate::eq::EqObject;
use crate::{hints, info, names, options, progress};
use bellwire_tag::{Endpoint, OpenError, SharedRegions};
use bellwire_via::nic::NicConfig;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// `struct fid_pep`, and ours behind it.
#[repr(C)]
pub(crate) struct PassiveObject {
    fid: Fid,
    ops: TableRef,
    cm: TableRef,
    shared: Arc<EpShared>,
}

static FID: Table<6> = Table::new([close as *const (), bind as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> =
    Table::new([none as *const (), getopt as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static CM: Table<9> = Table::new([
    none as *const (),
    getname as *const (),
    none as *const (),
    none as *const (),
    listen as *const (),
    none as *const (),
    reject as *const (),
    none as *const (),
    none as *const (),
]);

/// # Safety
/// F1.
unsafe fn of<'a>(fid: *mut Fid) -> (&'a Arc<EpShared>, &'a Connector) {
    // SAFETY: the caller's.
    let shared = unsafe { &(*fid.cast::<PassiveObject>()).shared };
    // One of these has always a connector.
    (shared, shared.connector.as_ref().unwrap_or_else(|| unreachable!("made by `open`")))
}

/// `fi_passive_ep`.
pub(crate) unsafe extern "C" fn open(_fabric: *mut Fid, info: *const Info, to: *mut *mut PassiveObject, context: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F2.
        let info = unsafe { info.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F2.
        if unsafe { info.ep_attr.as_ref() }.is_some_and(|a| a.kind != hints::MSG_KIND && a.kind != 0) {
            return Err(error::EINVAL);
        }
        let config = NicConfig::from_env().map_err(|e| complain(&e, error::EINVAL))?;
        // SAFETY: F2.
        let (id, like) = unsafe { (names::wanted_id(info)?, info::Owned::like(info)?) };
        let endpoint = Endpoint::open(config, id, SharedRegions::default())
            .map_err(|e| complain(&e, if matches!(e, OpenError::InUse) { libc::EADDRINUSE } else { error::ENOMEM }))?;
        endpoint.take_known_only();
        let shared = EpShared::new(endpoint, Arc::new(DomainShared::nobodys()), Some(Connector::new(Some(like))));
        let fid = Fid { class: class::PEP, context, ops: TableRef::to(&FID) };
        give(PassiveObject { fid, ops: TableRef::to(&OPS), cm: TableRef::to(&CM), shared: Arc::new(shared) }, to)?;
        // SAFETY: `give` has just written it.
        unsafe { of((*to).cast()).1.is_of((*to).cast()) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        let (shared, connector) = unsafe { of(fid) };
        shared.close();
        if let Some(eq) = connector.unbind() {
            eq.polled.remove(shared);
            eq.forget(fid);
        }
        end(shared);
        // SAFETY: F1.
        unsafe { crate::abi::drop_object::<PassiveObject>(fid) };
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut Fid, to: *mut Fid, _flags: u64) -> c_int {
    control(|| {
        // SAFETY: F1.
        if unsafe { to.as_ref() }.map(|t| t.class) != Some(class::EQ) {
            return Err(error::EINVAL);
        }
        // SAFETY: F1: its class says what it is.
        let ((shared, connector), eq) = unsafe { (of(fid), &(*to.cast::<EqObject>()).shared) };
        connector.bind(eq);
        eq.polled.add(shared);
        if eq.has_descriptor() {
            shared.count_polls();
            if !progress::start(shared) {
                return Err(error::ENOMEM);
            }
        }
        Ok(())
    })
}

/// `FI_BACKLOG`: what waits is bounded by us.
unsafe extern "C" fn control_call(_: *mut Fid, asked: c_int, _: *mut c_void) -> c_int {
    if asked == command::BACKLOG { 0 } else { -error::ENOSYS }
}

unsafe extern "C" fn getopt(_: *mut Fid, level: c_int, name: c_int, value: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: F2.
    control(|| unsafe { options::connection_option(level, name, value, length) })
}

unsafe extern "C" fn getname(fid: *mut Fid, to: *mut u8, length: *mut usize) -> c_int {
    // SAFETY: F1, F2.
    control(|| unsafe { copy_name(&of(fid).0.endpoint.name(), to, length) })
}

unsafe extern "C" fn listen(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { of(fid) }.1.listen())
}

unsafe extern "C" fn reject(fid: *mut Fid, handle: *mut Fid, data: *const c_void, length: usize) -> c_int {
    control(|| {
        // SAFETY: F2.
        let data = unsafe { cm::data_of(data, length) }?;
        let request = cm::take_request(handle)?;
        // SAFETY: F1.
        cm::reject(unsafe { of(fid) }.0, &request, data)
    })
}
