// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of a program to the device file of connection management, on two devices with real
//! NICs: any bytes, lengths and addresses of memory, between three open files.
//!
//! Asserted besides: a command is taken whole or fails with an error's number, no byte changes
//! behind the room that a command gives for its answer, and no identifier is left when the files
//! are closed.

use crate::input::Input;
use bellwire_cm_device::{Device, DeviceFile, Devices, Errno, OpenFile, RdmaCm};
use bellwire_verbs::{Gid, Port};
use bellwire_via::nic::NicConfig;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

const STEPS_MAX: usize = 200;
/// How long, and how often, a run waits for an event.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
const WAITS_MAX: u32 = 12;
const FILES: usize = 3;
const PAGE: usize = 4096;
/// The last error's number.
const ERRNO_MAX: i32 = 133;
const CANARY: u8 = 0xa5;
/// Bytes of the commands, by their numbers.
const LENGTHS: [usize; 23] = [24, 16, 40, 64, 8, 16, 288, 8, 296, 264, 8, 16, 8, 16, 24, 8, 48, 16, 16, 16, 136, 272, 152];
const CREATE: u8 = 0;
/// It begins with an address of the network.
const RESOLVE: usize = 3;
const GET_EVENT: u8 = 12;
/// Room for answers.
const ROOMS: [u16; 8] = [0, 4, 136, 200, 204, 272, 312, 1000];
/// Where a command has the identifier that it is of.
const IDS: [usize; 23] = [4, 8, 36, 56, 0, 8, 272, 0, 280, 0, 0, 8, 4, 4, 8, 0, 44, 8, 8, 8, 0, 0, 16];
/// Where it has addresses of the network.
const ADDRESSES: [&[usize]; 23] =
    [&[], &[], &[8], &[0, 28], &[], &[], &[], &[], &[], &[], &[], &[], &[], &[], &[], &[], &[16], &[], &[], &[], &[8], &[16, 144], &[24]];

struct Own {
    port: Arc<Port>,
    address: [u8; 4],
}

impl Device for Own {
    fn gid(&self) -> Gid {
        self.port.gid()
    }

    fn guid(&self) -> u64 {
        u64::from(self.address[3])
    }

    fn mtu_code(&self) -> u8 {
        3
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn open_port(&'static self) -> Result<Arc<Port>, Errno> {
        Ok(Arc::clone(&self.port))
    }
}

/// What the runs have in common: NICs are opened once.
struct Machine {
    devices: [Own; 2],
    cm: OnceLock<RdmaCm>,
    /// A page for answers, and one behind it that nobody may touch.
    page: usize,
}

impl Devices for Machine {
    fn device(&self, index: usize) -> Option<&'static dyn Device> {
        machine().devices.get(index).map(|own| own as &dyn Device)
    }
}

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        // Addresses of the loopback interface that no other process has.
        let process = std::process::id();
        let open = |last: u8| {
            let address = [127, 64 | (process >> 16) as u8 & 63, (process >> 8) as u8, process as u8 & 0xf8 | last];
            let config = NicConfig { host: address.to_vec(), udp: None, ..NicConfig::default() };
            Own { port: Arc::new(Port::open(config, None).expect("a NIC")), address }
        };
        // SAFETY: new mappings, the second over the second page of the first.
        let page = unsafe {
            let pages = mmap_anonymous(core::ptr::null_mut(), 2 * PAGE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE).expect("two pages");
            mmap_anonymous(pages.byte_add(PAGE), PAGE, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::FIXED).expect("a page that nobody may touch");
            pages.expose_provenance()
        };
        Machine { devices: [open(1), open(2)], cm: OnceLock::new(), page }
    })
}

/// The page for answers, as bytes.
fn page() -> &'static mut [u8] {
    let at = core::ptr::with_exposed_provenance_mut::<u8>(machine().page);
    // SAFETY: the page of `machine`, which is mapped for good. A caller has one reference at a time,
    // and none while the device writes the page.
    unsafe { core::slice::from_raw_parts_mut(at, PAGE) }
}

struct World {
    files: Vec<(OwnedFd, Arc<dyn OpenFile>)>,
    ids: Vec<u32>,
    /// Times that the program has waited.
    waits: u32,
}

impl World {
    /// An address for an answer: mostly one with room.
    fn memory(input: &mut Input<'_>) -> u64 {
        let page = machine().page as u64;
        match input.u8() {
            0 => 0,
            1 => u64::MAX - 3,
            2 => page + PAGE as u64,
            3 => 1 << 63 | page,
            // The page ends within.
            n @ 4..32 => page + PAGE as u64 - u64::from(n),
            _ => page,
        }
    }

    fn id(&self, input: &mut Input<'_>) -> u32 {
        match input.u8() {
            255 => input.u32(),
            n if self.ids.is_empty() => u32::from(n),
            n => self.ids[usize::from(n) % self.ids.len()],
        }
    }

    fn address(input: &mut Input<'_>) -> [u8; 28] {
        let kind = input.u8();
        let port = u16::from(input.u8() % 8).to_be_bytes();
        let mut out = [0; 28];
        out[0] = 2;
        out[2..4].copy_from_slice(&port);
        let machine = machine();
        match kind % 8 {
            0 | 1 => out[4..8].copy_from_slice(&machine.devices[0].address),
            2 | 3 => out[4..8].copy_from_slice(&machine.devices[1].address),
            4 => {}
            5 => out[4..8].copy_from_slice(&[239, 1, 2, port[1]]),
            6 => {
                out[0] = 10;
                out[23] = 1;
            }
            _ => out = core::array::from_fn(|_| input.u8()),
        }
        out
    }

    /// A command that is near a right one.
    fn command(&self, input: &mut Input<'_>) -> Vec<u8> {
        let code = input.u8();
        let known = usize::from(code) % LENGTHS.len();
        let flags = input.u8();
        let length = if flags & 7 == 7 { usize::from(input.u16() % 600) } else { LENGTHS[known] };
        let mut body: Vec<u8> = if flags & 8 == 0 { vec![0; length] } else { (0..length).map(|_| input.u8()).collect() };
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = body.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        if flags & 16 == 0 {
            for at in ADDRESSES[known] {
                let bytes = Self::address(input);
                put(*at, &bytes);
            }
            put(IDS[known], &self.id(input).to_ne_bytes());
        }
        match known {
            0 => put(16, &[[0x06, 0x11, 0x3f, 0x02][usize::from(input.u8() & 3)], 1, 2, 0]),
            // The state of a queue pair, or what a query asks for.
            11 | 19 => put(12, &[input.u8() & 7]),
            // There are parameters.
            6 if flags & 16 == 0 => put(271, &[1]),
            8 if flags & 16 == 0 => put(279, &[1]),
            14 => put(12, &[0, 0, 0, 0, input.u8() & 7, 0, 0, 0, input.u8() & 7, 0, 0, 0]),
            18 => put(12, &self.files[usize::from(input.u8()) % FILES].0.as_raw_fd().to_ne_bytes()),
            _ => {}
        }
        // Where the answer goes is never left to chance: it might be memory of this program.
        if known != RESOLVE {
            put(0, &Self::memory(input).to_ne_bytes());
        }
        if known == usize::from(CREATE) {
            put(8, &Self::memory(input).to_ne_bytes());
        }
        // Those that have no answer begin with an address or an identifier.
        if matches!(known, 4 | 7 | 9 | 10 | 15 | 20 | 21) {
            put(0, &self.id(input).to_ne_bytes());
        }
        let given = if flags & 0x60 == 0x60 { input.u16() } else { body.len() as u16 };
        let room = match flags & 0x80 {
            0 => 400,
            // Around the sizes of answers of programs of before and of now.
            _ => ROOMS[usize::from(input.u8()) % ROOMS.len()] + u16::from(input.u8() & 7),
        };
        let mut whole = u32::from(if code < 32 { code } else { known as u8 }).to_ne_bytes().to_vec();
        whole.extend(given.to_ne_bytes());
        whole.extend(room.to_ne_bytes());
        whole.extend(body);
        whole
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (fd, file) = &self.files[usize::from(input.u8()) % FILES];
        let command = self.command(input);
        let room = usize::from(u16::from_ne_bytes([command[6], command[7]]));
        if command[0] == GET_EVENT && command.len() > 8 && self.waits < WAITS_MAX && input.u8() & 1 != 0 {
            // As programs do. The devices' threads bring what is to come.
            self.waits += 1;
            let _ = poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&WAIT));
        }
        page().fill(CANARY);
        // SAFETY: the bytes of a vector.
        match unsafe { file.write(fd.as_fd(), command.as_ptr().cast(), command.len()) } {
            Ok(n) => assert_eq!(n, command.len(), "a command is taken whole"),
            Err(Errno(e)) => assert!(0 < e && e <= ERRNO_MAX, "{e} is no error's number"),
        }
        let page = page();
        // Answers go to the beginning of the page, or to its end.
        if room < PAGE - 32 {
            assert!(page[room..PAGE - 32].iter().all(|b| *b == CANARY), "an answer is longer than its room");
        }
        if command[0] == CREATE && page[..4] != [CANARY; 4] {
            self.ids.push(u32::from_ne_bytes([page[0], page[1], page[2], page[3]]));
        }
        if command[0] == GET_EVENT && page[..8] != [CANARY; 8] {
            // A request to connect brings an identifier of its own.
            let id = u32::from_ne_bytes([page[8], page[9], page[10], page[11]]);
            if !self.ids.contains(&id) {
                self.ids.push(id);
            }
        }
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let machine = machine();
    let cm = machine.cm.get_or_init(|| RdmaCm::new(machine));
    let open = |_| {
        let (fd, file) = cm.open(0).expect("the device file");
        fcntl_setfl(&fd, OFlags::NONBLOCK).expect("flags of a descriptor");
        (fd, file)
    };
    let mut world = World { files: (0..FILES).map(open).collect(), ids: Vec::new(), waits: 0 };
    Input(data).drive(STEPS_MAX, |input| world.step(input));
    drop(world);
    for own in &machine.devices {
        assert_eq!(own.port.manage(|cm, _, _| cm.ids()), Ok(0), "identifiers of files that are closed");
    }
}
