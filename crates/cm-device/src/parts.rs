// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices of an event channel: on each that it needs it has a part, with events of its own,
//! which ring one bell. An identifier is of the device that has its address. One that is bound to
//! all addresses is on all devices, under one number.

use crate::shapes::Numbered;
use crate::{Device, Devices, Errno, Host, address, lock};
use bellwire_cm::{Channel, Cm, Error, IdOption, QpKind, Space};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_verbs::{Bell, CmHost, Gid, Port};
use core::ffi::c_int;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

type HostWire = bellwire_via::wire::host::HostWire;

/// How long a thread that waits for an event looks itself.
const SPIN: Duration = Duration::from_micros(40);
/// Numbers that are tried for an identifier, and ports for one on all devices.
const TRIES: u32 = 1000;
const PORT_TRIES: u32 = 16;
/// The device of identifiers without an address.
const FIRST: usize = 0;

/// The ports on which the channels of this process are managed, by device, while there are some.
#[derive(Default)]
pub(crate) struct Ports(Mutex<BTreeMap<usize, Weak<Port>>>);

/// An event channel's part on a device.
#[derive(Clone)]
pub(super) struct Part {
    pub device: &'static dyn Device,
    /// The device's number.
    pub index: usize,
    pub port: Arc<Port>,
    pub channel: Channel,
}

/// An event channel.
pub(crate) struct CmFile {
    host: Arc<Host>,
    bell: Arc<Bell>,
    /// By device.
    parts: Mutex<BTreeMap<usize, Part>>,
    /// The devices of identifiers that are not where their numbers say.
    moved: Mutex<BTreeMap<u32, Vec<usize>>>,
}

pub(super) fn error(error: Error) -> Errno {
    Errno(match error {
        Error::Missing => libc::ENOENT,
        Error::InUse => libc::EADDRINUSE,
        Error::Full => libc::ENOMEM,
        Error::Unsupported => libc::EOPNOTSUPP,
        Error::Invalid => libc::EINVAL,
    })
}

impl Ports {
    fn port(&self, device: &'static dyn Device, index: usize) -> Result<Arc<Port>, Errno> {
        let mut ports = lock(&self.0);
        // After a fork the parent's device is of no use.
        if let Some(port) = ports.get(&index).and_then(Weak::upgrade).filter(|port| port.is_ours()) {
            return Ok(port);
        }
        let port = device.open_port()?;
        ports.insert(index, Arc::downgrade(&port));
        Ok(port)
    }
}

impl Part {
    pub fn numbered(&self) -> Numbered<'_> {
        (self.device, self.index as u32)
    }

    /// Runs `f` on the device's machine.
    pub fn manage<R>(&self, f: impl FnOnce(&mut Cm, &mut CmHost<'_, HostWire>, Channel, u64) -> Result<R, Error>) -> Result<R, Errno> {
        let channel = self.channel;
        self.port.manage(|cm, host, now| f(cm, host, channel, now)).map_err(|_| Errno(libc::EIO))?.map_err(error)
    }
}

impl CmFile {
    pub fn new(host: Arc<Host>, bell: Bell) -> Result<Self, Errno> {
        let file = Self { host, bell: Arc::new(bell), parts: Mutex::default(), moved: Mutex::default() };
        // Another one may be there if the first is removed; then its identifiers have no device.
        file.part(FIRST)?;
        Ok(file)
    }

    pub fn devices(&self) -> &'static dyn Devices {
        self.host.devices
    }

    /// The number of the device that has an address.
    pub fn device_at(&self, ip: IpAddr) -> Option<usize> {
        self.devices().at(&address::gid(ip))
    }

    /// The GIDs of the devices that are there.
    pub fn gids(&self) -> Vec<Gid> {
        self.devices().present().map(|(_, device)| device.gid()).collect()
    }

    /// The file behind a descriptor.
    pub fn file_of(&self, fd: c_int) -> Option<Arc<Self>> {
        self.host.file_of(fd)
    }

    /// The part on a device, which begins with the first call.
    pub fn part(&self, index: usize) -> Result<Part, Errno> {
        let mut parts = lock(&self.parts);
        if let Some(part) = parts.get(&index) {
            return Ok(part.clone());
        }
        let device = self.devices().device(index).ok_or(Errno(libc::ENODEV))?;
        let port = self.host.ports.port(device, index)?;
        let channel = port.manage(|cm, host, _| {
            cm.choose_numbers(index as u8 + 1);
            let channel = cm.create_channel();
            host.attach(channel, Arc::clone(&self.bell));
            channel
        });
        let part = Part { device, index, port, channel: channel.map_err(|_| Errno(libc::EIO))? };
        parts.insert(index, part.clone());
        Ok(part)
    }

    fn parts(&self) -> Vec<Part> {
        lock(&self.parts).values().cloned().collect()
    }

    /// The devices of an identifier or a membership; there is one at least.
    fn devices_of(&self, number: u32) -> Vec<usize> {
        match (lock(&self.moved).get(&number), Cm::range_of(number)) {
            (Some(devices), _) => devices.clone(),
            (None, 0) => vec![FIRST],
            (None, range) => vec![usize::from(range) - 1],
        }
    }

    /// The part that answers for an identifier.
    pub fn part_of(&self, number: u32) -> Result<Part, Errno> {
        let devices = self.devices_of(number);
        let index = devices.first().copied().unwrap_or(FIRST);
        // A number that the program made up begins no part.
        lock(&self.parts).get(&index).cloned().ok_or(Errno(libc::ENOENT))
    }

    /// All parts that have an identifier.
    pub fn parts_of(&self, number: u32) -> Result<Vec<Part>, Errno> {
        let parts = lock(&self.parts);
        self.devices_of(number).iter().map(|index| parts.get(index).cloned().ok_or(Errno(libc::ENOENT))).collect()
    }

    // ---- identifiers

    /// Makes an identifier on the first device.
    pub fn create_id(&self, uid: u64, space: Space, kind: QpKind) -> Result<u32, Errno> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let part = self.part(FIRST)?;
        for _ in 0..TRIES {
            // Relaxed: a number that nobody else draws; the machine knows whether it is free.
            let number = NEXT.fetch_add(1, Ordering::Relaxed) & 0xff_ffff;
            if number == 0 || lock(&self.moved).contains_key(&number) {
                continue;
            }
            match part.manage(|cm, _, channel, _| Ok(cm.create_id_as(number, channel, uid, space, kind)))? {
                Ok(()) => return Ok(number),
                Err(Error::InUse) => {}
                Err(e) => return Err(error(e)),
            }
        }
        Err(Errno(libc::ENOMEM))
    }

    /// Ends an identifier wherever it is; how many events of it the program was given.
    pub fn destroy_id(&self, number: u32) -> Result<u32, Errno> {
        let mut reported = Err(Errno(libc::ENOENT));
        for part in self.parts_of(number)? {
            let told = part.manage(|cm, host, channel, _| cm.destroy_id(host, channel, number));
            reported = match (reported, told) {
                (Ok(sum), Ok(told)) => Ok(sum + told),
                (Ok(sum), Err(_)) => Ok(sum),
                (Err(_), told) => told,
            };
        }
        if reported.is_ok() {
            lock(&self.moved).remove(&number);
        }
        reported
    }

    /// Sets an option, wherever the identifier is.
    pub fn set_option(&self, number: u32, option: IdOption) -> Result<(), Errno> {
        self.parts_of(number)?.iter().try_for_each(|part| part.manage(|cm, _, channel, _| cm.set_option(channel, number, option)))
    }

    /// Moves an identifier that has no address yet to a device; one that has stays. Whether it is
    /// there.
    pub fn move_to(&self, number: u32, index: usize) -> Result<bool, Errno> {
        let now = self.part_of(number)?;
        if now.index == index {
            return Ok(true);
        }
        let Ok(copy) = now.manage(|cm, _, channel, _| cm.copy_unbound(channel, number)) else { return Ok(false) };
        let there = self.part(index)?;
        there.manage(|cm, _, channel, _| cm.put_unbound(channel, number, copy))?;
        let _ = now.manage(|cm, host, channel, _| cm.destroy_id(host, channel, number));
        lock(&self.moved).insert(number, vec![index]);
        Ok(true)
    }

    /// Binds an identifier to a port of all addresses, on all devices.
    pub fn bind_everywhere(&self, number: u32, at: SocketAddr) -> Result<(), Errno> {
        let first = self.part_of(number)?;
        let others: Vec<usize> = self.devices().present().map(|(index, _)| index).filter(|index| *index != first.index).collect();
        let copy = first.manage(|cm, _, channel, _| cm.copy_unbound(channel, number));
        let (Ok(copy), false) = (copy, others.is_empty()) else {
            return first.manage(|cm, host, channel, _| cm.bind(host, channel, number, at, false));
        };
        for tries in 1.. {
            let port = first.manage(|cm, host, channel, _| {
                cm.bind(host, channel, number, at, false)?;
                cm.route(channel, number)
            })?;
            let there = port.source.unwrap_or(at);
            // A device that cannot be opened is not listened on; that has been printed.
            let parts: Vec<Part> = others.iter().filter_map(|index| self.part(*index).ok()).collect();
            let bound = parts.iter().try_for_each(|part| {
                part.manage(|cm, host, channel, _| {
                    cm.put_unbound(channel, number, copy.clone())?;
                    cm.bind(host, channel, number, there, false)
                })
            });
            let Err(why) = bound else {
                let all = core::iter::once(first.index).chain(parts.iter().map(|part| part.index));
                lock(&self.moved).insert(number, all.collect());
                return Ok(());
            };
            for part in parts.iter().chain([&first]) {
                let _ = part.manage(|cm, host, channel, _| cm.destroy_id(host, channel, number));
            }
            first.manage(|cm, _, channel, _| cm.put_unbound(channel, number, copy.clone()))?;
            if at.port() != 0 || tries == PORT_TRIES {
                return Err(why);
            }
        }
        Ok(())
    }

    /// Leaves an identifier that is on all devices on one of them.
    pub fn settle(&self, number: u32, index: usize) {
        let Ok(parts) = self.parts_of(number) else { return };
        if parts.len() < 2 || parts.iter().all(|part| part.index != index) {
            return;
        }
        for part in parts.iter().filter(|part| part.index != index) {
            let _ = part.manage(|cm, host, channel, _| cm.destroy_id(host, channel, number));
        }
        lock(&self.moved).insert(number, vec![index]);
    }

    /// Moves an identifier here from another file; how many events of it the program was given.
    pub fn take_over(&self, from: &Self, number: u32) -> Result<u32, Errno> {
        let mut reported = 0;
        for part in from.parts_of(number)? {
            let here = self.part(part.index)?;
            if !Arc::ptr_eq(&here.port, &part.port) {
                return Err(Errno(libc::EBADF));
            }
            reported += part.manage(|cm, host, channel, _| cm.migrate(host, channel, number, here.channel))?;
        }
        let devices = lock(&from.moved).remove(&number);
        if let Some(devices) = devices {
            lock(&self.moved).insert(number, devices);
        }
        Ok(reported)
    }

    // ---- events

    /// Gives the next event to `give`, if there is one; it stays where it is if that fails.
    pub fn take_event(&self, give: impl Fn(&bellwire_cm::Event) -> Result<(), Errno>) -> Result<bool, Errno> {
        for part in self.parts() {
            let channel = part.channel;
            let given = part.port.manage(|cm, host, _| {
                let Some(event) = cm.next_event(channel) else { return Ok(false) };
                give(event)?;
                cm.take_event(host, channel);
                Ok(true)
            });
            if given.map_err(|_| Errno(libc::EIO))?? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has the helpers see to what comes while the program does not look.
    pub fn arm(&self) {
        for part in self.parts() {
            // In the child of a fork nothing comes.
            let _ = part.port.arm_for_event(part.channel);
        }
    }

    /// Waits until there may be an event: moves everything for a moment, then sleeps, while the
    /// helpers do.
    pub fn wait(&self) -> Result<(), Errno> {
        let end = Instant::now() + SPIN;
        let lost = |_| Errno(libc::EIO);
        self.parts().iter().for_each(|part| part.port.expect_event());
        loop {
            let parts = self.parts();
            for part in &parts {
                if part.port.look_for_event(part.channel).map_err(lost)? {
                    return Ok(());
                }
            }
            if Instant::now() >= end {
                parts.iter().try_for_each(|part| part.port.arm_for_event(part.channel).map_err(lost))?;
                return self.bell.sleep().map_err(crate::errno);
            }
        }
    }
}

impl Drop for CmFile {
    fn drop(&mut self) {
        for part in self.parts() {
            let _ = part.port.manage(|cm, host, _| {
                cm.destroy_channel(host, part.channel);
                host.detach(part.channel);
            });
        }
    }
}
