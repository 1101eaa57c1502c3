// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of one point: started, told what to do, heard, ended by their own ids.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Options;
use super::protocol::{Answer, Ask, Counted, Role, Serving, now};
use crate::channel::Channel;
use crate::error::Error;
use crate::pin;

/// How long a process may take to answer, beside what it measures.
const PATIENCE: Duration = Duration::from_secs(40);
/// From the last client's being told to begin until replies count; more for each client, for they
/// are told one after the other and begin slowly.
const BEGIN: Duration = Duration::from_millis(150);
const BEGIN_EACH: Duration = Duration::from_millis(4);

struct Member {
    child: Child,
    channel: Channel,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Member {
    /// A process of `program`, which is the worker's, perhaps somewhere else.
    fn start(options: &Options, mut program: Command, role: Role) -> Result<Self, Error> {
        let (ours, theirs) = UnixStream::pair()?;
        program.args(&options.worker.1).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let is_server = matches!(role, Role::Server(_));
        program.envs(options.environment[usize::from(!is_server)].iter().map(|(name, value)| (name, value)));
        let cpus = if is_server { options.server_cpus() } else { options.client_cpus() };
        let child = pin::spawn_among(cpus, &mut program).map_err(|error| error.within(&options.worker.0.display().to_string()))?;
        let mut member = Self { child, channel: Channel::new(ours) };
        member.channel.set_patience(Some(PATIENCE + options.time))?;
        member.channel.send(&Ask::Be(role))?;
        Ok(member)
    }

    fn hear(&mut self) -> Result<Answer, Error> {
        match self.channel.receive::<Answer>()? {
            Some(Answer::Failed(why)) => Err(Error::failed(why)),
            Some(answer) => Ok(answer),
            None => Err(Error::failed("a process of the experiment ended")),
        }
    }
}

/// Measures one point.
pub(super) fn measure(options: &Options, serving: Serving, clients: usize) -> Result<Vec<Counted>, Error> {
    let program = || Command::new(&options.worker.0);
    let mut server = Member::start(options, program(), Role::Server(serving))?;
    let Answer::Names(names) = server.hear()? else { return Err(Error::failed("the server has no names")) };
    let role = Role::Client { window: options.window, bytes: options.bytes, answers: false };
    let crew = (0..clients).map(|_| Member::start(options, program(), role)).collect::<Result<Vec<_>, _>>()?;
    ask(options, crew, names.iter().cycle())
}

/// Measures processes each of which asks its partner, and answers.
pub(super) fn exchange(options: &Options, programs: Vec<Command>, partners: &[usize]) -> Result<Vec<Counted>, Error> {
    let role = Role::Client { window: options.window, bytes: options.bytes, answers: true };
    let mut crew = programs.into_iter().map(|program| Member::start(options, program, role)).collect::<Result<Vec<_>, _>>()?;
    let mut names = Vec::new();
    for member in &mut crew {
        member.channel.send(&Ask::Name)?;
        let Answer::Names(mut own) = member.hear()? else { return Err(Error::failed("a process has no name")) };
        names.append(&mut own);
    }
    ask(options, crew, partners.iter().filter_map(|partner| names.get(*partner)))
}

/// Has each client meet an endpoint, ask it, and count.
fn ask<'n>(options: &Options, mut crew: Vec<Member>, names: impl Iterator<Item = &'n Vec<u8>>) -> Result<Vec<Counted>, Error> {
    for (member, name) in crew.iter_mut().zip(names) {
        member.channel.send(&Ask::Meet(name.clone()))?;
    }
    for member in &mut crew {
        let Answer::Ready = member.hear()? else { return Err(Error::failed("a client is not ready")) };
    }
    let start = now() + (BEGIN + BEGIN_EACH * crew.len() as u32).as_nanos() as u64;
    for member in &mut crew {
        member.channel.send(&Ask::Run { start, end: start + options.time.as_nanos() as u64 })?;
    }
    let count = |member: &mut Member| match member.hear()? {
        Answer::Counted(counted) => Ok(counted),
        _ => Err(Error::failed("a client has counted nothing")),
    };
    crew.iter_mut().map(count).collect()
}
