// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle begins to be traced, and is no longer: its state's token is watched meanwhile.

use crate::core::Core;
use crate::objects::{Bundle, Handler};
use crate::observed::Observed;
use bellwire_memory::token::Watcher;
use bellwire_trace::here;
use std::sync::{Mutex, PoisonError};

impl<H> Core<H> {
    /// Sees the core before its token is let go.
    fn trace(&mut self) {
        let Some(observed) = &mut self.observed else { return };
        observed.requests(&self.connections);
        observed.handlers(self.running != 0, &self.endpoints);
    }
}

impl Bundle {
    /// Begins to be traced, or ends it, if the process has; not with the core held.
    #[cold]
    #[inline(never)]
    pub(crate) fn trace_as_wanted(&self) {
        if here::is_on() == self.core().observed.is_some() {
            return;
        }
        // One after another, so that what is watched is also noted.
        static CHANGING: Mutex<()> = Mutex::new(());
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = here::is_on();
        let mut core = self.core();
        core.observed = wanted.then(|| Box::new(Observed::of(&core.connections)));
        drop(core);
        self.core.watch(wanted.then_some(Watcher { entered: |_| {}, leaves: Core::<Handler>::trace }));
    }
}
