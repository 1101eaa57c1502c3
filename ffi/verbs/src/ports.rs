// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening devices: each context has a NIC of its own, and connection management one of those of
//! each device.

use crate::devices::{self, Own};
use crate::{control, strict};
use bellwire_cm_device::{Device, Devices, Errno};
use bellwire_memory::own_thread;
use bellwire_verbs::{Gid, Orphan, Port};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, mpsc};

/// Those that connection management opened, until a context of the same device takes them over.
static SPARE: Mutex<Vec<(&'static Own, Arc<Port>)>> = Mutex::new(Vec::new());

fn spare() -> MutexGuard<'static, Vec<(&'static Own, Arc<Port>)>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Peers get their answers before the process ends, though it may not close anything.
extern "C" fn at_exit() {
    devices::all().unwrap_or_default().iter().flat_map(Own::contexts).for_each(|port| port.settle());
}

/// A connection that one port managed lost its peer, and the queue pair is another port's. A thread
/// tells that one, since no port may be called from within another.
fn orphaned(orphan: Orphan) {
    static TELLER: OnceLock<mpsc::Sender<Orphan>> = OnceLock::new();
    let teller = TELLER.get_or_init(|| {
        let (teller, orphans) = mpsc::channel::<Orphan>();
        // Without the thread a program hears by its event only.
        let _ = own_thread::spawn(c"bellwire", move || {
            for orphan in orphans {
                devices::all().unwrap_or_default().iter().flat_map(Own::contexts).for_each(|port| port.orphan(orphan));
            }
        });
        teller
    });
    let _ = teller.send(orphan);
}

fn open_anew(own: &'static Own) -> Result<Arc<Port>, String> {
    let port = own.config().and_then(|config| {
        let reporter = strict::reporter()?;
        Port::open(config, reporter).map_err(|e| e.to_string())
    });
    let port = Arc::new(port.inspect_err(|why| eprintln!("bellwire-verbs: {why}"))?);
    static EXIT: Once = Once::new();
    // SAFETY: a function that stays.
    EXIT.call_once(|| unsafe {
        libc::atexit(at_exit);
    });
    own.opened(&port);
    bellwire_verbs::on_orphans(orphaned);
    control::start();
    Ok(port)
}

/// Takes the spare one of a device, if it is this process's. The parent's is left as it is: nothing
/// of it can be ended here.
fn take_spare(own: &'static Own) -> Option<Arc<Port>> {
    let mut spare = spare();
    let place = spare.iter().position(|(of, _)| core::ptr::eq(*of, own))?;
    let (_, port) = spare.swap_remove(place);
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

/// The devices of this process, for connection management.
pub(crate) struct Managed;

impl Devices for Managed {
    fn device(&self, index: usize) -> Option<&'static dyn Device> {
        devices::all().ok()?.get(index).map(|own| own as &dyn Device)
    }
}

impl Device for Own {
    fn gid(&self) -> Gid {
        self.gid
    }

    fn guid(&self) -> u64 {
        self.guid()
    }

    fn mtu_code(&self) -> u8 {
        self.device.mtu_code() as u8
    }

    fn is_removed(&self) -> bool {
        self.is_removed()
    }

    /// One that is open, or one that the next context takes over.
    fn open_port(&'static self) -> Result<Arc<Port>, Errno> {
        if let Some(port) = self.contexts().into_iter().find(|p| p.is_ours()) {
            return Ok(port);
        }
        let port = open(self).map_err(|_| Errno(libc::ENODEV))?;
        spare().push((self, Arc::clone(&port)));
        Ok(port)
    }
}
