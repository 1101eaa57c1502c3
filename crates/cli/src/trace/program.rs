// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that is traced, the folder of its threads' files, and what is shown in the end.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use bellwire_trace::here;

/// Time between two looks at what a running program has noted.
const LOOKS: Duration = Duration::from_millis(20);

/// Where the threads' files are.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    stays: bool,
}

impl Folder {
    /// A folder of that name, which must not be there or be empty, and stays; or one that goes with
    /// this value.
    ///
    /// # Errors
    /// A sentence.
    pub fn make(keep: Option<&Path>) -> Result<Self, String> {
        if let Some(keep) = keep {
            std::fs::create_dir_all(keep).map_err(|e| format!("--keep {}: {e}", keep.display()))?;
            let path = keep.canonicalize().map_err(|e| format!("--keep {}: {e}", keep.display()))?;
            if std::fs::read_dir(&path).is_ok_and(|mut there| there.next().is_some()) {
                return Err(format!("--keep {}: it is not empty", keep.display()));
            }
            return Ok(Self { path, stays: true });
        }
        // A name that is free, and nobody else's: the folder is made with it, for this user alone.
        for n in 0..1000 {
            let path = std::env::temp_dir().join(format!("bellwire-trace-{}-{n}", std::process::id()));
            match std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&path) {
                Ok(()) => return Ok(Self { path, stays: false }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(format!("{}: {e}", path.display())),
            }
        }
        Err(format!("no name is free in {}", std::env::temp_dir().display()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Gives a folder to the user of a process, which root may have traced though it is another's.
///
/// # Errors
/// A sentence.
pub fn give(folder: &Path, pid: i32) -> Result<(), String> {
    let wrong = |e: io::Error| format!("process {pid}: {e}");
    let uid = std::fs::metadata(format!("/proc/{pid}")).map_err(wrong)?.uid();
    if uid != std::fs::metadata(folder).map_err(wrong)?.uid() {
        std::os::unix::fs::chown(folder, Some(uid), None).map_err(|e| format!("process {pid} is of another user: {e}"))?;
    }
    Ok(())
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.stays {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Paces the looks at what a program notes.
#[derive(Debug)]
pub struct Pace {
    is_over: Receiver<()>,
}

impl Pace {
    /// Until the other end goes.
    pub fn new(is_over: Receiver<()>) -> Self {
        Self { is_over }
    }

    /// Waits until the next look, or not at all where much has come with the last one. `false`: the
    /// program has ended.
    pub fn wait(&self, is_much: bool) -> bool {
        let wait = if is_much { Duration::ZERO } else { LOOKS };
        self.is_over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
    }
}

/// Runs a program to its end, prepared by `prepare`, whose threads have files of `bytes` in
/// `folder`. Meanwhile `follow` reads them. Gives the program's status, and what `follow` gives.
///
/// # Errors
/// A sentence: `follow` has panicked.
pub fn watch<T: Send>(
    program: &[OsString],
    folder: &Folder,
    bytes: u64,
    prepare: impl FnOnce(&mut Command),
    follow: impl FnOnce(&Pace) -> T + Send,
) -> Result<(Result<ExitCode, String>, T), String> {
    let (over, is_over) = channel();
    let pace = Pace::new(is_over);
    std::thread::scope(|scope| {
        let following = scope.spawn(move || follow(&pace));
        let status = execute(program, |command| {
            command.env(here::FOLDER, folder.path()).env(here::BYTES, bytes.to_string());
            prepare(command);
        });
        drop(over);
        let followed = following.join().map_err(|_| "following the program failed")?;
        Ok((status, followed))
    })
}

/// Where text goes for which there is no file.
#[derive(Debug, Clone, Copy)]
pub enum Instead {
    /// Standard output: nothing else is on it.
    Output,
    /// Standard error: the program may have written to standard output.
    Errors,
}

/// Writes to the file; `-` is standard output, and without a file it goes `instead`.
///
/// # Errors
/// A sentence.
pub fn write(file: Option<&Path>, instead: Instead, bytes: &[u8]) -> Result<(), String> {
    let (to, written) = match (file, instead) {
        (Some(file), _) if file != Path::new("-") => (file, std::fs::write(file, bytes)),
        (None, Instead::Errors) => (Path::new("standard error"), io::stderr().lock().write_all(bytes)),
        _ => {
            let mut out = io::stdout().lock();
            (Path::new("standard output"), out.write_all(bytes).and_then(|()| out.flush()))
        }
    };
    readable(written).map_err(|e| format!("{}: {e}", to.display()))
}

/// A reader that closes the pipe early has seen enough.
///
/// # Errors
/// Others.
pub fn readable(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|e| if e.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(e) })
}

/// Runs the program to its end, prepared by `prepare`. Signals of the terminal reach it by
/// themselves, and do not end this command; others are passed on.
///
/// # Errors
/// A sentence.
fn execute(program: &[OsString], prepare: impl FnOnce(&mut Command)) -> Result<ExitCode, String> {
    let Some((name, arguments)) = program.split_first() else { return Err("there is no program".to_owned()) };
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]).map_err(|e| format!("signals: {e}"))?;
    let mut command = Command::new(name);
    command.args(arguments);
    prepare(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            eprintln!("bellwire: {}: {e}", name.display());
            return Ok(ExitCode::from(if e.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    let pid = rustix::process::Pid::from_child(&child);
    let handle = signals.handle();
    let passing = std::thread::spawn(move || {
        for signal in &mut signals {
            // Those of the terminal, SIGINT and SIGQUIT, are the program's already.
            if let (SIGTERM | SIGHUP, Some(signal)) = (signal, rustix::process::Signal::from_named_raw(signal)) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    });
    let status = child.wait().map_err(|e| format!("waiting for the program: {e}"));
    handle.close();
    let _ = passing.join();
    status.map(code_of)
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
