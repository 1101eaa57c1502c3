// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running process that is traced: its NICs are asked for it, and asked to end it.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use bellwire_inspect::stat::{self, Place, Traced};

use super::program::{Folder, Pace, give};

/// This says which calls of a process that ran before are not seen.
pub const LIMITS: &str = "calls through functions that the program held before are not seen: those of libfabric's objects, of queue pairs and completion queues of the newer interface \
of libibverbs, of global memory, of bundles of Active Messages, and remote procedure calls; what the engine does of them is";
/// Between two looks for NICs that the process has opened meanwhile.
const NEW: Duration = Duration::from_secs(1);
/// Between two looks for signals.
const SIGNALS: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The NICs of a process.
#[derive(Debug)]
struct Nics<'a> {
    pid: i32,
    folder: &'a Path,
    bytes: u64,
    capture: Option<&'a str>,
    traced: Vec<(Place, Traced)>,
}

impl Nics<'_> {
    /// Has those traced that are not yet; the last error.
    fn more(&mut self) -> Result<(), String> {
        let mut last = Ok(());
        for place in stat::find(Some(self.pid)) {
            if self.traced.iter().all(|(known, _)| *known != place) {
                match stat::trace(&place, self.folder, self.bytes, self.capture, stat::TIME_MAX) {
                    Ok(traced) => self.traced.push((place, traced)),
                    Err(why) => last = Err(format!("process {}: {why}", self.pid)),
                }
            }
        }
        last
    }

    /// Waits a little, and forgets those that have gone. `false`: all have.
    fn wait(&mut self) -> bool {
        let gone: Vec<bool> = {
            let mut fds: Vec<PollFd<'_>> = self.traced.iter().map(|(_, traced)| PollFd::new(traced, PollFlags::IN)).collect();
            // A signal ends it early.
            let _ = poll(&mut fds, Some(&SIGNALS));
            fds.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        let mut gone = gone.into_iter();
        self.traced.retain(|_| !gone.next().unwrap_or(false));
        !self.traced.is_empty()
    }
}

/// Has a running process traced into `folder`, with files of `bytes`, until it has ended or a
/// signal ends this; or captured, as `BELLWIRE_CAPTURE` would have it. Meanwhile `follow` reads the
/// files.
///
/// # Errors
/// A sentence.
pub fn attach<T: Send>(pid: i32, folder: &Folder, bytes: u64, capture: Option<&str>, follow: impl FnOnce(&Pace) -> T + Send) -> Result<T, String> {
    give(folder.path(), pid)?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| format!("signals: {e}"))?;
    let mut nics = Nics { pid, folder: folder.path(), bytes, capture, traced: Vec::new() };
    let asked = nics.more();
    if nics.traced.is_empty() {
        asked?;
        return Err(format!("process {pid} has no NIC open, or is of another user or network namespace"));
    }
    match capture {
        Some(_) => eprintln!("bellwire: process {pid} is captured until it ends, or until Ctrl-C; numbers of packets begin with those of requests"),
        None => eprintln!("bellwire: process {pid} is traced until it ends, or until Ctrl-C; {LIMITS}"),
    }
    let (over, is_over) = channel();
    let pace = Pace::new(is_over);
    std::thread::scope(|scope| {
        let following = scope.spawn(move || follow(&pace));
        let mut looked = Instant::now();
        while nics.wait() && signals.pending().next().is_none() {
            if looked.elapsed() >= NEW {
                looked = Instant::now();
                // One that is not traced is said at the end of none of them.
                let _ = nics.more();
            }
        }
        nics.traced.drain(..).for_each(|(_, traced)| traced.end(stat::TIME_MAX));
        drop(over);
        following.join().map_err(|_| "following the process failed".to_owned())
    })
}
