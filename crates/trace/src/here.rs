// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of the calling thread, of a process that is traced (`session.rs`).
//!
//! `BELLWIRE_TRACE=DIR` has each thread that notes something make a file in DIR, once, and write
//! there; the oldest events are overwritten when it is full. Rare events, of connections and links,
//! have a file of their own, where frequent ones do not overwrite them. `BELLWIRE_TRACE_BYTES` is
//! the size of a file. A file that cannot be made is said once on standard error, and the program
//! goes on untraced.
//!
//! `BELLWIRE_CAPTURE=BYTES` has requests noted too, and the first so many bytes of each. With
//! `BYTES,wait` a thread waits when the reader of its file is behind.

use crate::event::{BYTES_EACH, Draft, REST_MAX, text_words};
use crate::file::{Head, NAME};
use crate::kinds::Kind;
use crate::session::{self, Session};
use crate::stamp::{Ticks, readings, stamp, ticks};
use bellwire_memory::atomic::{AtomicBool, AtomicU32, Ordering};
use bellwire_memory::event_log::EventLog;
use bellwire_memory::fork_mark::ForkMark;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::session::{BYTES, BYTES_DEFAULT, BYTES_MAX, BYTES_MIN, CAPTURE, FOLDER};

/// Ticks after which the clocks are noted again: at first, and at most. (About half a millisecond,
/// and half a second.)
const CLOCKS_FIRST: u64 = 1 << 20;
const CLOCKS_MOST: u64 = 1 << 30;

/// How long a reader may take for nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at how far he is.
const PAUSE: Duration = Duration::from_micros(20);

/// Whether this process is traced.
#[inline]
pub fn is_on() -> bool {
    session::number() != 0
}

/// How many bytes of each request are to be noted; `None`: requests are not captured.
pub fn captures() -> Option<usize> {
    session::of_number(session::number())?.capture.map(|capture| capture.bytes)
}

/// The log of a thread.
struct ThreadLog {
    session: Arc<Session>,
    log: EventLog,
    /// Of rare events; made with the first.
    rare: Option<EventLog>,
    ticks: Ticks,
    mark: ForkMark,
    clocks_at: u64,
    clocks_after: u64,
    empty_looks: u64,
    looked_first: u64,
    /// The reader who is waited for did not go on: he was gone.
    is_alone: bool,
}

/// The log of a thread, if it has one.
enum Mine {
    NotYet,
    Log(Box<ThreadLog>),
    /// It cannot have one in the session of that number.
    None(u32),
}

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine::NotYet) };
}

/// Said once.
static COMPLAINED: AtomicBool = AtomicBool::new(false);
/// Names tried for a file.
const NAMES_MAX: u32 = 64;
/// Files made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Slots of a log of rare events: 256 KiB.
const RARE_SLOTS: usize = 1 << 13;

fn open(number: u32) -> Option<Box<ThreadLog>> {
    let (ticks, session) = (ticks(), session::of_number(number)?);
    let (log, stamp) = create(ticks, &session, session.slots)?;
    Some(Box::new(ThreadLog {
        session,
        log,
        rare: None,
        ticks,
        mark: ForkMark::new(),
        clocks_at: stamp,
        clocks_after: CLOCKS_FIRST,
        empty_looks: 0,
        looked_first: 0,
        is_alone: false,
    }))
}

/// Makes a file for the calling thread; with it the stamp of now.
fn create(ticks: Ticks, session: &Session, slots: usize) -> Option<(EventLog, u64)> {
    let readings = readings(ticks);
    let (stamp, head) = (readings.0, Head::of_this_thread(ticks, readings, slots as u64));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let (mut made, mut name) = (Err(Errno::EXIST), String::new());
    // Another library in this process may have files there as well.
    for _ in 0..NAMES_MAX {
        // Relaxed: only differs from others.
        name = format!("{}.{}.{}{NAME}", head.pid, head.tid, MADE.fetch_add(1, Ordering::Relaxed));
        let (folder, path) = session.place(&name);
        made = openat(folder, path, flags, Mode::RUSR | Mode::WUSR);
        if made.as_ref().err() != Some(&Errno::EXIST) {
            break;
        }
    }
    let made = made.map_err(|e| e.to_string()).and_then(|file| {
        EventLog::create(&file, slots, &head.to_bytes()).map_err(|e| {
            let (folder, path) = session.place(&name);
            let _ = unlinkat(folder, path, AtFlags::empty());
            e.to_string()
        })
    });
    match made {
        Ok(log) => {
            if session.capture.is_some_and(|capture| capture.waits) {
                log.expect_reader();
            }
            Some((log, stamp))
        }
        Err(why) => {
            // Relaxed: only says whether it was said.
            if !session.is_attached && !COMPLAINED.swap(true, Ordering::Relaxed) {
                eprintln!("bellwire: not traced: {}: {why}", session.place(&name).1.display());
            }
            None
        }
    }
}

impl ThreadLog {
    #[inline(always)]
    fn write(&mut self, draft: &Draft<'_>) {
        if draft.kind.is_rare() {
            return self.write_rare(draft);
        }
        self.log.push(draft.count(), |n| draft.slot(n));
    }

    #[cold]
    #[inline(never)]
    fn write_rare(&mut self, draft: &Draft<'_>) {
        if self.rare.is_none() {
            self.rare = create(self.ticks, &self.session, RARE_SLOTS).map(|(log, _)| log);
        }
        self.rare.as_mut().unwrap_or(&mut self.log).push(draft.count(), |n| draft.slot(n));
    }

    #[cold]
    #[inline(never)]
    fn write_empty_looks(&mut self) {
        let count = core::mem::take(&mut self.empty_looks);
        self.write(&Draft { stamp: self.looked_first, kind: Kind::EmptyLooks, object: 0, fields: [count, 0], rest: &[] });
    }

    /// Waits until a reader who wants that has read so much that the rest of the log is half of it.
    fn wait_for_reader(&mut self) {
        let room = self.log.capacity() / 2;
        let mut unread = self.log.unread();
        if unread <= room {
            self.is_alone = false;
            return;
        }
        let mut since = Instant::now();
        while unread > room && !self.is_alone {
            std::thread::sleep(PAUSE);
            let now = self.log.unread();
            if now != unread {
                (unread, since) = (now, Instant::now());
            }
            self.is_alone = since.elapsed() > PATIENCE;
        }
    }

    #[cold]
    #[inline(never)]
    fn write_clocks(&mut self) {
        let (stamp, monotonic, of_day) = readings(self.ticks);
        self.clocks_at = stamp;
        self.clocks_after = (self.clocks_after * 2).min(CLOCKS_MOST);
        self.write(&Draft { stamp, kind: Kind::Clocks, object: 0, fields: [monotonic, of_day], rest: &[] });
    }

    #[inline(always)]
    fn note(&mut self, kind: Kind, object: u32, fields: [u64; 2], rest: &[u64]) {
        let now = stamp(self.ticks);
        if self.empty_looks != 0 {
            self.write_empty_looks();
        }
        self.write(&Draft { stamp: now, kind, object, fields, rest });
        if now.wrapping_sub(self.clocks_at) > self.clocks_after {
            self.write_clocks();
        }
    }
}

/// Runs `f` on the calling thread's log, if there is one.
#[inline(always)]
fn with(f: impl FnOnce(&mut ThreadLog)) {
    // A thread that ends, or that is here already (a handler of a signal), notes nothing.
    let _ = MINE.try_with(|mine| {
        let Ok(mut mine) = mine.try_borrow_mut() else { return };
        let number = session::number();
        if let Mine::Log(log) = &mut *mine
            && log.session.number == number
            && !log.mark.is_elsewhere()
        {
            return f(log);
        }
        if let Some(log) = open_again(&mut mine, number) {
            f(log);
        }
    });
}

/// The log of a thread that has none yet, or one of an earlier session, or is that of a child of a
/// `fork`.
#[cold]
#[inline(never)]
fn open_again(mine: &mut Mine, number: u32) -> Option<&mut ThreadLog> {
    if !matches!(mine, Mine::None(same) if *same == number) {
        if let Mine::Log(log) = core::mem::replace(mine, Mine::None(number))
            && log.mark.is_elsewhere()
        {
            // Its mapping is not there: unmapping could meet another.
            core::mem::forget(log);
        }
        *mine = open(number).map_or(Mine::None(number), Mine::Log);
    }
    if let Mine::Log(log) = mine { Some(log) } else { None }
}

/// Notes an event with two fields.
#[inline]
pub fn note(kind: Kind, object: u32, fields: [u64; 2]) {
    with(|log| log.note(kind, object, fields, &[]));
}

/// Notes an event with more fields.
#[inline]
pub fn note_more<const N: usize>(kind: Kind, object: u32, fields: [u64; 2], rest: &[u64; N]) {
    with(|log| log.note(kind, object, fields, rest));
}

/// Notes an event with a text.
pub fn note_text(kind: Kind, object: u32, fields: [u64; 2], text: &str) {
    if text.len() > 8 * SHORT_WORDS {
        return note_long_text(kind, object, fields, text);
    }
    let (words, count) = text_words::<SHORT_WORDS>(text);
    with(|log| log.note(kind, object, fields, &words[..count]));
}

/// Words of a text that is noted without room for the longest.
const SHORT_WORDS: usize = 6;

#[cold]
#[inline(never)]
fn note_long_text(kind: Kind, object: u32, fields: [u64; 2], text: &str) {
    let (words, count) = text_words::<REST_MAX>(text);
    with(|log| log.note(kind, object, fields, &words[..count]));
}

/// Notes bytes, as events of [`BYTES_EACH`] bytes, the last with fewer. Each event has `name`, the
/// offset of its first byte, counted from `offset`, and their number. A thread whose reader is
/// behind, and is to be waited for, waits here.
pub fn note_bytes(kind: Kind, object: u32, name: u64, offset: u64, bytes: &[u8]) {
    for (n, chunk) in bytes.chunks(BYTES_EACH).enumerate() {
        let mut words = [0; REST_MAX];
        words[0] = chunk.len() as u64;
        for (word, bytes) in words[1..].iter_mut().zip(chunk.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        let at = offset + (n * BYTES_EACH) as u64;
        with(|log| {
            log.wait_for_reader();
            log.note(kind, object, [name, at], &words[..1 + chunk.len().div_ceil(8)]);
        });
    }
}

/// A look has found nothing: counted, and told with the next event.
#[inline]
pub fn note_empty_look() {
    with(|log| {
        if log.empty_looks == 0 {
            log.looked_first = stamp(log.ticks);
        }
        log.empty_looks += 1;
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Capture, attach};
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    fn make(name: &str, mode: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("bellwire-session-test-{}-{name}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Another process asks for folders; the files end with the last that holds it.
    #[test]
    fn folders_and_holders() {
        let (good, other, open) = (make("good", 0o700), make("other", 0o755), make("open", 0o777));
        let link = good.with_extension("link");
        std::os::unix::fs::symlink(&good, &link).unwrap();
        for (folder, bytes) in [
            (&open, BYTES_MIN),
            (&link, BYTES_MIN),
            (&PathBuf::from("relative"), BYTES_MIN),
            (&PathBuf::from("/nonexistent"), BYTES_MIN),
            (&PathBuf::from("/dev/null"), BYTES_MIN),
            (&good, BYTES_MIN - 1),
            (&good, u64::MAX),
        ] {
            assert!(attach(folder, bytes, None).is_err(), "{} {bytes}", folder.display());
        }
        assert!(!is_on());
        let files = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
        for folder in [&good, &other] {
            note(Kind::Sent, 1, [1, 2]);
            assert_eq!(files(folder), 0);
            let first = attach(folder, BYTES_MIN, None).unwrap();
            let second = attach(folder, BYTES_MIN, None).unwrap();
            assert!(attach(folder, BYTES_MIN, Capture::parse("10")).is_err(), "it is no capture");
            assert!(attach(if folder == &good { &other } else { &good }, BYTES_MIN, None).is_err(), "there is one");
            drop(first);
            note(Kind::Sent, 1, [3, 4]);
            note(Kind::Sent, 1, [5, 6]);
            assert_eq!((is_on(), files(folder)), (true, 1));
            drop(second);
            note(Kind::Sent, 1, [7, 8]);
            assert!(!is_on());
            let entry = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap();
            let mut reader = crate::file::Reader::open(&entry.path(), usize::MAX).unwrap();
            reader.more().unwrap();
            let sent: Vec<u64> = reader.finish().events.iter().filter(|event| event.kind == Kind::Sent).map(|event| event.word(0)).collect();
            assert_eq!(sent, [3, 5]);
        }
        std::fs::remove_file(link).unwrap();
        for folder in [good, other, open] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
