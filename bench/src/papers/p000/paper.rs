// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the paper says in numbers: its tables as data. Times are in microseconds, throughputs in
//! megabytes a second, as there. What the simulated machines start from is theirs
//! (`research/lanai`).

use bellwire_lanai::paper::{RAW, SHORT_RECEIVE, TABLE3};

/// The paper's title.
pub const TITLE: &str = "VI primitives for Active Messages and Split-C (AMVIA)";

/// Table 1: who, half a round trip, throughput.
pub const TABLE1: [(&str, f64, f64); 4] =
    [("Myricom LANai 4 VI", RAW[0], 62.8), ("Myricom LANai 7 VI", RAW[1], 68.3), ("Giganet cLan", 24.0, 70.0), ("Compaq ServerNet II (simulated)", 7.4, 180.0)];

/// What an operation of Tables 3 and 4 is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The call of that name.
    SendDone,
    /// The call of that name.
    PostSend,
    /// The call of that name.
    RecvDone,
    /// The call of that name.
    PostRecv,
    /// Recycle a send's descriptor.
    RecycleSend,
    /// Recycle a receive's descriptor.
    RecycleReceive,
    /// Build send descriptors.
    Build,
    /// `VipCQDone` of sends.
    QueueSend,
    /// `VipCQDone` of receives.
    QueueReceive,
    /// The VI of a completion queue's entry is found. The paper has no such line.
    FindVi,
    /// Credits, buffers, records.
    Bookkeeping,
    /// A received message is sorted.
    Process,
    /// Data is read from a message.
    Read,
    /// The handler is found and runs.
    Act,
    /// No mark says what was done.
    Rest,
}

/// The categories of Tables 3 and 4, with what belongs to each.
pub const CATEGORIES: [(&str, &[Part]); 5] = [
    ("Base VI", &[Part::SendDone, Part::PostSend, Part::RecvDone, Part::PostRecv, Part::RecycleSend, Part::RecycleReceive, Part::Build]),
    ("Event notification", &[Part::QueueSend, Part::QueueReceive, Part::FindVi]),
    ("Flow control", &[Part::Bookkeeping, Part::Process]),
    ("Semantics", &[Part::Read, Part::Act]),
    ("Rest", &[Part::Rest]),
];

impl Part {
    /// As the tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SendDone => "VipSendDone",
            Self::PostSend => "VipPostSend",
            Self::RecvDone => "VipRecvDone",
            Self::PostRecv => "VipPostRecv",
            Self::RecycleSend => "recycle send descriptor",
            Self::RecycleReceive => "recycle receive descriptor",
            Self::Build => "build send descriptors",
            Self::QueueSend => "VipCQDone (send)",
            Self::QueueReceive => "VipCQDone (receive)",
            Self::FindVi => "find the VI of an entry",
            Self::Bookkeeping => "send bookkeeping",
            Self::Process => "process received message",
            Self::Read => "read data from message",
            Self::Act => "act on message",
            Self::Rest => "not under a mark",
        }
    }

    /// Per cent of the overhead: Table 3 for Active Messages, Table 4 for a Split-C get.
    pub fn share(self, table: usize) -> Option<f64> {
        let [three, four] = match self {
            Self::SendDone => [TABLE3.send_done, 7.1],
            Self::PostSend => [TABLE3.post_send, 9.4],
            Self::RecvDone => [TABLE3.receive_done, 8.0],
            Self::PostRecv => [TABLE3.post_receive, 5.6],
            Self::RecycleSend => [TABLE3.recycle_send, 1.8],
            Self::RecycleReceive => [TABLE3.recycle_receive, 1.8],
            Self::Build => [TABLE3.build, 2.4],
            Self::QueueSend => [TABLE3.queue_send, 24.4],
            Self::QueueReceive => [TABLE3.queue_receive, 22.5],
            Self::Bookkeeping => [TABLE3.bookkeeping, 4.9],
            Self::Process => [TABLE3.process, 6.7],
            Self::Read => [TABLE3.read, 3.6],
            Self::Act => [TABLE3.act, 1.8],
            Self::FindVi | Self::Rest => return None,
        };
        Some(if table == 3 { three } else { four })
    }
}

/// Per cent of a category as the paper's tables sum it up.
pub fn category_share(name: &str, table: usize) -> Option<f64> {
    let [three, four] = match name {
        "Base VI" => [32.5, 36.1],
        "Event notification" => [44.2, 46.9],
        "Flow control" => [14.4, 11.6],
        "Semantics" => [8.9, 5.4],
        _ => return None,
    };
    Some(if table == 3 { three } else { four })
}

/// Table 5, of messages of 1 KiB: memory copy, short network receive, their sum; and the difference
/// that the text gives.
pub const TABLE5: [(&str, f64); 4] =
    [("memory copy", 4.0), ("short network receive", SHORT_RECEIVE), ("total", 18.5), ("difference per message, as seen", 18.0)];

/// Where the curves of Figure 5 end, MB/s: the text gives this of Active Messages and Split-C, and
/// Table 1 of the raw VI.
pub const FIGURE5: (f64, f64) = (44.0, 68.3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_parts_add_up_as_far_as_it_rounds() {
        for table in [3, 4] {
            let mut whole = 0.0;
            for (name, parts) in CATEGORIES {
                let sum: f64 = parts.iter().filter_map(|part| part.share(table)).sum();
                let said = category_share(name, table).unwrap_or(0.0);
                assert!((sum - said).abs() < 0.15, "Table {table}, {name}: {sum} {said}");
                whole += sum;
            }
            assert!((whole - 100.0).abs() < 0.3, "Table {table}: {whole}");
        }
    }
}
