// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Job`]: what a program sees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::environment::{self, Launcher, Way};
use crate::error::Error;
use crate::installed::Client as Installed;
use crate::mapping;
use crate::pmi::client::{Client as Pmi, Wire};
use crate::pmix::Client as Pmix;
use crate::text::{BLOCK_MAX_BYTES, KEY_MAX_BYTES};

/// How long a launcher may take to answer, where it has nothing to wait for. Barriers wait as long
/// as the launcher lives. `BELLWIRE_JOB_TIMEOUT_S` changes both.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// This process's place in its job. Cheap to clone; all clones of a process are the same
/// membership, which ends with the last of them.
///
/// `fence`, `barrier` and `all_gather` are collective: every process of the job calls them, in the
/// same order. All calls may be made from any thread, one at a time; the others wait.
#[derive(Debug, Clone)]
pub struct Job {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rank: u32,
    size: u32,
    local_rank: u32,
    local_size: u32,
    id: String,
    launcher: Launcher,
    /// Whose membership this is: a forked child has a copy that means nothing.
    pid: u32,
    /// How to end the job while another thread waits in a call.
    end: End,
    state: Mutex<State>,
}

#[derive(Debug)]
enum End {
    Alone,
    Pmi(Arc<Wire>),
    Pmix(Arc<crate::pmix::Api>),
    Installed(Arc<crate::installed::Api>),
}

#[derive(Debug)]
enum Channel {
    Alone(BTreeMap<String, Vec<u8>>),
    Pmi(Pmi),
    Pmix(Pmix),
    Installed(Installed),
}

#[derive(Debug)]
struct State {
    channel: Channel,
    /// For barriers; `None`: as long as the launcher lives.
    barrier_timeout: Option<Duration>,
    /// Keys that this process has put: each once.
    keys: BTreeSet<String>,
    /// All-gathers so far, which name their blocks.
    rounds: u64,
    in_barrier: bool,
    /// The launcher has been told that this process leaves.
    has_left: bool,
}

/// The membership of this process, while there is one.
static MEMBERSHIP: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
/// Whether the job is being ended by this process, so that nothing more is to be said.
static ENDING: Mutex<bool> = Mutex::new(false);
/// Whether leaving at exit has been arranged.
static AT_EXIT: Once = Once::new();

impl Job {
    /// Joins the job that this process was started in, or makes one of this process alone. If this
    /// process is in it already, another handle to that.
    ///
    /// A process that ends without dropping it leaves at `exit`; one that is killed, or calls
    /// `_exit`, has not left, and ends the job if others wait for it.
    ///
    /// Returns at once, except that it waits for others where the launcher does not say who is on
    /// which host. To be called by every process of the job, once it has begun.
    ///
    /// # Errors
    /// If a launcher's variables are set but cannot be used, if it does not answer or does not
    /// speak its protocol, or if another copy of this code has joined before.
    pub fn join() -> Result<Self, Error> {
        Self::join_by(Shared::join)
    }

    /// As [`Job::join`], but through the job library if that is installed: for libraries, each of
    /// which has a copy of this code, so that a program may use several of them, and the job
    /// library itself.
    ///
    /// # Errors
    /// As there.
    pub fn join_installed() -> Result<Self, Error> {
        Self::join_by(|get| match Installed::join() {
            Some(joined) => joined.map(|(client, place)| Shared::installed(client, place)),
            None => Shared::join(get),
        })
    }

    fn join_by(join: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Result<Shared, Error>) -> Result<Self, Error> {
        let mut membership = MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = membership.upgrade() {
            return Ok(Self { shared });
        }
        let get = |name: &str| std::env::var(name).ok();
        let job = Self { shared: Arc::new(join(&get)?) };
        *membership = Arc::downgrade(&job.shared);
        if !matches!(job.shared.end, End::Alone) {
            AT_EXIT.call_once(|| {
                // SAFETY: a function without arguments that does not unwind. There are places for
                // 32 at least; without one only the good-bye is missing.
                let _ = unsafe { libc::atexit(leave_at_exit) };
            });
        }
        Ok(job)
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// How many processes the job has.
    pub fn size(&self) -> u32 {
        self.shared.size
    }

    /// This process's number among those of its host, from 0.
    pub fn local_rank(&self) -> u32 {
        self.shared.local_rank
    }

    /// How many processes of the job are on this host.
    pub fn local_size(&self) -> u32 {
        self.shared.local_size
    }

    /// The launcher's name for the job, the same in all its processes; at most 256 bytes.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// In what way the job was started.
    pub fn launcher(&self) -> Launcher {
        self.shared.launcher
    }

    /// Puts a block under a key, for the others to get after the next fence. A key may be put once.
    ///
    /// # Errors
    /// [`Error::BadKey`], [`Error::TooLong`], [`Error::Refused`] for a key put before, or what the
    /// launcher answers.
    pub fn put(&self, key: &str, block: &[u8]) -> Result<(), Error> {
        check_key(key)?;
        self.state()?.put(&format!("u.{key}"), block)
    }

    /// Waits until every process of the job has come here; what any of them put before can be got
    /// then by all.
    ///
    /// # Errors
    /// [`Error::LauncherGone`] if the job is ending, for instance because a process has died;
    /// [`Error::Timeout`] only where a time was set.
    pub fn fence(&self) -> Result<(), Error> {
        self.state()?.barrier()
    }

    /// The block that a process has put under a key before the last fence.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoSuchRank`], [`Error::BadKey`], or what the launcher answers.
    pub fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, Error> {
        check_key(key)?;
        self.check_rank(rank)?;
        let found = self.state()?.channel.get(rank, &format!("u.{key}"))?;
        found.ok_or_else(|| Error::NotFound { rank, key: key.to_owned() })
    }

    /// Gives everybody's block to everybody: the result has one for each rank, in order. Blocks may
    /// differ in length.
    ///
    /// # Errors
    /// As for [`Job::put`], [`Job::fence`] and [`Job::get`].
    pub fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.state()?.all_gather(self.shared.rank, self.shared.size, block)
    }

    /// Waits until every process of the job has come here.
    ///
    /// # Errors
    /// As for [`Job::fence`].
    pub fn barrier(&self) -> Result<(), Error> {
        self.fence()
    }

    /// Enters the barrier without waiting: for a caller that has other things to do until the rest
    /// are there. No other call but [`Job::barrier_done`] and [`Job::exit`] until then.
    ///
    /// # Errors
    /// As for [`Job::fence`].
    pub fn barrier_start(&self) -> Result<(), Error> {
        self.state()?.barrier_start()
    }

    /// Whether everybody has come to the barrier. Never waits.
    ///
    /// # Errors
    /// As for [`Job::fence`]; [`Error::WrongMoment`] outside a barrier.
    pub fn barrier_done(&self) -> Result<bool, Error> {
        self.lock().barrier_done(Some(Instant::now()))
    }

    /// Ends the whole job with an exit status from 0 to 255, and this process at once. The other
    /// processes are ended by the launcher.
    pub fn exit(&self, code: i32) -> ! {
        *ENDING.lock().unwrap_or_else(PoisonError::into_inner) = true;
        match &self.shared.end {
            End::Alone => {}
            // A launcher that cannot be told has gone, or ends the job when it sees this process's
            // status.
            End::Pmi(wire) => drop(wire.abort(code)),
            End::Pmix(api) => api.abort(code),
            End::Installed(api) => api.exit(code),
        }
        crate::end_process(code)
    }

    fn check_rank(&self, rank: u32) -> Result<(), Error> {
        if rank < self.size() { Ok(()) } else { Err(Error::NoSuchRank { rank, size: self.size() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, outside a barrier.
    fn state(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.lock();
        if state.in_barrier { Err(Error::WrongMoment("a barrier is under way: wait until it is done")) } else { Ok(state) }
    }
}

impl Shared {
    fn installed(client: Installed, place: crate::installed::Place) -> Self {
        let end = End::Installed(client.api());
        let state = State { channel: Channel::Installed(client), barrier_timeout: None, keys: BTreeSet::new(), rounds: 0, in_barrier: false, has_left: false };
        let crate::installed::Place { rank, size, local_rank, local_size, id, launcher } = place;
        Self { rank, size, local_rank, local_size, id, launcher, pid: std::process::id(), end, state: Mutex::new(state) }
    }

    fn join(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let set = environment::timeout(get)?;
        let timeout = set.unwrap_or(REPLY_TIMEOUT);
        let pid = std::process::id();
        let state = |channel| State { channel, barrier_timeout: set, keys: BTreeSet::new(), rounds: 0, in_barrier: false, has_left: false };
        match environment::way(get)? {
            Way::Alone => {
                let id = format!("alone-{pid}");
                let state = Mutex::new(state(Channel::Alone(BTreeMap::new())));
                Ok(Self { rank: 0, size: 1, local_rank: 0, local_size: 1, id, launcher: Launcher::Alone, pid, end: End::Alone, state })
            }
            Way::Pmi { fd, rank, size } => {
                let mut client = Pmi::join(fd, rank, timeout)?;
                let (id, end) = (client.name().to_owned(), End::Pmi(client.wire()));
                let known = client.mapping()?.and_then(|text| mapping::local(&text, rank, size));
                let mut state = state(Channel::Pmi(client));
                // Who the launcher leaves in the dark, it leaves all of them.
                let (local_rank, local_size) = known.map_or_else(|| state.find_local(rank, size), Ok)?;
                Ok(Self { rank, size, local_rank, local_size, id, launcher: Launcher::Pmi, pid, end, state: Mutex::new(state) })
            }
            Way::Pmix => {
                let (client, place) = Pmix::join(timeout)?;
                let (rank, size, end) = (place.rank, place.size, End::Pmix(client.api()));
                let mut state = state(Channel::Pmix(client));
                let (local_rank, local_size) = place.local.map_or_else(|| state.find_local(rank, size), Ok)?;
                Ok(Self { rank, size, local_rank, local_size, id: place.id, launcher: Launcher::Pmix, pid, end, state: Mutex::new(state) })
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            self.state.get_mut().unwrap_or_else(PoisonError::into_inner).leave();
        }
    }
}

/// The rest of a membership when the process exits. Waits for nobody: a call inside another thread
/// then stays.
extern "C" fn leave_at_exit() {
    let is_ending = ENDING.try_lock().is_ok_and(|ending| *ending);
    let shared = MEMBERSHIP.try_lock().ok().and_then(|membership| membership.upgrade());
    let Some(shared) = shared.filter(|shared| !is_ending && shared.pid == std::process::id()) else { return };
    if let Ok(mut state) = shared.state.try_lock() {
        state.leave();
    }
}

impl State {
    /// Tells the launcher that this process leaves, once.
    fn leave(&mut self) {
        // Inside a barrier the launcher would take it for nonsense; it sees the connection close.
        if self.has_left || self.in_barrier {
            return;
        }
        self.has_left = true;
        // Nobody is left to be told of an error.
        let _ = match &mut self.channel {
            Channel::Alone(_) => Ok(()),
            Channel::Pmi(client) => client.finalize(),
            Channel::Pmix(client) => client.finalize(),
            Channel::Installed(client) => client.finalize(),
        };
    }

    fn put(&mut self, key: &str, block: &[u8]) -> Result<(), Error> {
        if block.len() > BLOCK_MAX_BYTES {
            return Err(Error::TooLong { bytes: block.len() });
        }
        if !self.keys.insert(key.to_owned()) {
            return Err(Error::Refused { what: format!("a block under \"{}\"", key.trim_start_matches("u.")), why: "this process has put one before".into() });
        }
        match &mut self.channel {
            Channel::Alone(blocks) => drop(blocks.insert(key.to_owned(), block.to_vec())),
            Channel::Pmi(client) => client.put(key, block)?,
            Channel::Pmix(client) => client.put(key, block)?,
            Channel::Installed(client) => client.put(key, block)?,
        }
        Ok(())
    }

    fn all_gather(&mut self, rank: u32, size: u32, block: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        if let Channel::Installed(client) = &self.channel {
            return client.all_gather(size, block);
        }
        let key = format!("g.{}", self.rounds);
        self.rounds += 1;
        self.put(&key, block)?;
        // Named by its round: never put again.
        self.keys.remove(&key);
        self.barrier()?;
        let found = self.channel.get_all(size, &key)?.into_iter().zip(0..);
        let blocks: Vec<_> = found.map(|(block, from)| block.ok_or_else(|| Error::NotFound { rank: from, key: key.clone() })).collect::<Result<_, _>>()?;
        // A launcher that mixes up blocks is found out by each process's own.
        match blocks.get(rank as usize) {
            Some(own) if own == block => Ok(blocks),
            _ => Err(Error::protocol("this process's own block, as it was put", b"another")),
        }
    }

    fn barrier(&mut self) -> Result<(), Error> {
        if let Channel::Installed(client) = &self.channel {
            return client.barrier();
        }
        self.barrier_start()?;
        let deadline = self.barrier_timeout.map(|time| Instant::now() + time);
        if self.barrier_done(deadline)? {
            Ok(())
        } else {
            Err(Error::Timeout { what: "all processes to come to a barrier", after: self.barrier_timeout.unwrap_or_default() })
        }
    }

    fn barrier_start(&mut self) -> Result<(), Error> {
        match &mut self.channel {
            Channel::Alone(_) => {}
            Channel::Pmi(client) => client.barrier_start()?,
            Channel::Pmix(client) => client.barrier_start()?,
            Channel::Installed(client) => client.barrier_start()?,
        }
        self.in_barrier = true;
        Ok(())
    }

    fn barrier_done(&mut self, deadline: Option<Instant>) -> Result<bool, Error> {
        if !self.in_barrier {
            return Err(Error::WrongMoment("no barrier has been started"));
        }
        let done = match &mut self.channel {
            Channel::Alone(_) => true,
            Channel::Pmi(client) => client.barrier_done(deadline)?,
            Channel::Pmix(client) => client.barrier_done(deadline)?,
            Channel::Installed(client) => client.barrier_done()?,
        };
        self.in_barrier = !done;
        Ok(done)
    }

    /// The number among the processes of this host, and how many they are, by asking everybody
    /// which host it is on.
    fn find_local(&mut self, rank: u32, size: u32) -> Result<(u32, u32), Error> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let name = rustix::system::uname();
        let host = [boot.trim().as_bytes(), name.nodename().to_bytes()].join(&b' ');
        let same: Vec<bool> = self.all_gather(rank, size, &host)?.into_iter().map(|other| other == host).collect();
        let count = |ranks: &[bool]| ranks.iter().filter(|same| **same).count() as u32;
        Ok((count(&same[..rank as usize]), count(&same)))
    }
}

impl Channel {
    fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, Error> {
        match self {
            Self::Alone(blocks) => Ok(blocks.get(key).cloned()),
            Self::Pmi(client) => client.get(rank, key),
            Self::Pmix(client) => client.get(rank, key),
            Self::Installed(client) => client.get(rank, key),
        }
    }

    /// The block of every process under a key.
    fn get_all(&mut self, size: u32, key: &str) -> Result<Vec<Option<Vec<u8>>>, Error> {
        match self {
            Self::Pmi(client) => client.get_all(size, key),
            Self::Alone(_) | Self::Pmix(_) | Self::Installed(_) => (0..size).map(|rank| self.get(rank, key)).collect(),
        }
    }
}

fn check_key(key: &str) -> Result<(), Error> {
    let is_good = (1..=KEY_MAX_BYTES).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if is_good { Ok(()) } else { Err(Error::BadKey(key.chars().take(40).collect())) }
}
