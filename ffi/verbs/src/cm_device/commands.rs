// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of an event channel. A program may write any bytes: others than commands give the
//! kernel's errors.

use super::shapes::{self, In, Out};
use super::{CmFile, address, file_of, memory};
use crate::files::Errno;
use bellwire_cm::{Channel, Cm, Error, IdOption, QpKind, REJECTED_BY_CONSUMER, Space};
use bellwire_verbs::CmHost;
use core::ffi::c_int;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// A reason of a rejection that programs may give, besides their own.
const REJECTED_ECE: u32 = 35;
/// Options.
const LEVEL_ID: u32 = 0;
const LEVEL_IB: u32 = 1;
const OPTION_MAX: usize = 512;
/// Bytes of a path in an option.
const PATH: usize = 72;

type HostWire = bellwire_via::wire::host::HostWire;

fn errno(error: Error) -> Errno {
    Errno(match error {
        Error::Missing => libc::ENOENT,
        Error::InUse => libc::EADDRINUSE,
        Error::Full => libc::ENOMEM,
        Error::Unsupported => libc::EOPNOTSUPP,
        Error::Invalid => libc::EINVAL,
    })
}

/// A command, and where its answer goes.
struct Call<'a> {
    file: &'a CmFile,
    command: In<'a>,
    room: usize,
}

impl Call<'_> {
    /// Runs `f` on the machine.
    fn manage<R>(&self, f: impl FnOnce(&mut Cm, &mut CmHost<'_, HostWire>, Channel, u64) -> Result<R, Error>) -> Result<R, Errno> {
        let channel = self.file.channel;
        self.file.port.manage(|cm, host, now| f(cm, host, channel, now)).map_err(|_| Errno(libc::EIO))?.map_err(errno)
    }

    fn word(&self, at: usize) -> Result<u32, Errno> {
        self.command.word(at).map_err(errno)
    }

    fn double(&self, at: usize) -> Result<u64, Errno> {
        self.command.double(at).map_err(errno)
    }

    fn needs_room(&self, least: usize) -> Result<(), Errno> {
        if self.room < least { Err(Errno(libc::ENOSPC)) } else { Ok(()) }
    }

    /// Gives an answer, as much as there is room for, to where the command's double at `at` says.
    fn answer(&self, at: usize, out: &Out) -> Result<(), Errno> {
        memory::copy_out(&out.0[..out.0.len().min(self.room)], self.double(at)?)
    }

    fn answer_word(&self, at: usize, value: u32) -> Result<(), Errno> {
        memory::copy_out(&value.to_ne_bytes(), self.double(at)?)
    }

    fn address(&self, at: usize, length: usize) -> Result<SocketAddr, Errno> {
        address::parse(self.command.slice(at, length).map_err(errno)?).ok_or(Errno(libc::EAFNOSUPPORT))
    }
}

/// Runs a command; `length` is what the program wrote.
pub(super) fn run(file: &CmFile, fd: BorrowedFd<'_>, bytes: &[u8], length: usize) -> Result<(), Errno> {
    let head = In(bytes);
    let (code, given, room) = (head.word(0).map_err(errno)?, head.half(4).map_err(errno)?, head.half(6).map_err(errno)?);
    let given = usize::from(given);
    if given + shapes::HEAD > length {
        return Err(Errno(libc::EINVAL));
    }
    let end = bytes.len().min(given + shapes::HEAD);
    let call = Call { file, command: In(&bytes[shapes::HEAD..end]), room: usize::from(room) };
    match code {
        0 => create_id(&call),
        1 => destroy_id(&call),
        2 => bind(&call, call.word(36)?, call.address(8, 28)?),
        3 => resolve_address(&call, call.word(56)?, (0, 28), (28, 28)),
        4 => call.word(0).and_then(|id| call.manage(|cm, host, channel, _| cm.resolve_route(host, channel, id))),
        5 => query_route(&call),
        6 => connect(&call),
        7 => {
            let (id, backlog) = (call.word(0)?, call.word(4)?);
            call.manage(|cm, host, channel, _| cm.listen(host, channel, id, backlog))
        }
        8 => accept(&call),
        9 => reject(&call),
        10 => call.word(0).and_then(|id| call.manage(|cm, host, channel, now| cm.disconnect(host, channel, id, now))),
        11 => qp_attributes(&call),
        12 => get_event(&call, fd),
        // The kernel never had it.
        13 => Err(Errno(libc::ENOSYS)),
        14 => set_option(&call),
        15 => notify(&call),
        16 => join(&call, call.word(44)?, call.address(16, 28)?),
        17 => leave(&call),
        18 => migrate(&call),
        19 => query(&call),
        20 => bind(&call, call.word(0)?, call.address(8, 128)?),
        21 => resolve_address(&call, call.word(0)?, (16, 128), (144, 128)),
        22 => join(&call, call.word(16)?, call.address(24, 128)?),
        _ => Err(Errno(libc::EINVAL)),
    }
}

fn create_id(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(4)?;
    let uid = call.double(0)?;
    let space = Space::from_number(call.command.half(16).map_err(errno)?).ok_or(Errno(libc::EINVAL))?;
    let kind = match space {
        Space::Tcp => Some(QpKind::Reliable),
        Space::Udp | Space::IpoIb => Some(QpKind::Datagram),
        Space::Ib => QpKind::from_number(call.command.byte(18).map_err(errno)?),
    };
    let kind = kind.ok_or(Errno(libc::EINVAL))?;
    let id = call.manage(|cm, _, channel, _| cm.create_id(channel, uid, space, kind))?;
    call.answer_word(8, id).inspect_err(|_| {
        // Nobody can name it.
        let _ = call.manage(|cm, host, channel, _| cm.destroy_id(host, channel, id));
    })
}

fn destroy_id(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(4)?;
    let id = call.word(8)?;
    let reported = call.manage(|cm, host, channel, _| cm.destroy_id(host, channel, id))?;
    call.answer_word(0, reported)
}

fn bind(call: &Call<'_>, id: u32, at: SocketAddr) -> Result<(), Errno> {
    let own = call.file.port.gid();
    let is_any = at.ip().is_unspecified();
    if !is_any && !at.ip().is_multicast() && !address::is_local(&at, &own) {
        return Err(Errno(libc::EADDRNOTAVAIL));
    }
    // As the kernel has it: a port in use is not available to all addresses, and in use for one.
    let taken = |error: Errno| if is_any && error.0 == libc::EADDRINUSE { Errno(libc::EADDRNOTAVAIL) } else { error };
    call.manage(|cm, host, channel, _| cm.bind(host, channel, id, at, !is_any)).map_err(taken)
}

fn resolve_address(call: &Call<'_>, id: u32, source: (usize, usize), destination: (usize, usize)) -> Result<(), Errno> {
    let own = call.file.port.gid();
    let to = call.address(destination.0, destination.1)?;
    let source = call.command.slice(source.0, source.1).map_err(errno)?;
    let source = if address::is_none(source) { None } else { Some(address::parse(source).ok_or(Errno(libc::EAFNOSUPPORT))?) };
    if source.is_some_and(|s| s.is_ipv4() != to.is_ipv4() || (!s.ip().is_unspecified() && !address::is_local(&s, &own))) {
        return Err(Errno(libc::EINVAL));
    }
    let bound = call.manage(|cm, _, channel, _| cm.route(channel, id))?.source;
    let from = source.or(bound).map(|s| s.ip());
    let found = if to.ip().is_unspecified() {
        // The host itself.
        Ok((from.filter(|ip| !ip.is_unspecified()).unwrap_or(to.ip()), own))
    } else if to.ip().is_multicast() {
        // A host without a route for groups has the device's network.
        let from = address::towards(from, &to, &own).or_else(|e| address::of(&own, to.is_ipv4()).ok_or(e));
        from.map(|ip| (ip, address::gid(to.ip())))
    } else {
        let is_here = address::is_local(&to, &own);
        address::towards(from, &to, &own).map(|ip| (ip, if is_here { own } else { address::gid(to.ip()) }))
    };
    let elsewhere = address::gid(to.ip());
    call.manage(|cm, host, channel, _| {
        // Another process's device may have this address.
        let found = found.map(|(ip, gid)| (ip, if gid == own && elsewhere != own { device_with(cm, host, channel, id, elsewhere, to.port()) } else { gid }));
        if let Some(port) = source.map(|s| s.port()).filter(|_| bound.is_none()) {
            let ip = source.map_or(to.ip(), |s| s.ip());
            cm.bind(host, channel, id, SocketAddr::new(ip, port), false)?;
        }
        cm.resolve_address(host, channel, id, to, found)
    })
}

fn device_with(cm: &mut Cm, host: &mut CmHost<'_, HostWire>, channel: Channel, id: u32, other: [u8; 16], port: u16) -> [u8; 16] {
    match cm.space(channel, id) {
        Ok(space) => host.device_with(other, bellwire_cm::Service { space, port }),
        Err(_) => other,
    }
}

fn query_route(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(shapes::ROUTE_MIN)?;
    let id = call.word(8)?;
    let route = call.manage(|cm, _, channel, _| cm.route(channel, id))?;
    call.answer(0, &shapes::route(&route, call.file.own.guid().to_be(), call.file.own.index as u32))
}

fn query(call: &Call<'_>) -> Result<(), Errno> {
    let (id, option) = (call.word(8)?, call.word(12)?);
    call.needs_room(if option == 1 { shapes::PATHS_MIN } else { shapes::ADDRESS_MIN })?;
    let route = call.manage(|cm, _, channel, _| cm.route(channel, id))?;
    let out = match option {
        0 => shapes::addresses(&route, call.file.own.guid().to_be(), call.file.own.index as u32),
        1 => shapes::paths(&route),
        2 => shapes::gids(&route, call.file.own.guid().to_be(), call.file.own.index as u32),
        _ => return Err(Errno(libc::ENOSYS)),
    };
    call.answer(0, &out)
}

fn connect(call: &Call<'_>) -> Result<(), Errno> {
    let id = call.word(shapes::PARAM)?;
    let parameters = shapes::parameters(call.command, 0, shapes::PARAM + 8).map_err(errno)?.ok_or(Errno(libc::EINVAL))?;
    call.manage(|cm, host, channel, now| cm.connect(host, channel, id, parameters, now))
}

fn accept(call: &Call<'_>) -> Result<(), Errno> {
    let (uid, id) = (call.double(0)?, call.word(8 + shapes::PARAM)?);
    let parameters = shapes::parameters(call.command, 8, shapes::PARAM + 16).map_err(errno)?;
    call.manage(|cm, host, channel, now| cm.accept(host, channel, id, parameters.map(|p| (uid, p)), now))
}

fn reject(call: &Call<'_>) -> Result<(), Errno> {
    let (id, length, reason) = (call.word(0)?, call.command.byte(4).map_err(errno)?, call.command.byte(5).map_err(errno)?);
    let data = call.command.slice(8, usize::from(length)).map_err(errno)?;
    let reason = match u32::from(reason) {
        0 | REJECTED_BY_CONSUMER => REJECTED_BY_CONSUMER,
        REJECTED_ECE => REJECTED_ECE,
        _ => return Err(Errno(libc::EINVAL)),
    };
    call.manage(|cm, host, channel, _| cm.reject(host, channel, id, reason, data))
}

fn qp_attributes(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(shapes::QP_ATTRIBUTES)?;
    let (id, state) = (call.word(8)?, call.word(12)?);
    let attributes = call.manage(|cm, _, channel, _| cm.attributes(channel, id, state))?;
    call.answer(0, &shapes::qp_attributes(&attributes))
}

fn get_event(call: &Call<'_>, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    call.needs_room(shapes::EVENT_MIN)?;
    let (port, channel) = (&call.file.port, call.file.channel);
    loop {
        // The event stays where it is if the program's memory cannot take it.
        let given = port.manage(|cm, host, _| {
            let Some(event) = cm.next_event(channel) else { return Ok(false) };
            call.answer(0, &shapes::event(event))?;
            cm.take_event(host, channel);
            Ok(true)
        });
        if given.map_err(|_| Errno(libc::EIO))?? {
            return Ok(());
        }
        if rustix::fs::fcntl_getfl(fd).is_ok_and(|f| f.contains(rustix::fs::OFlags::NONBLOCK)) {
            return Err(Errno(libc::EAGAIN));
        }
        port.wait_for_event(channel, &call.file.bell).map_err(super::errno)?;
    }
}

fn set_option(call: &Call<'_>) -> Result<(), Errno> {
    let (from, id, level, name, length) = (call.double(0)?, call.word(8)?, call.word(12)?, call.word(16)?, call.word(20)? as usize);
    // The identifier is looked for first.
    call.manage(|cm, _, channel, _| cm.route(channel, id))?;
    if length > OPTION_MAX {
        return Err(Errno(libc::EINVAL));
    }
    let mut room = [0; OPTION_MAX];
    let value = &mut room[..length];
    memory::copy_in(value, from)?;
    let byte = || if length == 1 { Ok(value[0]) } else { Err(Errno(libc::EINVAL)) };
    let switch = || <[u8; 4]>::try_from(&*value).map(|v| v != [0; 4]).map_err(|_| Errno(libc::EINVAL));
    let option = match (level, name) {
        (LEVEL_ID, 0) => IdOption::Tos(byte()?),
        (LEVEL_ID, 1) => IdOption::ReuseAddress(switch()?),
        (LEVEL_ID, 2) => IdOption::FamilyOnly(switch()?),
        (LEVEL_ID, 3) => IdOption::AckTimeout(byte()?),
        // A path that the program brings is the one that there is.
        (LEVEL_IB, 1) if length != 0 && length.is_multiple_of(PATH) => return call.manage(|cm, host, channel, _| cm.resolve_route(host, channel, id)),
        (LEVEL_IB, 1) => return Err(Errno(libc::EINVAL)),
        _ => return Err(Errno(libc::ENOSYS)),
    };
    call.manage(|cm, _, channel, _| cm.set_option(channel, id, option))
}

fn notify(call: &Call<'_>) -> Result<(), Errno> {
    /// The first message of a connection came.
    const ESTABLISHED: u32 = 4;
    let (id, event) = (call.word(0)?, call.word(4)?);
    if event != ESTABLISHED {
        return Err(Errno(libc::EINVAL));
    }
    call.manage(|cm, host, channel, _| cm.notify(host, channel, id))
}

fn join(call: &Call<'_>, id: u32, to: SocketAddr) -> Result<(), Errno> {
    call.needs_room(4)?;
    let uid = call.double(8)?;
    if !to.ip().is_multicast() {
        return Err(Errno(libc::EINVAL));
    }
    let group = address::gid(to.ip());
    let joined = call.manage(|cm, host, channel, _| cm.join(host, channel, id, uid, group))?;
    call.answer_word(0, joined.number).inspect_err(|_| {
        // Nobody can name it.
        let _ = call.manage(|cm, host, channel, _| cm.leave(host, channel, joined.number));
    })
}

fn leave(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(4)?;
    let membership = call.word(8)?;
    let reported = call.manage(|cm, host, channel, _| cm.leave(host, channel, membership))?;
    call.answer_word(0, reported)
}

fn migrate(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(4)?;
    let (id, fd) = (call.word(8)?, call.word(12)? as c_int);
    let from = file_of(fd).filter(|f| std::sync::Arc::ptr_eq(&f.port, &call.file.port)).ok_or(Errno(libc::EBADF))?;
    let reported = call.manage(|cm, host, channel, _| cm.migrate(host, from.channel, id, channel))?;
    call.answer_word(0, reported)
}
