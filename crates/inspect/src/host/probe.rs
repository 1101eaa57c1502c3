// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two helper processes that try on each other what two user processes would: started from this
//! executable under a hidden command, told what to do over a socket pair, gone when it closes.
//!
//! Only siblings tell the truth: between parent and child Yama allows what it refuses to anybody
//! else.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{PTracer, set_ptracer};
use serde::{Deserialize, Serialize};

use super::{Options, attach};
use crate::channel::Channel;
use crate::error::Error;
use crate::shared::{self, SharedMap};
use crate::vipl_abi::Nic;
use crate::{exchange, pin, stat};

/// How long a helper may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same for what loads a library or computes, on a busy machine.
const PATIENCE_AT_WORK: Duration = Duration::from_secs(30);

/// What a helper is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Order {
    /// Say where your secret is, and what it is.
    Show,
    /// Read eight bytes of another process.
    Read { pid: i32, address: u64 },
    /// Allow every process of this user to attach to you.
    Consent,
    /// Load the library, open and close its NIC.
    Open { library: Option<PathBuf>, device: String },
    /// Say that you are ready; then exchange lines with the other helper, `trials` times, in memory
    /// whose descriptor comes next; the first answers with the times.
    Exchange { first: bool, count: u64, trials: usize },
}

/// What it answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Answer {
    Secret { address: u64, value: u64 },
    Bytes(u64),
    Done,
    Refused(i32),
    Opened(Opened),
    Halves(Vec<f64>),
    Failed(String),
}

/// A library that could be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Where it is, what its NIC is called, whose memory it takes, and its wires, for people.
    pub description: String,
    /// Whether the NIC has UDP beside shared memory.
    pub udp: bool,
}

/// A helper's life: entered by the hidden command.
///
/// # Errors
/// If standard input is not the socket of `bellwire info`.
pub fn main() -> Result<(), Error> {
    let mut channel = Channel::of_standard_input()?;
    let secret = Box::new(u64::from(std::process::id()).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let address = core::ptr::from_ref::<u64>(&secret) as u64;
    while let Some(order) = channel.receive::<Order>()? {
        let answer = match order {
            Order::Show => Answer::Secret { address, value: *secret },
            Order::Read { pid, address } => {
                let mut bytes = [0; 8];
                match attach::read(pid, address, &mut bytes) {
                    Ok(8) => Answer::Bytes(u64::from_ne_bytes(bytes)),
                    Ok(_) => Answer::Refused(Errno::FAULT.raw_os_error()),
                    Err(errno) => Answer::Refused(errno.raw_os_error()),
                }
            }
            Order::Open { library, device } => match open(library.as_deref(), &device) {
                Ok(opened) => Answer::Opened(opened),
                Err(error) => Answer::Failed(error.to_string()),
            },
            Order::Exchange { first, count, trials } => {
                channel.send(&Answer::Done)?;
                match exchange_lines(&channel, first, count, trials) {
                    Ok(halves) => Answer::Halves(halves),
                    Err(error) => Answer::Failed(error.to_string()),
                }
            }
            Order::Consent => set_ptracer(PTracer::Any).map_or_else(|errno| Answer::Refused(errno.raw_os_error()), |()| Answer::Done),
        };
        channel.send(&answer)?;
    }
    Ok(())
}

/// Loads and opens; what the NIC says of itself.
fn open(library: Option<&Path>, device: &str) -> Result<Opened, Error> {
    let nic = Nic::open(library, device)?;
    let own = stat::own();
    Ok(Opened { description: format!("{}, {}{}", nic.description, nic.memory(), own.wires_text()), udp: !own.udp.is_empty() })
}

/// One side of the exchange: half round trips in nanoseconds, one for each trial.
fn exchange_lines(channel: &Channel, first: bool, count: u64, trials: usize) -> Result<Vec<f64>, Error> {
    let map = SharedMap::map(channel.receive_fd()?, exchange::BYTES)?;
    (1..=trials as u64).map(|epoch| exchange::run(&map, first, count, 1, epoch).map(|[median, _]| median)).collect()
}

/// Has a helper load and open the library.
///
/// # Errors
/// What the helper says, or that it does not live to say it.
pub fn library(options: &Options) -> Result<Opened, Error> {
    let mut helper = Helper::start((&options.helper.0, options.helper.1), None)?;
    helper.be_patient(PATIENCE_AT_WORK)?;
    match helper.ask(Order::Open { library: options.library.clone(), device: options.device.clone() })? {
        Answer::Opened(opened) => Ok(opened),
        Answer::Failed(why) => Err(Error::failed(why)),
        _ => Err(Error::failed("a helper answered something else")),
    }
}

/// Has two helpers exchange `count` lines, `trials` times: half round trips in nanoseconds.
///
/// # Errors
/// If they do not start, or do not answer each other.
pub fn exchange(options: &Options, count: u64, trials: usize) -> Result<Vec<f64>, Error> {
    let start = |first: bool| Helper::start((&options.helper.0, options.helper.1), options.pinning.cpu(first));
    let mut helpers = [start(true)?, start(false)?];
    let memory = shared::create(exchange::BYTES)?;
    for (helper, first) in helpers.iter_mut().zip([true, false]) {
        helper.be_patient(PATIENCE_AT_WORK)?;
        // The helper has read the order before the descriptor leaves: a reader of lines that took the
        // descriptor's byte with the line would lose it.
        if !matches!(helper.ask(Order::Exchange { first, count, trials })?, Answer::Done) {
            return Err(Error::failed("a helper answered something else"));
        }
        helper.channel()?.send_fd(&memory)?;
    }
    let [first, second] = helpers.each_mut().map(Helper::answer);
    match (first?, second?) {
        (Answer::Halves(halves), Answer::Halves(_)) => Ok(halves),
        (Answer::Failed(why), _) | (_, Answer::Failed(why)) => Err(Error::failed(why)),
        _ => Err(Error::failed("a helper answered something else")),
    }
}

/// The results of attaching, in the three situations that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attaching {
    /// This process reading a process that it started.
    pub child: Result<(), Errno>,
    /// A process reading one that neither started it nor was started by it: what a peer is.
    pub sibling: Result<(), Errno>,
    /// The same after the target has consented (`PR_SET_PTRACER`); nothing if it was allowed anyway
    /// or consent cannot be given.
    pub consenting: Option<Result<(), Errno>>,
}

/// Tries. `worker` is the executable and the arguments that end up in [`main`].
///
/// # Errors
/// If the helpers do not start or do not answer.
pub fn attaching(worker: (&Path, &str)) -> Result<Attaching, Error> {
    let (mut reader, mut target) = (Helper::start(worker, None)?, Helper::start(worker, None)?);
    let Answer::Secret { address, value } = target.ask(Order::Show)? else { return Err(Error::failed("a helper answered something else")) };
    let pid = target.child.id() as i32;
    let mut bytes = [0; 8];
    let child = attach::read(pid, address, &mut bytes).and_then(|_| same(u64::from_ne_bytes(bytes), value));
    let by_sibling = |reader: &mut Helper| match reader.ask(Order::Read { pid, address })? {
        Answer::Bytes(read) => Ok(same(read, value)),
        Answer::Refused(errno) => Ok(Err(Errno::from_raw_os_error(errno))),
        _ => Err(Error::failed("a helper answered something else")),
    };
    let sibling = by_sibling(&mut reader)?;
    let consenting = match sibling {
        Err(_) if matches!(target.ask(Order::Consent)?, Answer::Done) => Some(by_sibling(&mut reader)?),
        _ => None,
    };
    Ok(Attaching { child, sibling, consenting })
}

fn same(read: u64, expected: u64) -> Result<(), Errno> {
    if read == expected { Ok(()) } else { Err(Errno::IO) }
}

struct Helper {
    child: Child,
    channel: Option<Channel>,
}

impl Helper {
    fn start((program, argument): (&Path, &str), cpu: Option<usize>) -> Result<Self, Error> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.arg(argument).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let child = pin::spawn_on(cpu, &mut command)?;
        drop(command); // closes our copy of the child's end, so that its death is noticed
        let helper = Helper { child, channel: Some(Channel::new(ours)) };
        helper.be_patient(PATIENCE)?;
        Ok(helper)
    }

    fn channel(&self) -> Result<&Channel, Error> {
        self.channel.as_ref().ok_or_else(|| Error::failed("the helper is gone"))
    }

    fn be_patient(&self, time: Duration) -> Result<(), Error> {
        self.channel()?.set_patience(Some(time))
    }

    fn tell(&mut self, order: &Order) -> Result<(), Error> {
        self.channel.as_mut().ok_or_else(|| Error::failed("the helper is gone"))?.send(order)
    }

    fn answer(&mut self) -> Result<Answer, Error> {
        let channel = self.channel.as_mut().ok_or_else(|| Error::failed("the helper is gone"))?;
        channel.receive()?.ok_or_else(|| Error::failed("a helper ended early"))
    }

    fn ask(&mut self, order: Order) -> Result<Answer, Error> {
        self.tell(&order)?;
        self.answer()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It ends by itself when its line closes; kill covers one that hangs.
        self.channel = None;
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
