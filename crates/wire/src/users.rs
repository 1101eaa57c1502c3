// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other users of this host: those that a NIC allows to have links with it, and names of abstract
//! sockets that belong to a user.
//!
//! Anybody in the network namespace may bind any abstract name, so a name says only who *should*
//! answer there: a name with a user id in it counts only if the process that answers has that user
//! id (`SO_PEERCRED`). A name that another user has taken is left to that user. The rightful
//! process then listens under the name and a random suffix, and those who look for it find that in
//! `/proc/net/unix`. So another user can take no name over, and can keep none from its user.

use bellwire_memory::MemoryError;
use bellwire_memory::fd_passing::{self, Credentials, Socket};
use core::fmt;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeSet;
use std::ffi::CString;

/// The users that a NIC allows to have links with it, beside its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

impl Allow {
    /// No other user.
    pub const NOBODY: Self = Self { users: BTreeSet::new(), groups: BTreeSet::new() };

    /// A list by commas: user ids and names, and groups with `@` before their id or name.
    /// `None`: a name that this host does not know, an empty entry, or a number out of range.
    pub fn parse(text: &str) -> Option<Self> {
        let mut allow = Self::default();
        for entry in text.split(',').map(str::trim) {
            match entry.strip_prefix('@') {
                Some(group) => allow.groups.insert(id_or(group, group_id)?),
                None => allow.users.insert(id_or(entry, user_id)?),
            };
        }
        Some(allow)
    }

    /// These users, whatever their groups.
    pub fn of_users(users: impl IntoIterator<Item = u32>) -> Self {
        Self { users: users.into_iter().collect(), groups: BTreeSet::new() }
    }

    /// Whether it allows nobody.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// The users that are named one by one.
    pub(crate) fn users(&self) -> impl Iterator<Item = u32> + '_ {
        self.users.iter().copied()
    }

    /// Whether a user is named, and not only one of its groups.
    pub(crate) fn names_user(&self, user: u32) -> bool {
        self.users.contains(&user) && !stands_for_many(user)
    }

    /// Whether groups are allowed: then users are allowed whose ids are not known.
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether the process at the other end of a socket is one of an allowed user.
    pub(crate) fn covers(&self, socket: BorrowedFd<'_>, peer: &Credentials) -> bool {
        if self.is_empty() || stands_for_many(peer.uid) {
            return false;
        }
        let in_group = || self.groups.contains(&peer.gid) || fd_passing::peer_groups(socket).iter().any(|g| self.groups.contains(g));
        self.users.contains(&peer.uid) || (self.has_groups() && in_group())
    }
}

impl fmt::Display for Allow {
    /// As [`parse`](Self::parse) reads it, in numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.users.iter().map(|u| (' ', *u));
        let groups = self.groups.iter().map(|g| ('@', *g));
        for (i, (kind, id)) in users.chain(groups).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let at = if kind == '@' { "@" } else { "" };
            write!(f, "{comma}{at}{id}")?;
        }
        Ok(())
    }
}

fn id_or(text: &str, by_name: impl FnOnce(&str) -> Option<u32>) -> Option<u32> {
    // The last number means "no id" to the kernel.
    match text.parse::<u32>() {
        Ok(id) => (id != u32::MAX).then_some(id),
        Err(_) => by_name(text),
    }
}

/// Most bytes of a user's or group's entry that are looked at.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Asks the C library for an entry with a buffer that grows until it is large enough.
fn entry(mut ask: impl FnMut(&mut [u8]) -> (i32, Option<u32>)) -> Option<u32> {
    let mut buffer = vec![0; 4096];
    loop {
        match ask(&mut buffer) {
            (libc::ERANGE, _) if buffer.len() < ENTRY_BYTES_MAX => buffer.resize(4 * buffer.len(), 0),
            (_, id) => return id,
        }
    }
}

fn user_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok().filter(|n| !n.is_empty())?;
    entry(|buffer| {
        // SAFETY: all bytes zero are a valid passwd: null pointers and numbers.
        let mut user: libc::passwd = unsafe { core::mem::zeroed() };
        let mut found = core::ptr::null_mut();
        // SAFETY: the name ends with 0, and the C library writes within `user`, `buffer`, `found`.
        let error = unsafe { libc::getpwnam_r(name.as_ptr(), &raw mut user, buffer.as_mut_ptr().cast(), buffer.len(), &raw mut found) };
        (error, (error == 0 && !found.is_null()).then_some(user.pw_uid))
    })
}

fn group_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok().filter(|n| !n.is_empty())?;
    entry(|buffer| {
        // SAFETY: all bytes zero are a valid group: null pointers and numbers.
        let mut group: libc::group = unsafe { core::mem::zeroed() };
        let mut found = core::ptr::null_mut();
        // SAFETY: the name ends with 0, and the C library writes within `group`, `buffer`, `found`.
        let error = unsafe { libc::getgrnam_r(name.as_ptr(), &raw mut group, buffer.as_mut_ptr().cast(), buffer.len(), &raw mut found) };
        (error, (error == 0 && !found.is_null()).then_some(group.gr_gid))
    })
}

/// In a user namespace, all users of the host that have no id there have this one.
const OVERFLOW_ID: u32 = 65_534;

/// Whether a user id may be that of several users. The user `nobody` of the host itself is one.
fn stands_for_many(uid: u32) -> bool {
    let all_mapped = || std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    uid == OVERFLOW_ID && !all_mapped()
}

// ---- names that belong to a user

/// A name that belongs to a user: its parts before and behind the user's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedName {
    pub(crate) before: String,
    pub(crate) after: String,
}

impl OwnedName {
    /// The name of one user.
    pub(crate) fn of(&self, user: u32) -> String {
        format!("{}{user}{}", self.before, self.after)
    }

    /// Listens under the name of this process's user.
    ///
    /// # Errors
    /// [`MemoryError::AddressInUse`]: a process of this user does; others.
    pub(crate) fn claim(&self, own: u32) -> Result<OwnedFd, MemoryError> {
        let name = self.of(own);
        match fd_passing::listen_abstract(name.as_bytes()) {
            Err(MemoryError::AddressInUse) if !is_rightful(&name, own) => {
                if self.suffixed(own).iter().any(|name| is_rightful(name, own)) {
                    return Err(MemoryError::AddressInUse);
                }
                let mut random = [0; 8];
                rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(|e| MemoryError::os("getrandom", e))?;
                fd_passing::listen_abstract(format!("{name}/{:016x}", u64::from_le_bytes(random)).as_bytes())
            }
            other => other,
        }
    }

    /// Connects to the process of `user` that listens under its name.
    ///
    /// # Errors
    /// [`MemoryError::ConnectionRefused`]: none does; others.
    pub(crate) fn reach(&self, user: u32) -> Result<(Socket, Credentials), MemoryError> {
        match connect(self.of(user).as_bytes(), user) {
            Ok(Ok(reached)) => Ok(reached),
            // Taken by another user, or full, and then whose it is cannot be seen.
            Ok(Err(Impostor)) => self.reach_suffixed(user, MemoryError::ConnectionRefused),
            Err(MemoryError::WouldBlock) => self.reach_suffixed(user, MemoryError::WouldBlock),
            Err(e) => Err(e),
        }
    }

    fn reach_suffixed(&self, user: u32, or: MemoryError) -> Result<(Socket, Credentials), MemoryError> {
        self.suffixed(user).iter().find_map(|name| connect(name.as_bytes(), user).ok()?.ok()).ok_or(or)
    }

    fn suffixed(&self, user: u32) -> Vec<String> {
        let plain = self.of(user);
        self.holders().into_iter().filter(|(uid, name)| *uid == user && *name != plain).map(|(_, name)| name).collect()
    }

    /// All names of this kind at which somebody listens, with the user that each names. Whether it
    /// is that user's process is not known.
    pub(crate) fn holders(&self) -> BTreeSet<(u32, String)> {
        std::fs::read("/proc/net/unix").map_or_else(|_| BTreeSet::new(), |table| self.holders_in(&String::from_utf8_lossy(&table)))
    }

    fn holders_in(&self, table: &str) -> BTreeSet<(u32, String)> {
        let one = |line: &str| {
            // Num RefCount Protocol Flags Type St Inode Path
            let mut words = line.split_ascii_whitespace();
            let listens = u32::from_str_radix(words.nth(3)?, 16).ok()? & ACCEPTS != 0;
            let name = words.nth(3)?.strip_prefix('@').filter(|_| listens)?;
            let rest = name.strip_prefix(&self.before)?;
            let (user, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
            let suffix = after.strip_prefix(&self.after)?;
            (suffix.is_empty() || suffix.starts_with('/')).then_some((user.parse().ok()?, name.to_owned()))
        };
        table.lines().filter_map(one).collect()
    }

    /// The users beside `own` of whom a process listens under their own name.
    pub(crate) fn others(&self, own: u32) -> BTreeSet<u32> {
        let mut users = BTreeSet::new();
        for (uid, name) in self.holders() {
            if uid != own && !users.contains(&uid) && is_rightful(&name, uid) {
                users.insert(uid);
            }
        }
        users
    }

    /// Connects to a process that listens under the name of an allowed user.
    ///
    /// # Errors
    /// [`MemoryError::ConnectionRefused`]: none does; others.
    pub(crate) fn reach_allowed(&self, own: u32, allow: &Allow) -> Result<(Socket, Credentials), MemoryError> {
        let mut worst = MemoryError::ConnectionRefused;
        for user in allow.users().filter(|user| *user != own) {
            match self.reach(user) {
                Ok((socket, peer)) if allow.covers(socket.as_fd(), &peer) => return Ok((socket, peer)),
                Ok(_) | Err(MemoryError::ConnectionRefused) => {}
                Err(e) => worst = e,
            }
        }
        if allow.has_groups() {
            for (user, name) in self.holders().into_iter().filter(|(user, _)| *user != own) {
                if let Ok(Ok((socket, peer))) = connect(name.as_bytes(), user)
                    && allow.covers(socket.as_fd(), &peer)
                {
                    return Ok((socket, peer));
                }
            }
        }
        Err(worst)
    }
}

/// In the flags of `/proc/net/unix`: the socket listens.
const ACCEPTS: u32 = 0x1_0000;

/// The process there is not the user's whose name it has taken.
struct Impostor;

fn connect(name: &[u8], user: u32) -> Result<Result<(Socket, Credentials), Impostor>, MemoryError> {
    let socket = fd_passing::connect_abstract(name)?;
    let peer = fd_passing::peer_credentials(socket.as_fd())?;
    Ok(if peer.uid == user { Ok((socket, peer)) } else { Err(Impostor) })
}

/// Whether a process of the user that a name belongs to listens there, as far as can be seen.
fn is_rightful(name: &str, user: u32) -> bool {
    // Between its binding and its listening it refuses: another process of this user may be there.
    for _ in 0..5 {
        match connect(name.as_bytes(), user) {
            Ok(reached) => return reached.is_ok(),
            Err(MemoryError::ConnectionRefused) => std::thread::yield_now(),
            // A full backlog hides whose it is. One's own process empties it soon; another user's
            // may let it stay full.
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests;
