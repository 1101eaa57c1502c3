// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device and its limits.

mod imitated;

use bellwire_faults::FaultPlan;
pub use imitated::Model;

/// Devices of a process.
pub const DEVICES_MAX: usize = 32;

/// Whether a device does atomics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomics {
    /// It refuses them.
    None,
    /// They are atomic among all queue pairs of a device.
    Device,
}

/// A port's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Gigabits in a second.
    pub gigabits: u32,
    /// `active_width` as `ibv_query_port` has it.
    pub width: u8,
    /// `active_speed`.
    pub speed: u8,
    /// As `/sys` says it.
    pub text: &'static str,
}

impl Rate {
    /// The rates that a port can have.
    pub const ALL: [Self; 8] = [
        Self { gigabits: 10, width: 2, speed: 1, text: "10 Gb/sec (4X SDR)" },
        Self { gigabits: 25, width: 1, speed: 32, text: "25 Gb/sec (1X EDR)" },
        Self { gigabits: 40, width: 2, speed: 4, text: "40 Gb/sec (4X QDR)" },
        Self { gigabits: 50, width: 1, speed: 64, text: "50 Gb/sec (1X HDR)" },
        Self { gigabits: 56, width: 2, speed: 16, text: "56 Gb/sec (4X FDR)" },
        Self { gigabits: 100, width: 2, speed: 32, text: "100 Gb/sec (4X EDR)" },
        Self { gigabits: 200, width: 2, speed: 64, text: "200 Gb/sec (4X HDR)" },
        Self { gigabits: 400, width: 2, speed: 128, text: "400 Gb/sec (4X NDR)" },
    ];

    /// The rate of so many gigabits.
    pub fn of(gigabits: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.gigabits == gigabits)
    }
}

macro_rules! limits {
    ($($name:ident: $most:literal $doc:literal,)*) => {
        /// The most of each kind that a program gets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $doc] pub $name: u64,)*
        }

        /// The most that Bellwire can hold, which is also the limit of a device of its own kind.
        pub const LIMITS_MAX: Limits = Limits { $($name: $most,)* };

        impl Limits {
            /// Their names in the file.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// A limit by its name.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

limits! {
    max_qp: 8191 "Queue pairs of a process.",
    max_qp_wr: 32768 "Requests in a queue.",
    max_sge: 16 "Pieces of a request.",
    max_inline: 1024 "Bytes that a request can carry inline.",
    max_cq: 65536 "Completion queues.",
    max_cqe: 4194304 "Entries of a completion queue.",
    max_mr: 262144 "Memory regions.",
    max_mr_size: 0x7fff_ffff_ffff_ffff "Bytes of a region.",
    max_pd: 65536 "Protection domains.",
    max_qp_rd_atom: 128 "Reads and atomics of a peer under way at a queue pair.",
    max_qp_init_rd_atom: 128 "Reads and atomics that a queue pair has under way.",
    max_srq: 65536 "Shared receive queues.",
    max_srq_wr: 32768 "Receives in a shared queue.",
    max_srq_sge: 16 "Pieces of a receive of a shared queue.",
    max_ah: 1048576 "Address handles.",
}

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    /// As `bellwire0`.
    pub name: String,
    /// The model that it imitates.
    pub model: Model,
    /// Its address as text: an IP address, the name of an interface, or `auto`. `None`: as for
    /// every NIC of Bellwire, by `BELLWIRE_ADDRESS`.
    pub address: Option<String>,
    /// Its own faults. `None`: as for every NIC of Bellwire, by `BELLWIRE_FAULTS`.
    pub faults: Option<FaultPlan>,
    /// The speed that it tells.
    pub rate: Rate,
    /// Bytes of a packet: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// Whether it does atomics.
    pub atomics: Atomics,
    /// Entries of its table of addresses (GIDs), each of them its one address.
    pub gids: u8,
    /// The memory node that it says it is at; -1: unknown.
    pub numa_node: i32,
    /// The limits.
    pub limits: Limits,
}

impl Device {
    /// The device of that number, if nothing is said of it.
    pub fn new(number: usize) -> Self {
        Self::like(number, Model::Bellwire)
    }

    /// The same, as a model has it.
    pub fn like(number: usize, model: Model) -> Self {
        Self {
            name: format!("bellwire{number}"),
            model,
            address: None,
            faults: None,
            rate: model.rate(),
            mtu: 4096,
            atomics: Atomics::Device,
            gids: 1,
            numa_node: -1,
            limits: model.limits(),
        }
    }

    /// `mtu` as `ibv_query_port` has it: 1 for 256 bytes to 5 for 4096.
    pub fn mtu_code(&self) -> u32 {
        self.mtu.trailing_zeros().saturating_sub(7)
    }
}
