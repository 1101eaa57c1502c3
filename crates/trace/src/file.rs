// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a thread. Another process wrote it, so nothing in it is believed: lengths are
//! bounded, texts made printable, events that make no sense counted.

use crate::event::{Event, decode, printable};
use crate::stamp::Ticks;
use bellwire_memory::event_log::{HEADER_BYTES, OWN_AT, SLOT_WORDS, Slot, Source, TAKEN_AT, places, read};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// What the files' names end with.
pub const NAME: &str = ".bellwire-trace";
/// Version of the layout.
const VERSION: u32 = 1;
/// How the header's own part begins.
const MAGIC: u64 = u64::from_le_bytes(*b"bwtrace\n");
/// Most bytes of a name in the header.
const NAME_MAX: usize = 128;
const SLOT_BYTES: u64 = size_of::<Slot>() as u64;
/// Most slots read.
const SLOTS_MAX: u64 = 1 << 26;

/// What the header says of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The unit of its stamps.
    pub ticks: Ticks,
    /// When the file was made: stamp, the monotonic clock and the time of day in nanoseconds.
    pub made: (u64, u64, u64),
    /// Slots of the log.
    pub slots: u64,
    /// The host's boot, and the namespace of its clocks: stamps of others are not comparable.
    pub boot: String,
    /// The host's name.
    pub host: String,
    /// The program.
    pub program: String,
    /// The thread's name.
    pub thread: String,
}

pub(crate) fn text_of(path: &str) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).unwrap_or_default()
}

/// The boot of this process's host, and the namespace of this process's clocks.
pub(crate) fn this_boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let boot = text_of("/proc/sys/kernel/random/boot_id");
        match std::fs::read_link("/proc/self/ns/time") {
            Ok(namespace) => format!("{boot} {}", namespace.display()),
            Err(_) => boot,
        }
    })
}

impl Head {
    /// Of the calling thread.
    pub(crate) fn of_this_thread(ticks: Ticks, made: (u64, u64, u64), slots: u64) -> Self {
        Self {
            pid: std::process::id(),
            tid: rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(),
            ticks,
            made,
            slots: places(slots as usize) as u64,
            boot: this_boot().to_owned(),
            host: text_of("/proc/sys/kernel/hostname"),
            program: text_of("/proc/self/comm"),
            thread: text_of("/proc/thread-self/comm"),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let words = [
            MAGIC,
            u64::from(VERSION),
            u64::from(self.pid) << 32 | u64::from(self.tid),
            u64::from(self.ticks == Ticks::Processor),
            self.made.0,
            self.made.1,
            self.made.2,
            self.slots,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        for name in [&self.boot, &self.host, &self.program, &self.thread] {
            let mut name: Vec<u8> = name.bytes().take(NAME_MAX).collect();
            name.resize(NAME_MAX, 0);
            bytes.extend(name);
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(8 * at..8 * at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        if word(0)? != MAGIC || word(1)? != u64::from(VERSION) {
            return None;
        }
        let name = |at: usize| {
            let field = bytes.get(64 + NAME_MAX * at..64 + NAME_MAX * (at + 1))?;
            Some(printable(field.split(|b| *b == 0).next()?))
        };
        let ids = word(2)?;
        Some(Self {
            pid: (ids >> 32) as u32,
            tid: ids as u32,
            ticks: if word(3)? == 1 { Ticks::Processor } else { Ticks::Nanoseconds },
            made: (word(4)?, word(5)?, word(6)?),
            slots: word(7)?,
            boot: name(0)?,
            host: name(1)?,
            program: name(2)?,
            thread: name(3)?,
        })
    }
}

/// What a thread has noted.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Who it is.
    pub head: Head,
    /// Its events, oldest first.
    pub events: Vec<Event>,
    /// Slots that were overwritten before they were read. An event has one or more.
    pub slots_lost: u64,
    /// Slots that make no sense.
    pub senseless: u64,
}

/// A part of a file.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Slots that were read.
    pub slots: u64,
    /// Slots that were overwritten before they were read.
    pub slots_lost: u64,
    /// Slots that make no sense.
    pub senseless: u64,
}

#[derive(Debug)]
struct Slots {
    file: File,
    count: u64,
}

impl Source for Slots {
    type Error = io::Error;

    fn counters(&mut self) -> io::Result<(u64, u64)> {
        let mut bytes = [0; 16];
        self.file.read_exact_at(&mut bytes, 0)?;
        let counters = u128::from_le_bytes(bytes);
        Ok((counters as u64, (counters >> 64) as u64))
    }

    fn copy(&mut self, from: u64, to: u64) -> io::Result<Vec<Slot>> {
        let mut slots = Vec::with_capacity((to - from) as usize);
        let mut at = from;
        while at < to {
            // Up to the end of the file, then from its beginning.
            let place = at % self.count;
            let some = (to - at).min(self.count - place);
            let mut bytes = vec![0; (some * SLOT_BYTES) as usize];
            self.file.read_exact_at(&mut bytes, HEADER_BYTES as u64 + place * SLOT_BYTES)?;
            slots.extend(
                bytes
                    .chunks_exact(SLOT_BYTES as usize)
                    .map(|slot| core::array::from_fn::<u64, SLOT_WORDS, _>(|w| slot[8 * w..8 * w + 8].try_into().map_or(0, u64::from_le_bytes))),
            );
            at += some;
        }
        Ok(slots)
    }

    fn capacity(&self) -> u64 {
        self.count
    }
}

/// Reads the file of a thread, perhaps while it is written.
#[derive(Debug)]
pub struct Reader {
    head: Head,
    slots: Slots,
    /// Index of the next slot to be read.
    next: u64,
    kept: VecDeque<Slot>,
    keeps: usize,
    lost: u64,
}

impl Reader {
    /// Of a file; no more than the last `keeps` slots of those that are read are kept.
    ///
    /// # Errors
    /// It cannot be read, or is no such file (yet: its maker fills it after it has a name).
    pub fn open(path: &Path, keeps: usize) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_owned());
        let file = File::options().read(true).write(true).open(path).or_else(|_| File::open(path))?;
        let mut bytes = vec![0; HEADER_BYTES - OWN_AT];
        file.read_exact_at(&mut bytes, OWN_AT as u64).map_err(|_| wrong("it is no trace: too short"))?;
        let head = Head::parse(&bytes).ok_or_else(|| wrong("it is no trace of this version"))?;
        let room = file.metadata()?.len().saturating_sub(HEADER_BYTES as u64) / SLOT_BYTES;
        if !head.slots.is_power_of_two() || head.slots > SLOTS_MAX || head.slots > room {
            return Err(wrong("its length is not that of its log"));
        }
        let slots = Slots { file, count: head.slots };
        Ok(Self { head, slots, next: 0, kept: VecDeque::new(), keeps, lost: 0 })
    }

    /// Tells the writer how far this reader is. A writer that expects a reader waits when half of the
    /// file was not read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn say_taken(&self) -> io::Result<()> {
        self.slots.file.write_all_at(&self.next.max(1).to_le_bytes(), TAKEN_AT as u64)
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn more(&mut self) -> io::Result<()> {
        let (first, slots) = read(&mut self.slots, self.next)?;
        self.lost += first.saturating_sub(self.next);
        self.next = first + slots.len() as u64;
        self.kept.extend(slots);
        let too_many = self.kept.len().saturating_sub(self.keeps);
        self.kept.drain(..too_many);
        self.lost += too_many as u64;
        Ok(())
    }

    /// The thread that wrote it.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The part that was read since the last such call.
    pub fn take(&mut self) -> Taken {
        let slots = self.kept.len() as u64;
        let (events, senseless) = decode(self.kept.make_contiguous());
        self.kept.clear();
        Taken { events, slots, slots_lost: core::mem::take(&mut self.lost), senseless }
    }

    /// The events that were read.
    pub fn finish(mut self) -> Thread {
        let Taken { events, slots_lost, senseless, .. } = self.take();
        Thread { head: self.head, events, slots_lost, senseless }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use bellwire_memory::event_log::EventLog;

    fn head() -> Head {
        let text = |t: &str| t.to_owned();
        Head {
            pid: 7,
            tid: 8,
            ticks: Ticks::Processor,
            made: (1, 2, 3),
            slots: 32,
            boot: text("b"),
            host: text("h"),
            program: text("prögram"),
            thread: text(""),
        }
    }

    #[test]
    fn heads() {
        let bytes = head().to_bytes();
        assert!(bytes.len() <= HEADER_BYTES - OWN_AT);
        assert_eq!(Head::parse(&bytes), Some(head()));
        for cut in 0..bytes.len() {
            assert_eq!(Head::parse(&bytes[..cut]), None);
        }
        let mut other = bytes.clone();
        other[8] = 9;
        assert_eq!(Head::parse(&other), None, "another version");
    }

    /// A file with a log, in a folder of its own.
    struct Made {
        folder: std::path::PathBuf,
        path: std::path::PathBuf,
        log: EventLog,
    }

    impl Made {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("bellwire-trace-test-{}-{name}", std::process::id()));
            std::fs::create_dir(&folder).unwrap();
            let path = folder.join("x");
            let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
            let log = EventLog::create(&file, 32, &head().to_bytes()).unwrap();
            Self { folder, path, log }
        }

        fn note(&mut self, n: u64) {
            let draft = crate::event::Draft { stamp: n, kind: Kind::Sent, object: 5, fields: [n, 0], rest: &[n; 4] };
            self.log.push(draft.count(), |n| draft.slot(n));
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.folder).unwrap();
        }
    }

    /// The stamps of the events that were read, and the slots lost.
    fn stamps(reader: Reader) -> (Vec<u64>, u64) {
        let thread = reader.finish();
        assert_eq!(thread.senseless, 0);
        assert!(thread.events.iter().all(|e| e.words[..6] == [e.stamp, 0, e.stamp, e.stamp, e.stamp, e.stamp]));
        (thread.events.iter().map(|e| e.stamp).collect(), thread.slots_lost)
    }

    #[test]
    fn a_reader_that_keeps_up_has_all() {
        let mut made = Made::new("all");
        let mut reader = Reader::open(&made.path, usize::MAX).unwrap();
        for n in 0..100 {
            made.note(n);
            // An event has three slots.
            if n % 10 == 9 {
                reader.more().unwrap();
            }
        }
        assert_eq!(stamps(reader), ((0..100).collect(), 0));
    }

    #[test]
    fn a_reader_who_is_waited_for_says_how_far_he_is() {
        let mut made = Made::new("waits");
        let mut reader = Reader::open(&made.path, usize::MAX).unwrap();
        (0..4).for_each(|n| made.note(n));
        assert_eq!(made.log.unread(), 0, "nobody wants it");
        made.log.expect_reader();
        assert_eq!(made.log.unread(), 11);
        reader.more().unwrap();
        reader.say_taken().unwrap();
        made.note(4);
        assert_eq!(made.log.unread(), 3);
    }

    #[test]
    fn one_that_comes_late_has_the_last_ones() {
        let mut made = Made::new("late");
        let early = Reader::open(&made.path, usize::MAX).unwrap();
        (0..100).for_each(|n| made.note(n));
        for (mut reader, keeps) in [(early, 32), (Reader::open(&made.path, 7).unwrap(), 7)] {
            reader.more().unwrap();
            // The first of those left may be cut off at its beginning.
            let (seen, lost) = stamps(reader);
            assert_eq!(seen, (100 - keeps / 3..100).collect::<Vec<_>>());
            assert_eq!(lost, 300 - keeps);
        }
    }

    #[test]
    fn lies_are_refused() {
        let mut made = Made::new("lies");
        made.note(1);
        let bytes = std::fs::read(&made.path).unwrap();
        let lie = made.folder.join("lie");
        let open = |bytes: &[u8]| {
            std::fs::write(&lie, bytes).unwrap();
            Reader::open(&lie, 100)
        };
        for cut in [0, 8, OWN_AT, HEADER_BYTES, HEADER_BYTES + 100] {
            assert!(open(&bytes[..cut]).is_err(), "{cut}");
        }
        for slots in [0, 3, 64, 1 << 40, u64::MAX] {
            let mut other = bytes.clone();
            other[OWN_AT + 56..OWN_AT + 64].copy_from_slice(&slots.to_le_bytes());
            assert!(open(&other).is_err(), "{slots}");
        }
        // Counters may be anything.
        for counters in [[u64::MAX; 2], [u64::MAX, 0], [0, u64::MAX], [1 << 40, 1 << 41]] {
            let mut other = bytes.clone();
            other[..8].copy_from_slice(&counters[0].to_le_bytes());
            other[8..16].copy_from_slice(&counters[1].to_le_bytes());
            let mut reader = open(&other).unwrap();
            for _ in 0..3 {
                let _ = reader.more();
            }
            assert!(reader.finish().events.len() <= 96);
        }
    }
}
