// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that others ask for, for layers whose messages come by an inbox: one address at
//! which requests are awaited, many at a time, and each answered at once by a poller.
//!
//! A request of [`connect_wait`](Engine::connect_wait) meets one asker. A layer that anybody may
//! ask keeps several of them; further askers are told that we are busy, and ask again within
//! milliseconds.

use crate::attributes::{NetAddress, ViAttributes};
use crate::connections::WaitHandle;
use crate::engine::Engine;
use crate::error::Error;
use crate::handles::{InboxHandle, ViHandle};
use crate::time::Instant;
use crate::wire::Wire;

/// Requests that are met at a time, at first and at most.
const WAITS_MIN: usize = 16;
const WAITS_MAX: usize = 1024;

/// Waits for connections at one address. The default waits nowhere.
#[derive(Debug, Default)]
pub struct Acceptor {
    at: Option<NetAddress>,
    waits: Vec<WaitHandle>,
    /// How many there are to be: as many as have ever come at a time.
    wanted: usize,
    /// Connection requests of the engine that have been seen to.
    seen: u64,
}

impl Acceptor {
    /// Waits at `at` (host and discriminator). Whether requests come here, or to somebody else of
    /// this host who had the address before, is what [`Engine::is_listening`] tells.
    ///
    /// # Errors
    /// Those of [`Engine::connect_wait`]; nothing waits then.
    pub fn new<W: Wire>(engine: &mut Engine<W>, at: NetAddress) -> Result<Self, Error> {
        let mut acceptor = Self { at: Some(at), waits: Vec::new(), wanted: WAITS_MIN, seen: 0 };
        acceptor.listen(engine).inspect_err(|_| acceptor.close(engine))?;
        Ok(acceptor)
    }

    fn listen<W: Wire>(&mut self, engine: &mut Engine<W>) -> Result<(), Error> {
        let Some(at) = &self.at else { return Ok(()) };
        while self.waits.len() < self.wanted {
            self.waits.push(engine.connect_wait(at, Instant::NEVER)?);
        }
        Ok(())
    }

    /// Connection requests of the engine that have been seen to, to be compared with
    /// [`Engine::connection_requests`].
    #[inline]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether requests have come that nobody has seen to.
    #[inline]
    pub fn is_asked<W: Wire>(&self, engine: &Engine<W>) -> bool {
        engine.connection_requests() != self.seen
    }

    /// Answers all requests that have come. `vi_for` says with which VI the one who asks by an
    /// address is accepted; an asker that gets none is rejected. The outcome comes by the VI's
    /// inbox.
    #[cold]
    pub fn accept<W: Wire>(&mut self, engine: &mut Engine<W>, mut vi_for: impl FnMut(&mut Engine<W>, &NetAddress) -> Option<ViHandle>) {
        self.seen = engine.connection_requests();
        let mut still = Vec::with_capacity(self.waits.len());
        for wait in core::mem::take(&mut self.waits) {
            match engine.poll_wait(wait) {
                Ok(None) => still.push(wait),
                Ok(Some(request)) => {
                    let vi = vi_for(engine, &request.remote);
                    if vi.is_none_or(|vi| engine.accept(request.incoming, vi).is_err()) {
                        let _ = engine.reject(request.incoming);
                        vi.into_iter().for_each(|vi| engine.end_vi(vi));
                    }
                }
                // The asker is gone.
                Err(_) => {}
            }
        }
        if still.is_empty() {
            self.wanted = (2 * self.wanted).min(WAITS_MAX);
        }
        self.waits = still;
        // With fewer waits others ask again more often.
        let _ = self.listen(engine);
    }

    /// Nobody is accepted any more.
    pub fn close<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.at = None;
        self.waits.drain(..).for_each(|wait| engine.cancel_wait(wait));
    }
}

impl<W: Wire> Engine<W> {
    /// A VI without queues whose messages come by an inbox; of them at most `limit` wait there.
    ///
    /// # Errors
    /// Those of [`create_vi`](Self::create_vi) and [`set_inbox`](Self::set_inbox).
    pub fn create_vi_for_inbox(&mut self, attributes: &ViAttributes, inbox: InboxHandle, limit: u32, context: u64) -> Result<ViHandle, Error> {
        let vi = self.create_vi(attributes, None, None, None)?;
        match self.set_inbox(vi, inbox, limit, context) {
            Ok(()) => Ok(vi),
            Err(error) => {
                let _ = self.destroy_vi(vi);
                Err(error)
            }
        }
    }

    /// Ends a VI, whatever its state; a handle that names none (such as number 0) is nothing.
    pub fn end_vi(&mut self, vi: ViHandle) {
        let _ = self.disconnect(vi);
        let _ = self.destroy_vi(vi);
    }
}
