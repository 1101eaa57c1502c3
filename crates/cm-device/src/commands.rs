// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of an event channel. A program may write any bytes: others than commands give the
//! kernel's errors.

use crate::parts::{CmFile, error as errno};
use crate::shapes::{self, In, Out};
use crate::{Errno, address, memory, ways};
use bellwire_cm::{Channel, Cm, Error, IdOption, QpKind, REJECTED_BY_CONSUMER, Service, Space};
use bellwire_verbs::CmHost;
use core::ffi::c_int;
use std::net::{Ipv4Addr, SocketAddr};
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

/// A command, and where its answer goes.
struct Call<'a> {
    file: &'a CmFile,
    command: In<'a>,
    room: usize,
}

impl Call<'_> {
    /// Runs `f` on the machine that has an identifier or a membership.
    fn manage<R>(&self, id: u32, f: impl FnOnce(&mut Cm, &mut CmHost<'_, HostWire>, Channel, u64) -> Result<R, Error>) -> Result<R, Errno> {
        self.file.part_of(id)?.manage(f)
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
    obey(&call, code, fd)?;
    // The next step may be this process's own, or a peer's answer. Nobody looks for either while
    // the program sleeps on the descriptor.
    if matches!(code, 1 | 6..=10) {
        call.file.arm();
    }
    Ok(())
}

fn obey(call: &Call<'_>, code: u32, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    match code {
        0 => create_id(call),
        1 => destroy_id(call),
        2 => bind(call, call.word(36)?, call.address(8, 28)?),
        3 => resolve_address(call, call.word(56)?, (0, 28), (28, 28)),
        4 => call.word(0).and_then(|id| call.manage(id, |cm, host, channel, _| cm.resolve_route(host, channel, id))),
        5 => query_route(call),
        6 => connect(call),
        7 => listen(call),
        8 => accept(call),
        9 => reject(call),
        10 => call.word(0).and_then(|id| call.manage(id, |cm, host, channel, now| cm.disconnect(host, channel, id, now))),
        11 => qp_attributes(call),
        12 => get_event(call, fd),
        // The kernel never had it.
        13 => Err(Errno(libc::ENOSYS)),
        14 => set_option(call),
        15 => notify(call),
        16 => join(call, call.word(44)?, call.address(16, 28)?),
        17 => leave(call),
        18 => migrate(call),
        19 => query(call),
        20 => bind(call, call.word(0)?, call.address(8, 128)?),
        21 => resolve_address(call, call.word(0)?, (16, 128), (144, 128)),
        22 => join(call, call.word(16)?, call.address(24, 128)?),
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
    let id = call.file.create_id(uid, space, kind)?;
    call.answer_word(8, id).inspect_err(|_| {
        // Nobody can name it.
        let _ = call.file.destroy_id(id);
    })
}

fn destroy_id(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(4)?;
    let reported = call.file.destroy_id(call.word(8)?)?;
    call.answer_word(0, reported)
}

/// An address is its device's, or the first device's, if it is another one of the host.
fn bind(call: &Call<'_>, id: u32, at: SocketAddr) -> Result<(), Errno> {
    if at.ip().is_unspecified() {
        // As the kernel has it: a port in use is not available to all addresses, and in use for
        // one.
        let taken = |error: Errno| if error.0 == libc::EADDRINUSE { Errno(libc::EADDRNOTAVAIL) } else { error };
        return call.file.bind_everywhere(id, at).map_err(taken);
    }
    let device = call.file.device_at(at.ip());
    if device.is_none() && !at.ip().is_multicast() && !ways::is_local(call.file.devices(), &at) {
        return Err(Errno(libc::EADDRNOTAVAIL));
    }
    if let Some(device) = device {
        call.file.move_to(id, device)?;
    }
    call.manage(id, |cm, host, channel, _| cm.bind(host, channel, id, at, true))
}

fn listen(call: &Call<'_>) -> Result<(), Errno> {
    let (id, backlog) = (call.word(0)?, call.word(4)?);
    if call.manage(id, |cm, _, channel, _| cm.route(channel, id))?.source.is_none() {
        call.file.bind_everywhere(id, (Ipv4Addr::UNSPECIFIED, 0).into())?;
    }
    call.file.parts_of(id)?.iter().try_for_each(|part| part.manage(|cm, host, channel, _| cm.listen(host, channel, id, backlog)))
}

fn resolve_address(call: &Call<'_>, id: u32, source: (usize, usize), destination: (usize, usize)) -> Result<(), Errno> {
    let to = call.address(destination.0, destination.1)?;
    let source = call.command.slice(source.0, source.1).map_err(errno)?;
    let source = if address::is_none(source) { None } else { Some(address::parse(source).ok_or(Errno(libc::EAFNOSUPPORT))?) };
    if source.is_some_and(|s| s.is_ipv4() != to.is_ipv4() || (!s.ip().is_unspecified() && !ways::is_local(call.file.devices(), &s))) {
        return Err(Errno(libc::EINVAL));
    }
    let bound = call.manage(id, |cm, _, channel, _| cm.route(channel, id))?.source;
    let from = source.or(bound).map(|s| s.ip()).filter(|ip| !ip.is_unspecified());
    // The host itself needs no way.
    let way = if to.ip().is_unspecified() { Ok(from.unwrap_or(to.ip())) } else { ways::towards(call.file.devices(), from, &to) };
    // The device of the address towards the peer, if the identifier has no other one.
    let by_way = from.or(way.ok()).and_then(|ip| call.file.device_at(ip));
    let is_free = bound.is_none_or(|b| b.ip().is_unspecified());
    if let (Some(device), true) = (by_way, is_free) {
        call.file.move_to(id, device)?;
        call.file.settle(id, device);
    }
    let part = call.file.part_of(id)?;
    call.file.settle(id, part.index);
    let own = part.device.gid();
    let found = if to.ip().is_unspecified() {
        way.map(|ip| (ip, own))
    } else if to.ip().is_multicast() {
        // A host without a route for groups has the device's network.
        let from = way.or_else(|e| address::of(&own, to.is_ipv4()).ok_or(e));
        from.map(|ip| (ip, address::gid(to.ip())))
    } else {
        let elsewhere = address::gid(to.ip());
        let is_here = ways::is_local(call.file.devices(), &to) && call.file.device_at(to.ip()).is_none();
        way.map(|ip| (ip, if is_here { own } else { elsewhere }))
    };
    part.manage(|cm, host, channel, _| {
        // The address may be that of another process's device, or one that another device of this
        // host listens for.
        let elsewhere = address::gid(to.ip());
        let space = cm.space(channel, id)?;
        let found = found.map(|(ip, gid)| {
            if gid != own || elsewhere == own {
                return (ip, gid);
            }
            let near = [vec![elsewhere, own], call.file.gids()].concat();
            (ip, host.device_with(&near, Service { space, port: to.port() }).unwrap_or(own))
        });
        if let Some(port) = source.map(|s| s.port()).filter(|_| bound.is_none()) {
            let ip = source.map_or(to.ip(), |s| s.ip());
            cm.bind(host, channel, id, SocketAddr::new(ip, port), false)?;
        }
        cm.resolve_address(host, channel, id, to, found)
    })
}

fn query_route(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(shapes::ROUTE_MIN)?;
    let id = call.word(8)?;
    let part = call.file.part_of(id)?;
    let route = part.manage(|cm, _, channel, _| cm.route(channel, id))?;
    call.answer(0, &shapes::route(&route, part.numbered()))
}

fn query(call: &Call<'_>) -> Result<(), Errno> {
    let (id, option) = (call.word(8)?, call.word(12)?);
    call.needs_room(if option == 1 { shapes::PATHS_MIN } else { shapes::ADDRESS_MIN })?;
    let part = call.file.part_of(id)?;
    let route = part.manage(|cm, _, channel, _| cm.route(channel, id))?;
    let out = match option {
        0 => shapes::addresses(&route, part.numbered()),
        1 => shapes::paths(&route, part.device),
        2 => shapes::gids(&route, part.numbered()),
        _ => return Err(Errno(libc::ENOSYS)),
    };
    call.answer(0, &out)
}

fn connect(call: &Call<'_>) -> Result<(), Errno> {
    let id = call.word(shapes::PARAM)?;
    let parameters = shapes::parameters(call.command, 0, shapes::PARAM + 8).map_err(errno)?.ok_or(Errno(libc::EINVAL))?;
    call.manage(id, |cm, host, channel, now| cm.connect(host, channel, id, parameters, now))
}

fn accept(call: &Call<'_>) -> Result<(), Errno> {
    let (uid, id) = (call.double(0)?, call.word(8 + shapes::PARAM)?);
    let parameters = shapes::parameters(call.command, 8, shapes::PARAM + 16).map_err(errno)?;
    call.manage(id, |cm, host, channel, now| cm.accept(host, channel, id, parameters.map(|p| (uid, p)), now))
}

fn reject(call: &Call<'_>) -> Result<(), Errno> {
    let (id, length, reason) = (call.word(0)?, call.command.byte(4).map_err(errno)?, call.command.byte(5).map_err(errno)?);
    let data = call.command.slice(8, usize::from(length)).map_err(errno)?;
    let reason = match u32::from(reason) {
        0 | REJECTED_BY_CONSUMER => REJECTED_BY_CONSUMER,
        REJECTED_ECE => REJECTED_ECE,
        _ => return Err(Errno(libc::EINVAL)),
    };
    call.manage(id, |cm, host, channel, _| cm.reject(host, channel, id, reason, data))
}

fn qp_attributes(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(shapes::QP_ATTRIBUTES)?;
    let (id, state) = (call.word(8)?, call.word(12)?);
    let part = call.file.part_of(id)?;
    let mut attributes = part.manage(|cm, _, channel, _| cm.attributes(channel, id, state))?;
    // The device takes no more than its own.
    attributes.mtu = attributes.mtu.min(part.device.mtu_code());
    call.answer(0, &shapes::qp_attributes(&attributes))
}

fn get_event(call: &Call<'_>, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    call.needs_room(shapes::EVENT_MIN)?;
    loop {
        // The event stays where it is if the program's memory cannot take it.
        if call.file.take_event(|event| call.answer(0, &shapes::event(event)))? {
            return Ok(());
        }
        if rustix::fs::fcntl_getfl(fd).is_ok_and(|f| f.contains(rustix::fs::OFlags::NONBLOCK)) {
            return Err(Errno(libc::EAGAIN));
        }
        call.file.wait()?;
    }
}

fn set_option(call: &Call<'_>) -> Result<(), Errno> {
    let (from, id, level, name, length) = (call.double(0)?, call.word(8)?, call.word(12)?, call.word(16)?, call.word(20)? as usize);
    // The identifier is looked for first.
    call.manage(id, |cm, _, channel, _| cm.route(channel, id))?;
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
        (LEVEL_IB, 1) if length != 0 && length.is_multiple_of(PATH) => return call.manage(id, |cm, host, channel, _| cm.resolve_route(host, channel, id)),
        (LEVEL_IB, 1) => return Err(Errno(libc::EINVAL)),
        _ => return Err(Errno(libc::ENOSYS)),
    };
    call.file.set_option(id, option)
}

fn notify(call: &Call<'_>) -> Result<(), Errno> {
    /// The first message of a connection came.
    const ESTABLISHED: u32 = 4;
    let (id, event) = (call.word(0)?, call.word(4)?);
    if event != ESTABLISHED {
        return Err(Errno(libc::EINVAL));
    }
    call.manage(id, |cm, host, channel, _| cm.notify(host, channel, id))
}

fn join(call: &Call<'_>, id: u32, to: SocketAddr) -> Result<(), Errno> {
    call.needs_room(4)?;
    let uid = call.double(8)?;
    if !to.ip().is_multicast() {
        return Err(Errno(libc::EINVAL));
    }
    let group = address::gid(to.ip());
    let joined = call.manage(id, |cm, host, channel, _| cm.join(host, channel, id, uid, group))?;
    call.answer_word(0, joined.number).inspect_err(|_| {
        // Nobody can name it.
        let _ = call.manage(joined.number, |cm, host, channel, _| cm.leave(host, channel, joined.number));
    })
}

fn leave(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(4)?;
    let membership = call.word(8)?;
    let reported = call.manage(membership, |cm, host, channel, _| cm.leave(host, channel, membership))?;
    call.answer_word(0, reported)
}

fn migrate(call: &Call<'_>) -> Result<(), Errno> {
    call.needs_room(4)?;
    let (id, fd) = (call.word(8)?, call.word(12)? as c_int);
    let from = call.file.file_of(fd).ok_or(Errno(libc::EBADF))?;
    let reported = call.file.take_over(&from, id)?;
    call.answer_word(0, reported)
}
