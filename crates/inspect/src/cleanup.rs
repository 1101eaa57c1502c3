// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing is left behind: temporary folders and other libraries' programs go when the command ends, also by Ctrl-C, a hang-up or a request to
//! terminate. What a kill -9 leaves is swept away by the next run.
//!
//! A thread sleeps until such a signal comes, does what was asked for, and lets the signal have its usual effect. Children get the usual signal
//! dispositions, since `exec` resets handlers.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Beginning of the folders' names; the process id follows.
const FOLDER_PREFIX: &str = "bellwire-perf-";

type Action = Box<dyn FnOnce() + Send>;

/// What is to be done if a signal comes.
#[derive(Default)]
struct Registry {
    installed: bool,
    folders: Vec<PathBuf>,
    groups: Vec<Pid>,
    actions: Vec<Action>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { installed: false, folders: Vec::new(), groups: Vec::new(), actions: Vec::new() });

/// The registry, watched over from now on.
fn registry() -> MutexGuard<'static, Registry> {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if !registry.installed {
        registry.installed = true;
        // Without the thread a signal ends the command as ever; only the folders stay.
        if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) {
            let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    clean();
                    let _ = emulate_default_handler(signal);
                }
            });
        }
    }
    registry
}

/// Does everything that is registered; holds the registry until the process ends, so that nothing new begins.
fn clean() {
    let mut registry = registry();
    for group in registry.groups.drain(..) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for folder in registry.folders.drain(..) {
        let _ = fs::remove_dir_all(folder);
    }
    for action in registry.actions.drain(..) {
        action();
    }
    std::mem::forget(registry);
}

/// To be done if a signal ends this process. `action` must not register anything, which would wait for ever.
pub fn at_signal(action: impl FnOnce() + Send + 'static) {
    registry().actions.push(Box::new(action));
}

/// A process group that is ended if a signal ends this process, until it is dropped.
#[derive(Debug)]
pub struct Group(Pid);

impl Group {
    /// Watches over `group`.
    pub fn watch(group: Pid) -> Self {
        registry().groups.push(group);
        Group(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        registry().groups.retain(|group| *group != self.0);
    }
}

/// A folder for temporary files, removed with all it holds when it is dropped or a signal ends this process.
#[derive(Debug)]
pub struct TempFolder(PathBuf);

impl TempFolder {
    /// A new folder, for this user alone.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(purpose: &str) -> io::Result<Self> {
        let parent = std::env::temp_dir();
        let mut registry = registry();
        sweep(&parent);
        let folder = parent.join(format!("{FOLDER_PREFIX}{}-{purpose}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        registry.folders.push(folder.clone());
        Ok(TempFolder(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        registry().folders.retain(|folder| *folder != self.0);
    }
}

/// Removes folders of this user whose processes are gone.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let gone = name.to_str().and_then(owner_of).is_some_and(is_gone);
        // The entry itself, not what a link points to.
        let own = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == rustix::process::geteuid().as_raw());
        if gone && own {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether no process has this id.
pub fn is_gone(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

/// The process id in the name of a folder, or of something else that belongs to a process.
pub fn owner_of(name: &str) -> Option<i32> {
    name.strip_prefix(FOLDER_PREFIX)?.split_once('-')?.0.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_with_their_owner() {
        let folder = TempFolder::create("test").unwrap();
        let path = folder.path().to_path_buf();
        fs::write(path.join("file"), "x").unwrap();
        assert!(registry().folders.contains(&path));
        drop(folder);
        assert!(!path.exists() && !registry().folders.contains(&path));
    }

    #[test]
    fn what_the_dead_have_left_is_swept() {
        let parent = std::env::temp_dir().join(format!("bellwire-sweep-{}", std::process::id()));
        // No process has the highest id that there can be.
        let (dead, alive, other) =
            (parent.join(format!("{FOLDER_PREFIX}2147483646-x")), parent.join(format!("{FOLDER_PREFIX}{}-x", std::process::id())), parent.join("else"));
        for folder in [&dead, &alive, &other] {
            fs::create_dir_all(folder).unwrap();
        }
        sweep(&parent);
        assert_eq!((dead.exists(), alive.exists(), other.exists()), (false, true, true));
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn names() {
        assert_eq!(
            [owner_of("bellwire-perf-12-mpich"), owner_of("bellwire-perf--1-x"), owner_of("bellwire-perf-12"), owner_of("x-12-y")],
            [Some(12), None, None, None]
        );
    }
}
