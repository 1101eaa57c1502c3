// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening devices: each context has a NIC of its own, and connection management one of those.

use crate::devices::{self, Own};
use crate::{control, strict};
use bellwire_verbs::Port;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

/// One that connection management opened, until a context of the same device takes it over.
static SPARE: Mutex<Option<(&'static Own, Arc<Port>)>> = Mutex::new(None);

fn spare() -> MutexGuard<'static, Option<(&'static Own, Arc<Port>)>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Peers get their answers before the process ends, though it may not close anything.
extern "C" fn at_exit() {
    devices::all().unwrap_or_default().iter().flat_map(Own::contexts).for_each(|port| port.settle());
}

unsafe extern "C" fn before_fork() {
    bellwire_verbs::before_fork();
}

unsafe extern "C" fn in_child() {
    bellwire_verbs::after_fork_in_child();
}

fn open_anew(own: &'static Own) -> Result<Arc<Port>, String> {
    let port = own.config().and_then(|config| {
        let reporter = strict::reporter()?;
        Port::open(config, reporter).map_err(|e| e.to_string())
    });
    let port = Arc::new(port.inspect_err(|why| eprintln!("bellwire-verbs: {why}"))?);
    static EXIT: Once = Once::new();
    // SAFETY: functions that stay.
    EXIT.call_once(|| unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(Some(before_fork), None, Some(in_child));
    });
    own.opened(&port);
    control::start();
    Ok(port)
}

/// Takes the spare one of a device, if it is this process's. The parent's is left as it is: nothing
/// of it can be ended here.
fn take_spare(own: &'static Own) -> Option<Arc<Port>> {
    let mut spare = spare();
    let (_, port) = spare.take_if(|(of, _)| core::ptr::eq(*of, own))?;
    drop(spare);
    if port.is_ours() {
        return Some(port);
    }
    core::mem::forget(port);
    None
}

/// A NIC for a context of a device.
///
/// # Errors
/// A sentence, which has been printed.
pub(crate) fn open(own: &'static Own) -> Result<Arc<Port>, String> {
    take_spare(own).map_or_else(|| open_anew(own), Ok)
}

/// A NIC for connection management: one of the first device that is open, or one that the next
/// context takes over.
///
/// # Errors
/// A sentence, which has been printed.
pub(crate) fn open_to_share() -> Result<(&'static Own, Arc<Port>), String> {
    let own = devices::all()?.first().ok_or_else(|| "no device".to_string())?;
    if let Some(port) = own.contexts().into_iter().find(|p| p.is_ours()) {
        return Ok((own, port));
    }
    let port = open(own)?;
    *spare() = Some((own, Arc::clone(&port)));
    Ok((own, port))
}
