// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two endpoints on two NICs of one process, by turns on one thread: a request, the poll that runs
//! its handler and replies, the poll that takes the reply. Nobody waits, so all of the time is what
//! the layer takes on both sides together.

use std::sync::Arc;

use bellwire_amvia::Message;

use super::{Carrier, Marking, Side, failed};
use crate::error::Error;
use crate::job::Setup;
use crate::spans::{ACTED, Doubled, HANDLING, PROGRAM, REPLIED, REQUESTED, Unwatched, Watch, Watched, median_batch};

const PING: u8 = 11;
const PONG: u8 = 12;

/// See [`super::MappedJob::Steps`].
pub(super) fn steps(setup: &Setup, carrier: Carrier, credits: u16, count: u64, marking: Marking) -> Result<Vec<f64>, Error> {
    let (client, server) = (Side::open(setup, carrier, credits)?, Side::open(setup, carrier, credits)?);
    client.map(server.name()?)?;
    match marking {
        Marking::Off => drive::<Unwatched>(&client, &server, count),
        Marking::On => drive::<Watched>(&client, &server, count),
        Marking::Doubled => drive::<Doubled>(&client, &server, count),
    }
}

fn drive<W: Watch>(client: &Side, server: &Side, count: u64) -> Result<Vec<f64>, Error> {
    let (pings, pongs) = (Arc::clone(&server.pings), Arc::clone(&client.pongs));
    let ping = move |message: &mut Message<'_>| {
        W::step(HANDLING);
        let args = [message.args()[0], message.args()[1]];
        pings.take(args[0]);
        W::step(ACTED);
        if message.reply_probed::<W>(PONG, &args).is_err() {
            pings.spoil();
        }
        W::step(REPLIED);
    };
    let pong = move |message: &mut Message<'_>| {
        W::step(HANDLING);
        pongs.take(message.args()[0]);
        W::step(ACTED);
    };
    server.bundle.set_handler(server.endpoint, PING, ping).and_then(|()| client.bundle.set_handler(client.endpoint, PONG, pong)).map_err(failed)?;
    // The first request connects: threads of the devices see to that.
    client.bundle.request(client.endpoint, 0, PING, &[0, 0]).map_err(failed)?;
    server.until(&server.pings, 1)?;
    client.until(&client.pongs, 1)?;
    let mut number = 0;
    let spans = median_batch::<W>(count, || {
        number += 1;
        W::step(PROGRAM);
        client.bundle.request_probed::<W>(client.endpoint, 0, PING, &[number as i32, 0]).map_err(failed)?;
        W::step(REQUESTED);
        server.watched_until::<W>(&server.pings, number + 1)?;
        client.watched_until::<W>(&client.pongs, number + 1)
    })?;
    server.pings.check()?;
    client.pongs.check()?;
    Ok(spans)
}
