// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices of this process, as `bellwire-device.toml` describes them. The list is made once.

use crate::abi::IbvDevice;
use bellwire_devices::Device;
use bellwire_memory::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use bellwire_memory::own_thread;
use bellwire_verbs::{Error, Gid, Port, gid_of};
use bellwire_via::nic::NicConfig;
use core::ffi::c_char;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A device, as large as `struct verbs_device`: vendors' libraries read the driver's calls behind
/// the public part, and find none.
#[repr(C)]
struct Public {
    device: IbvDevice,
    rest: [u64; 32],
}

/// Numbers of real devices, at most.
const UVERBS_MAX: usize = 1 << 16;

/// A device of this process.
pub(crate) struct Own {
    /// Its number.
    pub index: usize,
    /// The number of its `uverbs` file, which no real device has that is to be seen.
    pub uverbs: usize,
    /// As the file describes it.
    pub device: Device,
    /// Its address.
    pub gid: Gid,
    /// The interface that has the address, and its number.
    pub interface: Option<(String, u32)>,
    public: *mut Public,
    /// The port was taken down from outside.
    is_down: AtomicBool,
    /// Times that it was.
    downs: AtomicU64,
    /// The device was taken out at run time.
    is_removed: AtomicBool,
    /// The process whose thread removes it, if a plan says so.
    planned_in: AtomicU32,
    /// Open contexts.
    open: Mutex<Vec<Weak<Port>>>,
    counts: [AtomicU64; Kind::COUNT],
}

// SAFETY: `public` is written before the list is there, and not afterwards.
unsafe impl Send for Own {}
// SAFETY: no thread writes `public` once the list is made: it may be read by all.
unsafe impl Sync for Own {}

/// Objects of which a device has a limited number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Qp,
    Cq,
    Mr,
    Pd,
    Srq,
    Ah,
}

impl Kind {
    const COUNT: usize = 6;
}

/// An object that counts; it no longer does when it is dropped.
pub(crate) struct Counted(&'static Own, Kind);

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: a count.
        self.0.counts[self.1 as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Own {
    fn new(index: usize, uverbs: usize, device: Device) -> Result<Self, String> {
        let config = config_of(&device)?;
        let gid = gid_of(&config.host).ok_or_else(|| bellwire_verbs::OpenError::Address.to_string())?;
        let mut public = IbvDevice {
            ops: [core::ptr::null(); 2],
            node_type: 1,
            transport_type: 0,
            name: [0; 64],
            dev_name: [0; 64],
            dev_path: [0; 256],
            ibdev_path: [0; 256],
        };
        copy_text(&mut public.name, &device.name);
        copy_text(&mut public.dev_name, &format!("uverbs{uverbs}"));
        copy_text(&mut public.dev_path, &format!("/sys/class/infiniband_verbs/uverbs{uverbs}"));
        copy_text(&mut public.ibdev_path, &format!("/sys/class/infiniband/{}", device.name));
        let public = Box::into_raw(Box::new(Public { device: public, rest: [0; 32] }));
        Ok(Self {
            index,
            uverbs,
            interface: interface_of(&gid),
            device,
            gid,
            public,
            is_down: AtomicBool::new(false),
            downs: AtomicU64::new(0),
            is_removed: AtomicBool::new(false),
            planned_in: AtomicU32::new(0),
            open: Mutex::new(Vec::new()),
            counts: [const { AtomicU64::new(0) }; Kind::COUNT],
        })
    }

    /// The public structure.
    pub fn public(&self) -> *mut IbvDevice {
        self.public.cast()
    }

    /// How its NIC is opened.
    ///
    /// # Errors
    /// A sentence.
    pub fn config(&self) -> Result<NicConfig, String> {
        config_of(&self.device)
    }

    /// The identifier: of its address and its number.
    pub fn guid(&self) -> u64 {
        let half = u64::from_be_bytes(self.gid[8..].try_into().unwrap_or_default());
        (half | 0x0200_0000_0000_0000) ^ ((self.index as u64) << 48)
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        address_of(&self.gid)
    }

    fn open(&self) -> MutexGuard<'_, Vec<Weak<Port>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A context was opened.
    pub fn opened(&'static self, port: &Arc<Port>) {
        self.plan_removal();
        let mut open = self.open();
        open.retain(|w| w.strong_count() != 0);
        open.push(Arc::downgrade(port));
        // Relaxed: the list's lock orders it.
        if self.is_down.load(Ordering::Relaxed) {
            port.set_link(false);
        }
    }

    /// The open contexts.
    pub fn contexts(&self) -> Vec<Arc<Port>> {
        self.open().iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether the port works, as far as this process knows.
    pub fn is_up(&self) -> bool {
        // Relaxed: a state that may change at any time.
        !self.is_down.load(Ordering::Relaxed) && self.contexts().iter().all(|port| port.is_up())
    }

    /// Takes the port of all contexts down or up, also of those that are opened later.
    pub fn set_link(&self, is_up: bool) {
        // With the list held, so that a context which is being opened hears of it, here or there.
        let open = self.open();
        // Relaxed: the list's lock orders it.
        let was_down = self.is_down.swap(!is_up, Ordering::Relaxed);
        if !is_up && !was_down {
            self.downs.fetch_add(1, Ordering::Relaxed);
        }
        open.iter().filter_map(Weak::upgrade).for_each(|port| port.set_link(is_up));
    }

    /// Tells programs that the addresses changed: by an asynchronous event, and the identifiers of
    /// connection management.
    pub fn change_address(&self) {
        for port in self.contexts() {
            port.tell_gid_change();
            let _ = port.manage(|cm, host, _| cm.address_changed(host));
        }
    }

    /// Takes the device out, for good: open contexts get nothing done any more, and it is neither
    /// listed nor opened again.
    pub fn remove(&self) {
        // Relaxed: programs may open it just before or after.
        if self.is_removed.swap(true, Ordering::Relaxed) {
            return;
        }
        for port in self.contexts() {
            let _ = port.manage(|cm, host, _| cm.device_removed(host));
        }
        self.set_link(false);
        self.contexts().iter().for_each(|port| port.fail_device());
    }

    /// Takes the device out when the plan says so. The time counts from its first context in this
    /// process.
    fn plan_removal(&'static self) {
        let process = std::process::id();
        // Relaxed: a count of processes; each has its own.
        if self.planned_in.swap(process, Ordering::Relaxed) == process {
            return;
        }
        let plan = self.config().ok().and_then(|config| config.faults);
        let Some(at) = plan.and_then(|plan| plan.removal_time(self.index as u64)) else { return };
        let began = Instant::now();
        // Without the thread the device stays.
        let _ = own_thread::spawn(c"bellwire-remove", move || {
            std::thread::sleep(Duration::from_nanos(at.0).saturating_sub(began.elapsed()));
            self.remove();
        });
    }

    /// Whether it was taken out.
    pub fn is_removed(&self) -> bool {
        // Relaxed: as above.
        self.is_removed.load(Ordering::Relaxed)
    }

    /// How often the port was taken down.
    pub fn downs(&self) -> u64 {
        // Relaxed: a count.
        self.downs.load(Ordering::Relaxed)
    }

    /// One object more, if there may be.
    pub fn count(&'static self, kind: Kind) -> Result<Counted, Error> {
        let limits = &self.device.limits;
        let most = match kind {
            Kind::Qp => limits.max_qp,
            Kind::Cq => limits.max_cq,
            Kind::Mr => limits.max_mr,
            Kind::Pd => limits.max_pd,
            Kind::Srq => limits.max_srq,
            Kind::Ah => limits.max_ah,
        };
        // Relaxed: a count.
        let before = self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
        let counted = Counted(self, kind);
        if before < most { Ok(counted) } else { Err(Error::NoMemory) }
    }
}

fn config_of(device: &Device) -> Result<NicConfig, String> {
    let mut config = NicConfig::from_env_at(device.address.as_deref()).map_err(|e| match &device.address {
        Some(address) => format!("device {}: {address} is not an address of this host", device.name),
        None => e.to_string(),
    })?;
    if device.faults.is_some() {
        config.faults.clone_from(&device.faults);
    }
    Ok(config)
}

fn address_of(gid: &Gid) -> IpAddr {
    match <[u8; 12]>::try_from(&gid[..12]) {
        Ok([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]) => IpAddr::from([gid[12], gid[13], gid[14], gid[15]]),
        _ => IpAddr::from(*gid),
    }
}

/// The interface that has an address.
fn interface_of(gid: &Gid) -> Option<(String, u32)> {
    let address = address_of(gid);
    let all = if_addrs::get_if_addrs().ok()?;
    // All of 127.0.0.0/8 belongs to the loopback interface, which tells of one address only.
    let found = all.iter().find(|i| i.ip() == address).or_else(|| all.iter().find(|i| address.is_loopback() && i.is_loopback()))?;
    Some((found.name.clone(), found.index.unwrap_or(0)))
}

fn copy_text(to: &mut [c_char], text: &str) {
    let room = to.len() - 1;
    for (to, from) in to.iter_mut().zip(text.bytes().take(room)) {
        *to = from as c_char;
    }
}

/// Whether real devices are to be seen beside ours: `BELLWIRE_VERBS_BESIDE` is set, to something.
pub(crate) fn shows_real() -> bool {
    static SHOWS: OnceLock<bool> = OnceLock::new();
    *SHOWS.get_or_init(|| std::env::var_os("BELLWIRE_VERBS_BESIDE").is_some_and(|v| !v.is_empty() && v != "0"))
}

/// The number after those of the real devices' `uverbs` files. By this name of the folder the call
/// is the C library's, not ours.
fn after_real() -> usize {
    let names = std::fs::read_dir("/proc/self/root/sys/class/infiniband_verbs").into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_prefix("uverbs")?.parse::<usize>().ok();
    names.filter_map(number).filter(|n| *n < UVERBS_MAX).max().map_or(0, |last| last + 1)
}

/// The devices.
///
/// # Errors
/// A sentence: the file or the environment is wrong.
pub(crate) fn all() -> Result<&'static [Own], &'static str> {
    static ALL: OnceLock<Result<Vec<Own>, String>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let file = bellwire_devices::find();
        let devices = bellwire_devices::load(file.as_deref())?;
        let first = if shows_real() { after_real() } else { 0 };
        devices.into_iter().enumerate().map(|(index, device)| Own::new(index, first + index, device)).collect()
    });
    all.as_deref().map_err(|e| &**e)
}

/// The device that a public structure is of.
pub(crate) fn of(public: *const IbvDevice) -> Option<&'static Own> {
    all().ok()?.iter().find(|own| core::ptr::eq(own.public(), public))
}

/// Says once why there are no devices.
pub(crate) fn complain(why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // Relaxed: a flag.
    if !SAID.swap(true, Ordering::Relaxed) {
        eprintln!("bellwire-verbs: {why}");
    }
}
