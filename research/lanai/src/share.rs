// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that is shown: Table 2 on the simulated machines, and what other queues and doorbells would
//! have given them.

use crate::Error;
use crate::costs::{Costs, Doorbell, Fits, Queue, machines};
use crate::fit::{Lab, Simulated};
use crate::program::LogP;

/// The combinations of queue and doorbell.
pub const SWITCHES: [(Queue, Doorbell); 4] =
    [(Queue::Nic, Doorbell::Emulated), (Queue::Host, Doorbell::Emulated), (Queue::Nic, Doorbell::Direct), (Queue::Host, Doorbell::Direct)];

/// The simulated machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// As the paper has them.
    pub tables: Simulated,
    /// By machine, then as [`SWITCHES`] has them.
    pub switched: [[LogP; 4]; 3],
    /// As the paper has them, but a look at a VI is free.
    pub without_polls: [LogP; 3],
}

/// Simulates all of it.
///
/// # Errors
/// A message is lost.
pub fn share(lab: &mut Lab, fits: &Fits) -> Result<Share, Error> {
    let tables = lab.tables(fits)?;
    let (mut switched, mut without_polls) = (Vec::new(), Vec::new());
    for machine in machines(fits) {
        let mut line = Vec::new();
        for (queue, doorbell) in SWITCHES {
            line.push(lab.measure(machine.mapping, &machine.costs.with(fits, queue, doorbell))?);
        }
        switched.push(<[LogP; 4]>::try_from(line).map_err(|_| Error::failed("not four"))?);
        let mut free: Costs = machine.costs;
        free.nic.poll = 0;
        without_polls.push(lab.measure(machine.mapping, &free)?);
    }
    let three = "not three";
    Ok(Share {
        tables,
        switched: switched.try_into().map_err(|_| Error::failed(three))?,
        without_polls: without_polls.try_into().map_err(|_| Error::failed(three))?,
    })
}
