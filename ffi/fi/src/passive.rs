// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints that wait for requests (`fi_passive_ep`).

use crate::abi::{Fid, Outcome, Table, TableRef, class, command, control, error, give, none};
use crate::attributes::Info;
use crate::cm::{self, Connector, Ear};
use crate::eq::{EqObject, EqShared};
use crate::format::{Format, copy_address};
use crate::named::{complain, open_named};
use crate::polled::EpShared;
use crate::traced::setup;
use crate::trigger::Triggers;
use crate::{handles, hints, info, names, options};
use bellwire_tag::{Endpoint, Name, OpenError, SharedRegions};
use bellwire_via::nic::NicConfig;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// An endpoint that waits for requests.
struct Waiting {
    ep: Arc<EpShared>,
    connector: Arc<Connector>,
}

/// `struct fid_pep`, and ours behind it.
#[repr(C)]
pub(crate) struct PassiveObject {
    fid: Fid,
    ops: TableRef,
    cm: TableRef,
    /// The endpoint; none any more if another has taken its name over.
    shared: Option<Waiting>,
    name: Name,
    format: Format,
    /// What it was made of, for when it gets another name.
    like: info::Owned,
}

static FID: Table<6> = Table::new([close as *const (), bind as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> =
    Table::new([none as *const (), getopt as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static CM: Table<9> = Table::new([
    setname as *const (),
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
unsafe fn of<'a>(fid: *mut Fid) -> Outcome<&'a Waiting> {
    // SAFETY: the caller's.
    unsafe { &*fid.cast::<PassiveObject>() }.shared.as_ref().ok_or(error::BAD_STATE)
}

/// The object of an identifier that a program gives to a call of another kind, if it is one of
/// these: the table of its calls says so.
///
/// # Safety
/// F1, or NULL.
unsafe fn checked<'a>(fid: *mut Fid) -> Option<&'a mut PassiveObject> {
    // SAFETY: the caller's.
    let is_one = unsafe { fid.as_ref() }.is_some_and(|f| f.class == class::PEP && f.ops == TableRef::to(&FID));
    // SAFETY: the caller's, and as just seen.
    if is_one { unsafe { fid.cast::<PassiveObject>().as_mut() } } else { None }
}

/// Its name is free for another endpoint, once: it waits for nothing more itself.
///
/// # Safety
/// F1, or NULL.
pub(crate) unsafe fn give_up(fid: *mut Fid) -> Option<Name> {
    // SAFETY: the caller's.
    let pep = unsafe { checked(fid) }.filter(|pep| pep.shared.is_some())?;
    pep.end(fid);
    Some(pep.name)
}

impl PassiveObject {
    /// Ends its endpoint.
    fn end(&mut self, fid: *mut Fid) -> Option<Arc<EqShared>> {
        let Waiting { ep, connector } = self.shared.take()?;
        handles::unlist(fid);
        ep.close();
        let eq = connector.unbind();
        if let Some(eq) = &eq {
            eq.polled.remove(&ep);
            eq.forget(fid);
        }
        ep.end();
        eq
    }
}

/// An endpoint that waits for requests, of a name that was asked for or of some name.
fn wait_at(id: Option<[u8; 16]>, format: Format, like: &Info) -> Outcome<(Waiting, Name)> {
    let config = NicConfig::from_env().map_err(|e| complain(&e, error::EINVAL))?;
    let endpoint = match id {
        None => open_named(&SharedRegions::default(), None, format)?,
        Some(_) => Endpoint::open(config, id, SharedRegions::default())
            .map_err(|e| complain(&e, if matches!(e, OpenError::InUse) { libc::EADDRINUSE } else { error::ENOMEM }))?,
    };
    endpoint.take_known_only();
    let name = endpoint.name();
    let connector = Arc::new(Connector::new(Some(info::Owned::like(like, name)?)));
    endpoint.listen(Box::new(Ear(Arc::clone(&connector))));
    Ok((Waiting { ep: Arc::new(EpShared::new(endpoint, &Arc::<Triggers>::default(), 0)), connector }, name))
}

/// `fi_passive_ep`.
pub(crate) unsafe extern "C" fn open(_fabric: *mut Fid, info: *const Info, to: *mut *mut PassiveObject, context: *mut c_void) -> c_int {
    setup("fi_passive_ep", [0; 2], || {
        // SAFETY: F2.
        let info = unsafe { info.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F2.
        if unsafe { info.ep_attr.as_ref() }.is_some_and(|a| a.kind != hints::MSG_KIND && a.kind != 0) {
            return Err(error::EINVAL);
        }
        let format = Format::of_answer(info.addr_format);
        // SAFETY: F2.
        let (shared, name) = wait_at(unsafe { names::wanted_id(info) }?, format, info)?;
        let like = info::Owned::like(info, name)?;
        let fid = Fid { class: class::PEP, context, ops: TableRef::to(&FID) };
        give(PassiveObject { fid, ops: TableRef::to(&OPS), cm: TableRef::to(&CM), shared: Some(shared), name, format, like }, to)?;
        // SAFETY: `give` has just written it.
        let fid = unsafe { *to }.cast();
        handles::list(fid, name);
        // SAFETY: F1: `give` has just made it.
        unsafe { of(fid) }?.connector.is_of(fid);
        Ok(())
    })
}

/// `fi_setname`: another name, before it listens.
unsafe extern "C" fn setname(fid: *mut Fid, to: *const u8, length: usize) -> c_int {
    control(|| {
        // SAFETY: F1.
        let pep = unsafe { checked(fid) }.ok_or(error::EINVAL)?;
        if to.is_null() || length < pep.format.bytes() {
            return Err(error::EINVAL);
        }
        // SAFETY: F1.
        if unsafe { of(fid) }?.connector.is_listening() {
            return Err(error::BAD_STATE);
        }
        // SAFETY: F2: `length` bytes.
        let id = unsafe { names::id_here(to, pep.format.bytes()) }?;
        let eq = pep.end(fid);
        let (shared, name) = wait_at(id, pep.format, pep.like.as_info())?;
        (pep.shared, pep.name) = (Some(shared), name);
        // SAFETY: F1.
        let waiting = unsafe { of(fid) }?;
        waiting.connector.is_of(fid);
        handles::list(fid, name);
        eq.iter().for_each(|eq| waiting.tell(eq));
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        unsafe { &mut *fid.cast::<PassiveObject>() }.end(fid);
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
        let (waiting, eq) = unsafe { (of(fid)?, &(*to.cast::<EqObject>()).shared) };
        waiting.tell(eq);
        Ok(())
    })
}

impl Waiting {
    /// What happens to it is told of there.
    fn tell(&self, eq: &Arc<EqShared>) {
        self.connector.bind(eq);
        eq.polled.add(&self.ep);
        if eq.has_descriptor() {
            self.ep.endpoint.stand_in_at_once();
        }
    }
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
    control(|| {
        // SAFETY: F1.
        let pep = unsafe { &*fid.cast::<PassiveObject>() };
        // SAFETY: F2.
        unsafe { copy_address(&pep.format.write(&pep.name), to, length) }
    })
}

unsafe extern "C" fn listen(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { of(fid) }?.connector.listen())
}

unsafe extern "C" fn reject(fid: *mut Fid, handle: *mut Fid, data: *const c_void, length: usize) -> c_int {
    control(|| {
        // SAFETY: F2.
        let data = unsafe { cm::data_of(data, length) }?;
        let request = cm::take_request(handle)?;
        // SAFETY: F1.
        cm::reject(&unsafe { of(fid) }?.ep, &request, data)
    })
}
