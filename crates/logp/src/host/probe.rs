// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two helper processes that try on each other what two user processes would: started from this executable under a hidden command, told what to do
//! over a socket pair, gone when it closes.
//!
//! Only siblings tell the truth: between parent and child Yama allows what it refuses to anybody else.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{PTracer, set_ptracer};
use serde::{Deserialize, Serialize};

use super::attach;
use crate::channel::Channel;
use crate::error::Error;

/// How long a helper may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a helper is told.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Order {
    /// Say where your secret is, and what it is.
    Show,
    /// Read eight bytes of another process.
    Read { pid: i32, address: u64 },
    /// Allow every process of this user to attach to you.
    Consent,
}

/// What it answers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Answer {
    Secret { address: u64, value: u64 },
    Bytes(u64),
    Done,
    Refused(i32),
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
            Order::Consent => set_ptracer(PTracer::Any).map_or_else(|errno| Answer::Refused(errno.raw_os_error()), |()| Answer::Done),
        };
        channel.send(&answer)?;
    }
    Ok(())
}

/// What attaching gave, in the three situations that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attaching {
    /// This process reading a process that it started.
    pub child: Result<(), Errno>,
    /// A process reading one that neither started it nor was started by it: what a peer is.
    pub sibling: Result<(), Errno>,
    /// The same after the target has consented (`PR_SET_PTRACER`); nothing if it was allowed anyway or consent cannot be given.
    pub consenting: Option<Result<(), Errno>>,
}

/// Tries. `worker` is the executable and the arguments that end up in [`main`].
///
/// # Errors
/// If the helpers do not start or do not answer.
pub fn attaching(worker: (&Path, &str)) -> Result<Attaching, Error> {
    let (mut reader, mut target) = (Helper::start(worker)?, Helper::start(worker)?);
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
    fn start((program, argument): (&Path, &str)) -> Result<Self, Error> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(program).arg(argument).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).spawn()?;
        let channel = Channel::new(ours);
        channel.set_patience(Some(PATIENCE))?;
        Ok(Helper { child, channel: Some(channel) })
    }

    fn ask(&mut self, order: Order) -> Result<Answer, Error> {
        let channel = self.channel.as_mut().ok_or_else(|| Error::failed("the helper is gone"))?;
        channel.send(&order)?;
        channel.receive()?.ok_or_else(|| Error::failed("a helper ended early"))
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
