// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two completion queues of a bundle: one for sends, one for receives, so that receives can be
//! served first.
//!
//! An endpoint that moves to another bundle takes its VIs along, whose completions go on to come by
//! the queues of the bundle before. So both bundles look at these queues from then on, and what one
//! finds of the other's it leaves in `strays`.

use crate::shared::Shared;
use crate::vipl::{Handle, Nic};
use bellwire_am::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries at first.
const ENTRIES_MIN: usize = 1024;

/// The queues.
pub(crate) struct Queues {
    shared: Arc<Shared>,
    pub send: Handle,
    pub receive: Handle,
    room: Mutex<Room>,
    strays: Mutex<Vec<(Handle, bool)>>,
}

/// Entries that there may be, and that there is room for.
struct Room {
    used: [usize; 2],
    entries: [usize; 2],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queues {
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Arc<Self>, Error> {
        let create = || shared.nic.create_cq(ENTRIES_MIN).map_err(|_| Error::Resource);
        let send = create()?;
        let receive = create().inspect_err(|_| shared.nic.destroy_cq(send))?;
        let room = Mutex::new(Room { used: [0; 2], entries: [ENTRIES_MIN; 2] });
        Ok(Arc::new(Self { shared: Arc::clone(shared), send, receive, room, strays: Mutex::new(Vec::new()) }))
    }

    /// Makes room for the completions of another VI.
    pub(crate) fn reserve(&self, nic: &Nic, sends: usize, receives: usize) -> Result<(), Error> {
        let mut room = lock(&self.room);
        for (i, (cq, more)) in [(self.send, sends), (self.receive, receives)].into_iter().enumerate() {
            let used = room.used[i] + more;
            if used > room.entries[i] {
                nic.resize_cq(cq, used.next_power_of_two()).map_err(|_| Error::Resource)?;
                room.entries[i] = used.next_power_of_two();
            }
        }
        (room.used[0], room.used[1]) = (room.used[0] + sends, room.used[1] + receives);
        Ok(())
    }

    /// A VI is no more.
    pub(crate) fn release(&self, sends: usize, receives: usize) {
        let mut room = lock(&self.room);
        (room.used[0], room.used[1]) = (room.used[0] - sends, room.used[1] - receives);
    }

    /// A completion of a VI that is another bundle's; whether it is a receive.
    pub(crate) fn leave(&self, vi: Handle, is_receive: bool) {
        lock(&self.strays).push((vi, is_receive));
    }

    /// One that was left for the bundle that knows the VI.
    pub(crate) fn fetch(&self, is_receive: bool, is_ours: impl Fn(Handle) -> bool) -> Option<Handle> {
        let mut strays = lock(&self.strays);
        let at = strays.iter().position(|(vi, receive)| *receive == is_receive && is_ours(*vi))?;
        Some(strays.remove(at).0)
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        for cq in [self.send, self.receive] {
            self.shared.nic.destroy_cq(cq);
        }
    }
}
