// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two sides on two NICs of one process, by turns on one thread: a get, the poll that serves it,
//! the poll that takes its value.

use super::Vis;
use super::side::Side;
use crate::am::mapped::Marking;
use crate::bench::Context;
use crate::endpoint::{Nic, Vi};
use crate::error::Error;
use crate::spans::{Doubled, PROGRAM, REQUESTED, Unwatched, Watch, Watched, median_batch};

/// See [`super::SplitcJob::Steps`].
pub(super) fn steps(context: &Context<'_>, vis: Vis, count: u64, marking: Marking) -> Result<Vec<f64>, Error> {
    let (setup, level) = (context.setup, context.setup.reliability.bits());
    let other = Nic::open(setup.library.as_deref(), &setup.device, None)?;
    let (mut client, mut server) = (Side::new(context.nic, level, vis)?, Side::new(&other, level, vis)?);
    for (index, (one, two)) in client.lanes.iter().zip(&server.lanes).enumerate() {
        connect((context.nic, &one.vi), (&other, &two.vi), (context.request.run, context.request.epoch << 20 | index as u64))?;
    }
    match marking {
        Marking::Off => drive::<Unwatched>(&mut client, &mut server, count),
        Marking::On => drive::<Watched>(&mut client, &mut server, count),
        Marking::Doubled => drive::<Doubled>(&mut client, &mut server, count),
    }
}

/// A NIC and a VI of it, for the thread that waits for the other's request.
struct Waiter<'a>(&'a Nic, &'a Vi);
// SAFETY: libvipl's calls may be made by any thread (`VIP_NIC_ATTRIBUTES.ThreadSafe`), and the
// caller waits for this one.
unsafe impl Send for Waiter<'_> {}

fn connect(client: (&Nic, &Vi), server: (&Nic, &Vi), name: (u64, u64)) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let waiter = Waiter(server.0, server.1);
        let waits = scope.spawn(move || {
            let Waiter(nic, vi) = { waiter };
            nic.connect(vi, false, name)
        });
        let asked = client.0.connect(client.1, true, name);
        waits.join().unwrap_or_else(|_| Err(Error::failed("a panic"))).and(asked)
    })
}

fn drive<W: Watch>(client: &mut Side, server: &mut Side, count: u64) -> Result<Vec<f64>, Error> {
    let mut number = 0;
    median_batch::<W>(count, || {
        number += 1;
        W::step(PROGRAM);
        client.get::<W>((number * 8) % (1 << 20), 8)?;
        W::step(REQUESTED);
        server.poll_until::<W>(|server| server.served >= number)?;
        client.until::<W>(0)
    })
}
