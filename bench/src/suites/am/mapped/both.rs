// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two endpoints on two NICs of one process, by turns on one thread: a request, the poll that runs
//! its handler and replies, the poll that takes the reply. Nobody waits, so all of the time is what
//! the layer takes on both sides together.

use std::sync::Arc;

use bellwire_amvia::Message;
use bellwire_amvia::probe::Stage;

use super::{Carrier, Side, failed};
use crate::error::Error;
use crate::job::Setup;
use crate::spans::{Counted, HANDLING, PROGRAM, REPLIED, REQUESTED, Sampled, Trip, Unwatched, Watch, taken_apart};

/// The handlers of the first watcher; those of the others follow.
const PING: u8 = 16;
const PONG: u8 = 32;

/// See [`super::MappedJob::Steps`].
pub(super) fn steps(setup: &Setup, carrier: Carrier, credits: u16, samples: u64) -> Result<Vec<f64>, Error> {
    let both = &mut Both { client: Side::open(setup, carrier, credits)?, server: Side::open(setup, carrier, credits)?, number: 0 };
    both.client.map(both.server.name()?)?;
    handle::<Unwatched>(both)?;
    handle::<Sampled>(both)?;
    handle::<Counted>(both)?;
    // The first request connects: threads of the devices see to that.
    both.make::<Unwatched>()?;
    let spans = taken_apart(samples, both)?;
    both.server.pings.check()?;
    both.client.pongs.check()?;
    Ok(spans)
}

struct Both {
    client: Side,
    server: Side,
    number: u64,
}

/// Handlers for the messages of a watcher.
fn handle<W: Watch>(both: &Both) -> Result<(), Error> {
    let (client, server) = (&both.client, &both.server);
    let (pings, pongs) = (Arc::clone(&server.pings), Arc::clone(&client.pongs));
    let ping = move |message: &mut Message<'_>| {
        W::step(HANDLING);
        let args = [message.args()[0], message.args()[1]];
        pings.take(args[0]);
        W::mark(Stage::Acted);
        if message.reply_probed::<W>(PONG + W::NUMBER, &args).is_err() {
            pings.spoil();
        }
        W::step(REPLIED);
    };
    let pong = move |message: &mut Message<'_>| {
        W::step(HANDLING);
        pongs.take(message.args()[0]);
        W::mark(Stage::Acted);
    };
    let served = server.bundle.set_handler(server.endpoint, PING + W::NUMBER, ping);
    served.and_then(|()| client.bundle.set_handler(client.endpoint, PONG + W::NUMBER, pong)).map_err(failed)
}

impl Trip for Both {
    #[inline]
    fn make<W: Watch>(&mut self) -> Result<(), Error> {
        let (client, server, args) = (&self.client, &self.server, [self.number as i32, 0]);
        self.number += 1;
        W::step(PROGRAM);
        client.bundle.request_probed::<W>(client.endpoint, 0, PING + W::NUMBER, &args).map_err(failed)?;
        W::step(REQUESTED);
        server.watched_until::<W>(&server.pings, self.number)?;
        client.watched_until::<W>(&client.pongs, self.number)
    }
}
