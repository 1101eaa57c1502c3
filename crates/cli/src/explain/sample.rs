// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long requests of running processes take now: nothing on a message's way looks at the clock,
//! so processes are traced for a moment, as `bellwire explain --pid` does for longer.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use bellwire_inspect::stat::{self, Place, Traced};
use bellwire_trace::here;

use super::follow::{Process, Processes};
use super::report::{connections, operation};
use super::times::Times;
use crate::trace::program::{Folder, give};

/// For how long processes are traced.
pub const MOMENT: Duration = Duration::from_millis(50);

/// Requests of a process that were seen complete: those of one connection, operation and class of
/// sizes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Requests {
    pub pid: u32,
    pub program: String,
    /// A queue pair, a virtual interface, two endpoints.
    pub connection: String,
    pub operation: String,
    /// The most bytes of the class.
    pub size: Option<u64>,
    /// How many were seen.
    pub seen: u64,
    /// From the call until the program has the completion, or, of Active Messages, knows that it is
    /// handled: nanoseconds that half of them did not exceed, 99 of 100 did not, and none did.
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub most_ns: u64,
}

/// What a look at processes gave.
#[derive(Debug, Default)]
pub struct Sample {
    pub requests: Vec<Requests>,
    /// NICs that could not be traced, with the reason.
    pub silent: Vec<String>,
}

/// A process that is traced, into a folder of its own, which its user has.
struct Looked {
    folder: Folder,
    nics: Vec<Traced>,
}

fn begin(pid: i32, places: &[&Place], silent: &mut Vec<String>) -> Result<Looked, String> {
    let folder = Folder::make(None)?;
    give(folder.path(), pid)?;
    let mut nics = Vec::new();
    for place in places {
        match stat::trace(place, folder.path(), here::BYTES_DEFAULT, None, stat::TIME_MAX) {
            Ok(traced) => nics.push(traced),
            Err(why) => silent.push(format!("requests of process {pid}, NIC {}: {why}", place.nic)),
        }
    }
    Ok(Looked { folder, nics })
}

/// Traces all NICs that are there, of one process or of all, for a moment.
pub fn sample(pid: Option<i32>) -> Sample {
    let mut sample = Sample::default();
    let places = stat::find(pid);
    let pids: BTreeSet<i32> = places.iter().map(|place| place.pid).collect();
    let mut looked = Vec::new();
    for pid in pids {
        let of: Vec<&Place> = places.iter().filter(|place| place.pid == pid).collect();
        match begin(pid, &of, &mut sample.silent) {
            Ok(begun) => looked.push(begun),
            Err(why) => sample.silent.push(why),
        }
    }
    std::thread::sleep(MOMENT);
    for Looked { folder, nics } in looked {
        nics.into_iter().for_each(|nic| nic.end(stat::TIME_MAX));
        let (mut merge, mut processes) = (super::follow(&[folder.path()]), Processes::default());
        merge.finish(|head, time, event| processes.take(head, time, event));
        sample.requests.extend(processes.all.iter().flat_map(|((_, pid), process)| requests(*pid, process)));
    }
    sample
}

/// The requests of a process, by their classes.
fn requests(pid: u32, process: &Process) -> Vec<Requests> {
    let of = |connection: &str, operation: String, size, times: &Times| Requests {
        pid,
        program: process.program.clone(),
        connection: connection.to_owned(),
        operation,
        size,
        seen: times.count(),
        p50_ns: times.percentile(50),
        p99_ns: times.percentile(99),
        most_ns: times.most(),
    };
    let mut all = Vec::new();
    for (name, connection) in connections(process) {
        all.extend(connection.classes.iter().map(|((number, most), class)| of(&name, operation(connection, *number), Some(*most), &class.completions)));
    }
    all.extend(process.calls.classes.iter().map(|(class, calls)| of(&class.connection, class.operation.clone(), class.most, &calls.completions)));
    all.retain(|requests| requests.seen != 0);
    all
}
