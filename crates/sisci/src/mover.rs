// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that copies beside the program. It starts with the first work.

use crate::error::Error;
use crate::thread;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Something for the thread to do.
pub(crate) trait Work: Send + Sync {
    /// Does it, or waits until another thread has.
    fn work(&self);
}

/// The thread's queue.
#[derive(Default)]
pub(crate) struct Mover {
    to: Mutex<Option<Sender<Arc<dyn Work>>>>,
}

impl Mover {
    /// Hands over; in the order of the calls.
    pub fn take(&self, work: Arc<dyn Work>) -> Result<(), Error> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if to.is_none() {
            let (sender, receiver) = channel::<Arc<dyn Work>>();
            thread::spawn(c"bellwire-move", move || receiver.iter().for_each(|work| work.work()))?;
            *to = Some(sender);
        }
        to.as_ref().map_or(Ok(()), |to| to.send(work).map_err(|_| Error::NoSpace))
    }
}
