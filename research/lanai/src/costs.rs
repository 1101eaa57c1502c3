// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of the paper's machines, in nanoseconds, and where each figure is from.
//!
//! Put in from the paper: Table 3's shares of the host's overhead, which is the `o_s + o_r` of
//! Table 2; a null DMA of 2 to 3 us; what a message of 16 bytes takes more than the least one; the
//! clocks of the two processors. What it leaves open are [`Fits`]: seven figures, found by
//! [`crate::fit`].

use crate::paper::{TABLE2, TABLE3};
use bellwire_amvia::Mapping;
use bellwire_amvia::probe::Stage;
use serde::Serialize;

/// Where a completion queue lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// In the NIC's memory: a look is a programmed read, and an entry is cleared by a programmed
    /// write.
    Nic,
    /// In the host's memory: a look is a load, which misses the cache if the NIC has written; each
    /// entry is a DMA transfer of the NIC's.
    Host,
}

/// How the NIC learns of posted descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doorbell {
    /// By one word that the firmware looks at: the host waits until the token before is taken.
    Emulated,
    /// By a queue in hardware.
    Direct,
}

/// What the host's side costs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostCosts {
    /// The mapping's own code, by the step that ends with it.
    pub code: [u64; Stage::COUNT],
    /// `VipPostSend` without its programmed write.
    pub post_send: u64,
    /// `VipPostRecv` without it.
    pub post_receive: u64,
    /// `VipSendDone`: an uncached read of a descriptor.
    pub send_done: u64,
    /// `VipRecvDone`: the same.
    pub receive_done: u64,
    /// A look at memory that nobody has written since the last one.
    pub look: u64,
    /// A programmed read of the NIC.
    pub read: u64,
    /// A programmed write to it.
    pub write: u64,
}

/// What the NIC's side costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NicCosts {
    /// A DMA transfer of a few bytes.
    pub dma: u64,
    /// The firmware's own work for a send or a receive, and the wire.
    pub firmware: u64,
    /// Added to a send or a receive if its message is longer than the least one.
    pub data: u64,
    /// A look at one VI for sends.
    pub poll: u64,
    /// Taking the token of an emulated doorbell.
    pub take: u64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Costs {
    /// The host.
    pub host: HostCosts,
    /// The NIC.
    pub nic: NicCosts,
    /// Its completion queues.
    pub queue: Queue,
    /// Its doorbells.
    pub doorbell: Doorbell,
}

/// A machine of Table 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// As the paper calls it.
    pub name: &'static str,
    /// The mapping that runs there.
    pub mapping: Mapping,
    /// The costs.
    pub costs: Costs,
}

/// The figures that the paper leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fits {
    /// A programmed read of the host with Pentium III processors and the LANai 7.
    pub read_piii: u64,
    /// The same of the host with Pentium II processors and the LANai 4.
    pub read_pii: u64,
    /// The LANai 7's firmware for a message.
    pub firmware_7: u64,
    /// The LANai 4's.
    pub firmware_4: u64,
    /// A look at a VI behind a direct doorbell.
    pub poll_direct: u64,
    /// A look at a VI behind an emulated one.
    pub poll_emulated: u64,
    /// Taking an emulated doorbell's token.
    pub take: u64,
}

/// A figure of [`Fits`].
#[derive(Debug, Clone, Copy)]
pub struct Fitted {
    /// Its name.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// Of the LANai 7's machine, else of the LANai 4's.
    pub is_lanai_7: bool,
    /// Where it is.
    pub of: fn(&mut Fits) -> &mut u64,
}

impl Fits {
    /// Where the search begins: what one would guess of PCI and a processor of 33 or 66 MHz.
    pub const GUESS: Self =
        Self { read_piii: 1_000, read_pii: 1_000, firmware_7: 5_000, firmware_4: 8_000, poll_direct: 1_000, poll_emulated: 2_000, take: 1_000 };
    /// The end of the search ([`crate::fit::Lab::fit_all`]).
    pub const FOUND: Self =
        Self { read_piii: 1_100, read_pii: 750, firmware_7: 5_450, firmware_4: 6_700, poll_direct: 2_600, poll_emulated: 4_400, take: 1_350 };
    /// All of them.
    pub const ALL: [Fitted; 7] = [
        Fitted { name: "read_piii", what: "programmed read, Pentium III and LANai 7", is_lanai_7: true, of: |fits| &mut fits.read_piii },
        Fitted { name: "read_pii", what: "programmed read, Pentium II and LANai 4", is_lanai_7: false, of: |fits| &mut fits.read_pii },
        Fitted { name: "firmware_7", what: "firmware of the LANai 7 for a send or a receive, beside DMA", is_lanai_7: true, of: |fits| &mut fits.firmware_7 },
        Fitted { name: "firmware_4", what: "the same of the LANai 4", is_lanai_7: false, of: |fits| &mut fits.firmware_4 },
        Fitted { name: "poll_direct", what: "the firmware's look at one VI, direct doorbell", is_lanai_7: true, of: |fits| &mut fits.poll_direct },
        Fitted { name: "poll_emulated", what: "the same, emulated doorbell", is_lanai_7: false, of: |fits| &mut fits.poll_emulated },
        Fitted { name: "take", what: "taking a token of an emulated doorbell", is_lanai_7: false, of: |fits| &mut fits.take },
    ];
}

/// A null DMA: "2-3 us".
pub const DMA: u64 = 2_500;
/// Half of what a message of 16 bytes takes more than the least one: 32 us less 30.2.
pub const DATA: u64 = 900;
/// A look at a cached word: chosen, a hit in the second cache.
const LOOK: u64 = 50;
/// Clocks of the two processors, MHz.
const CLOCKS: (u64, u64) = (550, 400);

/// Nanoseconds of so many per cent of Table 3.
fn ns(share: f64) -> u64 {
    let (_, [_, _, _, send, receive, _]) = TABLE2[2];
    (share * (send + receive) * 10.0).round() as u64
}

fn host(fits: &Fits, is_pentium_3: bool) -> HostCosts {
    let scaled = |time: u64| if is_pentium_3 { time } else { time * CLOCKS.0 / CLOCKS.1 };
    // Table 3's `VipCQDone` is a read and a write.
    let write = ns(TABLE3.queue_receive).saturating_sub(fits.read_piii);
    let mut code = [0; Stage::COUNT];
    let steps = [
        (Stage::Allowed, TABLE3.bookkeeping),
        (Stage::Built, TABLE3.build),
        (Stage::SendRecycled, TABLE3.recycle_send),
        (Stage::Read, TABLE3.read),
        (Stage::Sorted, TABLE3.process),
        (Stage::Acted, TABLE3.act),
        (Stage::ReceiveArmed, TABLE3.recycle_receive),
    ];
    steps.iter().for_each(|(stage, share)| code[*stage as usize] = scaled(ns(*share)));
    HostCosts {
        code,
        post_send: scaled(ns(TABLE3.post_send).saturating_sub(write)),
        post_receive: scaled(ns(TABLE3.post_receive).saturating_sub(write)),
        send_done: ns(TABLE3.send_done),
        receive_done: ns(TABLE3.receive_done),
        look: LOOK,
        read: if is_pentium_3 { fits.read_piii } else { fits.read_pii },
        write,
    }
}

impl Costs {
    /// Those of the LANai 7's machine, else of the LANai 4's, as the paper has them.
    pub fn of_paper(fits: &Fits, is_lanai_7: bool) -> Self {
        let doorbell = if is_lanai_7 { Doorbell::Direct } else { Doorbell::Emulated };
        let firmware = if is_lanai_7 { fits.firmware_7 } else { fits.firmware_4 };
        let nic = NicCosts { dma: DMA, firmware, data: DATA, poll: 0, take: fits.take };
        Self { host: host(fits, is_lanai_7), nic, queue: Queue::Nic, doorbell }.with(fits, Queue::Nic, doorbell)
    }

    /// The same machine with another queue and doorbell. What the firmware pays to look at a VI is
    /// the doorbell's, as the paper says.
    #[must_use]
    pub fn with(&self, fits: &Fits, queue: Queue, doorbell: Doorbell) -> Self {
        let poll = match doorbell {
            Doorbell::Direct => fits.poll_direct,
            Doorbell::Emulated => fits.poll_emulated,
        };
        Self { host: self.host.clone(), nic: NicCosts { poll, ..self.nic }, queue, doorbell }
    }
}

/// Table 2's machines, in its order.
pub fn machines(fits: &Fits) -> [Machine; 3] {
    let machine = |row: usize, mapping, is_lanai_7| Machine { name: TABLE2[row].0, mapping, costs: Costs::of_paper(fits, is_lanai_7) };
    [machine(0, Mapping::V1, false), machine(1, Mapping::V1, true), machine(2, Mapping::V3, true)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_3_is_spent_once() {
        let costs = host(&Fits::FOUND, true);
        let queues = 2 * (costs.read + costs.write);
        let calls = costs.post_send + costs.post_receive + 2 * costs.write + costs.send_done + costs.receive_done;
        let sum = costs.code.iter().sum::<u64>() + queues + calls;
        assert!(sum.abs_diff(6_000) <= 10, "{sum}: the paper's shares add up to 100 % as far as it rounds");
    }
}
