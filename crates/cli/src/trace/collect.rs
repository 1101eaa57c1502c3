// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of all threads in a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bellwire_trace::event::Slot;
use bellwire_trace::file::{self, Head, Reader, Taken, Thread};
use bellwire_trace::hosts::{self, Clock};
use bellwire_trace::kinds::{Layer, Shape};
use bellwire_trace::{Event, Kind};

/// Most files read.
const FILES_MAX: usize = 1 << 16;

/// The events of all threads.
#[derive(Debug)]
pub struct Trace {
    /// By process, then thread; each thread's events in order.
    pub threads: Vec<Thread>,
    /// When the first event was, nanoseconds since 1970.
    pub began: u64,
    /// The clocks of the hosts.
    pub clocks: Vec<Clock>,
    /// Files that could not be read, and events that are missing.
    pub complaints: Vec<String>,
}

/// The files of folders, read again and again while they are written.
#[derive(Debug)]
pub struct Collector {
    folders: Vec<PathBuf>,
    /// Slots kept of each file.
    keeps: usize,
    readers: BTreeMap<PathBuf, Reader>,
}

impl Collector {
    /// Of folders; `bytes` of each file are kept.
    pub fn new(folders: &[impl AsRef<Path>], bytes: u64) -> Self {
        let folders = folders.iter().map(|folder| folder.as_ref().to_owned()).collect();
        Self { folders, keeps: usize::try_from(bytes / size_of::<Slot>() as u64).unwrap_or(usize::MAX), readers: BTreeMap::new() }
    }

    /// Reads what is new, and gives complaints of files that cannot be read.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn look(&mut self) -> Result<Vec<String>, String> {
        let mut complaints = Vec::new();
        let mut entries = Vec::new();
        for folder in &self.folders {
            entries.extend(std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?.flatten());
        }
        for entry in entries.iter().filter(|entry| entry.file_name().to_string_lossy().ends_with(file::NAME)) {
            let path = entry.path();
            if self.readers.len() < FILES_MAX && !self.readers.contains_key(&path) {
                match Reader::open(&path, self.keeps) {
                    Ok(reader) => drop(self.readers.insert(path, reader)),
                    Err(why) => complaints.push(format!("{}: {why}", path.display())),
                }
            }
        }
        for (path, reader) in &mut self.readers {
            if let Err(why) = reader.more() {
                complaints.push(format!("{}: {why}", path.display()));
            }
        }
        Ok(complaints)
    }

    /// Has writers of much wait for this collector, which goes on looking.
    pub fn be_waited_for(&self) {
        for reader in self.readers.values() {
            // A file that may not be written is one whose writer does not wait.
            let _ = reader.say_taken();
        }
    }

    /// The events that were read since the last such call, with the heads of their files.
    pub fn take(&mut self) -> Vec<(Head, Taken)> {
        self.readers.values_mut().map(|reader| (reader.head().clone(), reader.take())).collect()
    }

    /// All that was read, with a last look.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn finish(mut self, layers: &[Layer]) -> Result<Trace, String> {
        let mut trace = Trace { threads: Vec::new(), began: 0, clocks: Vec::new(), complaints: self.look()? };
        let mut files: Vec<Thread> = self.readers.into_values().map(Reader::finish).collect();
        trace.clocks = hosts::settle(&mut files);
        for mut thread in files {
            thread.events.retain(|event| is_shown(event, layers));
            add(&mut trace.threads, thread);
        }
        trace.threads.sort_by(|a, b| (&a.head.host, a.head.pid, a.head.tid, a.head.made).cmp(&(&b.head.host, b.head.pid, b.head.tid, b.head.made)));
        for thread in &trace.threads {
            let who = format!("thread {} of {} ({})", thread.head.tid, thread.head.program, thread.head.pid);
            if thread.slots_lost != 0 {
                let kib = thread.slots_lost * size_of::<Slot>() as u64 / 1024;
                trace.complaints.push(format!("{who}: {kib} KiB of its earlier events are lost (--bytes, --limit)"));
            }
            if thread.senseless != 0 {
                trace.complaints.push(format!("{who}: {} pieces make no sense", thread.senseless));
            }
        }
        trace.began = trace.threads.iter().flat_map(|thread| thread.events.first()).map(|event| event.stamp).min().unwrap_or(0);
        Ok(trace)
    }
}

/// Adds the file of a thread to what its other file said.
fn add(threads: &mut Vec<Thread>, mut new: Thread) {
    let is_same = |thread: &&mut Thread| (&thread.head.host, thread.head.pid, thread.head.tid) == (&new.head.host, new.head.pid, new.head.tid);
    let Some(thread) = threads.iter_mut().find(is_same) else {
        threads.push(new);
        return;
    };
    thread.slots_lost += new.slots_lost;
    thread.senseless += new.senseless;
    thread.events.append(&mut new.events);
    // Each file is in order; of equal times the one that was there first comes first.
    thread.events.sort_by_key(|event| event.stamp);
}

fn is_shown(event: &Event, layers: &[Layer]) -> bool {
    let layer = event.kind.about().layer;
    event.kind != Kind::Clocks && (layers.is_empty() || layers.contains(&layer))
}

/// How an event lies to those around it: for each event of a thread the depth, and of a beginning
/// the index of its end.
pub fn nest(events: &[Event]) -> Vec<(usize, Option<usize>)> {
    let mut nested = vec![(0, None); events.len()];
    let mut open: Vec<usize> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event.kind.about().shape {
            Shape::Begin => {
                nested[at].0 = open.len();
                open.push(at);
            }
            Shape::End => {
                // The end of a call whose beginning was overwritten has none. One inside that never
                // ended (its thread was killed, or it did not return) ends here too.
                let name = event.kind.about().name;
                if let Some(place) = open.iter().rposition(|&begin| events[begin].kind.about().name == name) {
                    nested[open[place]].1 = Some(at);
                    open.truncate(place);
                }
                nested[at].0 = open.len();
            }
            Shape::Moment => nested[at].0 = open.len(),
        }
    }
    nested
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(kinds: &[Kind]) -> Vec<Event> {
        kinds.iter().map(|&kind| Event { stamp: 0, kind, object: 0, words: vec![0, 0] }).collect()
    }

    #[test]
    fn calls_lie_in_calls() {
        use Kind::{Call, CallEnd, PollEnd, PostSend, PostSendEnd, Posted};
        let nested = nest(&events(&[PollEnd, Call, PostSend, Posted, PostSendEnd, CallEnd, Posted, PostSend]));
        assert_eq!(nested, [(0, None), (0, Some(5)), (1, Some(4)), (2, None), (1, None), (0, None), (0, None), (0, None)]);
        // A call that did not return does not swallow what follows.
        let nested = nest(&events(&[Call, PostSend, CallEnd, Posted]));
        assert_eq!(nested, [(0, Some(2)), (1, None), (0, None), (0, None)]);
    }
}
