// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether this process is traced, and where its threads write: as the environment says, from its
//! beginning to its end; or because another process has asked for it while it runs
//! ([`attach`]), until that one goes.

use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::event_log::Slot;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The folder.
pub const FOLDER: &str = "BELLWIRE_TRACE";
/// Most bytes of a request that are noted.
pub const CAPTURE: &str = "BELLWIRE_CAPTURE";
/// Bytes of a thread's log.
pub const BYTES: &str = "BELLWIRE_TRACE_BYTES";
/// The same, unless it is set: 131,072 slots.
pub const BYTES_DEFAULT: u64 = 4 << 20;
/// The least of it.
pub const BYTES_MIN: u64 = 64 << 10;
/// The most of it.
pub const BYTES_MAX: u64 = 1 << 30;

/// A trace of this process.
#[derive(Debug)]
pub(crate) struct Session {
    /// Tells it from others of this process.
    pub number: u32,
    folder: Folder,
    pub slots: usize,
    pub capture: Option<Capture>,
    /// Another process has asked for it: nothing is said on standard error.
    pub is_attached: bool,
}

/// Where files are made.
#[derive(Debug)]
enum Folder {
    Named(PathBuf),
    Open(OwnedFd),
}

impl Session {
    /// What a file's name is relative to, and the name.
    pub(crate) fn place(&self, name: &str) -> (BorrowedFd<'_>, PathBuf) {
        match &self.folder {
            Folder::Named(folder) => (CWD, folder.join(name)),
            Folder::Open(folder) => (folder.as_fd(), name.into()),
        }
    }
}

/// The part of each request that is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Most bytes.
    pub bytes: usize,
    /// A thread waits when the reader of its file is behind.
    pub waits: bool,
}

impl Capture {
    /// Of a text as of `BELLWIRE_CAPTURE`.
    pub fn parse(text: &str) -> Option<Self> {
        let (bytes, waits) = match text.split_once(',') {
            None => (text, false),
            Some((bytes, "wait")) => (bytes, true),
            Some(_) => return None,
        };
        Some(Self { bytes: bytes.parse().ok()?, waits })
    }
}

/// The number of the session that the environment asks for.
const OF_ENVIRONMENT: u32 = 1;
/// Nobody has looked into the environment yet.
const UNKNOWN: u32 = u32::MAX;
/// The number of the session. It is 0 while there is no session.
static NUMBER: AtomicU32 = AtomicU32::new(UNKNOWN);

/// The session that the environment asks for.
pub(crate) fn of_environment() -> Option<&'static Arc<Session>> {
    static SESSION: OnceLock<Option<Arc<Session>>> = OnceLock::new();
    SESSION
        .get_or_init(|| {
            let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty())?;
            let capture = std::env::var(CAPTURE).ok().and_then(|text| {
                let capture = Capture::parse(&text);
                if capture.is_none() {
                    eprintln!("bellwire: {CAPTURE}={text} is no number of bytes, with or without \",wait\"; no requests are captured");
                }
                capture
            });
            let bytes = match std::env::var(BYTES) {
                Ok(text) => text.parse().ok().filter(|bytes| (BYTES_MIN..=BYTES_MAX).contains(bytes)).unwrap_or_else(|| {
                    eprintln!("bellwire: {BYTES}={text} is no number of bytes from {BYTES_MIN} to {BYTES_MAX}; it is {BYTES_DEFAULT}");
                    BYTES_DEFAULT
                }),
                Err(_) => BYTES_DEFAULT,
            };
            let folder = Folder::Named(folder.into());
            Some(Arc::new(Session { number: OF_ENVIRONMENT, folder, slots: slots(bytes), capture, is_attached: false }))
        })
        .as_ref()
}

fn slots(bytes: u64) -> usize {
    bytes as usize / size_of::<Slot>()
}

/// The number of the session, or 0 while there is no session.
#[inline(always)]
pub(crate) fn number() -> u32 {
    // Relaxed: the session itself is behind a lock, and a thread that hears of it late notes late.
    let number = NUMBER.load(Ordering::Relaxed);
    if number == UNKNOWN { look() } else { number }
}

#[cold]
#[inline(never)]
fn look() -> u32 {
    let found = if of_environment().is_some() { OF_ENVIRONMENT } else { 0 };
    // Relaxed: as in `number`. Another thread may have been here.
    NUMBER.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|other| other, |_| found)
}

/// The session, if it has that number.
pub(crate) fn of_number(number: u32) -> Option<Arc<Session>> {
    if number == OF_ENVIRONMENT {
        return of_environment().cloned();
    }
    lock().session.clone().filter(|session| session.number == number)
}

/// The session that another process has asked for.
#[derive(Debug)]
struct Attachment {
    session: Option<Arc<Session>>,
    /// Its folder's device and number.
    folder: (u64, u64),
    /// How many hold it.
    holders: usize,
    /// Sessions so far, with that of the environment.
    count: u32,
    /// They hear when it begins and ends.
    listeners: Vec<fn(bool)>,
}

static ATTACHMENT: Mutex<Attachment> = Mutex::new(Attachment { session: None, folder: (0, 0), holders: 0, count: OF_ENVIRONMENT, listeners: Vec::new() });

fn lock() -> MutexGuard<'static, Attachment> {
    ATTACHMENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A right to have this process traced, which ends with the last of them.
#[derive(Debug)]
pub struct Attached(());

/// Has this process traced into a folder, for another process that has asked for it. The folder's
/// name and `bytes`, the size of each file, are that process's and are checked: the folder must
/// belong to this process's user, who alone may write there. With `capture`, requests are noted
/// too.
///
/// # Errors
/// Why not.
pub fn attach(folder: &Path, bytes: u64, capture: Option<Capture>) -> Result<Attached, String> {
    if of_environment().is_some() {
        return Err(format!("it is traced already, by {FOLDER}"));
    }
    if !(BYTES_MIN..=BYTES_MAX).contains(&bytes) {
        return Err(format!("{bytes} bytes are not from {BYTES_MIN} to {BYTES_MAX}"));
    }
    if !folder.is_absolute() {
        return Err("the folder's name does not begin with /".to_owned());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = openat(CWD, folder, flags, Mode::empty()).map_err(|e| format!("it cannot open the folder: {e}"))?;
    let about = fstat(&open).map_err(|e| format!("it cannot look at the folder: {e}"))?;
    let is_private = about.st_uid == rustix::process::geteuid().as_raw() && about.st_mode & 0o022 == 0;
    if !is_private || FileType::from_raw_mode(about.st_mode) != FileType::Directory {
        return Err("the folder is not one of its user's that others cannot write to".to_owned());
    }
    let mut attachment = lock();
    let id = (about.st_dev, about.st_ino);
    if attachment.session.is_some() {
        if attachment.folder != id || attachment.session.as_ref().is_some_and(|session| session.capture != capture) {
            return Err("another command has it traced".to_owned());
        }
        attachment.holders += 1;
        return Ok(Attached(()));
    }
    attachment.count = attachment.count.wrapping_add(1).clamp(OF_ENVIRONMENT + 1, UNKNOWN - 1);
    let session = Session { number: attachment.count, folder: Folder::Open(open), slots: slots(bytes), capture, is_attached: true };
    (attachment.folder, attachment.holders) = (id, 1);
    // Relaxed: as in `number`.
    NUMBER.store(session.number, Ordering::Relaxed);
    attachment.session = Some(Arc::new(session));
    attachment.listeners.iter().for_each(|listener| listener(true));
    Ok(Attached(()))
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut attachment = lock();
        attachment.holders -= 1;
        if attachment.holders == 0 {
            // Relaxed: as in `number`.
            NUMBER.store(0, Ordering::Relaxed);
            attachment.session = None;
            attachment.listeners.iter().for_each(|listener| listener(false));
        }
    }
}

/// Has a function hear when another process begins to have this one traced, and when that ends. It
/// runs once now, with how it is. It may not attach.
pub fn listen(listener: fn(bool)) {
    let mut attachment = lock();
    if !attachment.listeners.contains(&listener) {
        attachment.listeners.push(listener);
    }
    listener(number() != 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_captured() {
        assert_eq!(Capture::parse("100"), Some(Capture { bytes: 100, waits: false }));
        assert_eq!(Capture::parse("0,wait"), Some(Capture { bytes: 0, waits: true }));
        for wrong in ["", ",wait", "1,", "1,Wait", "-1", "all"] {
            assert_eq!(Capture::parse(wrong), None, "{wrong}");
        }
    }
}
