// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmarks over libvipl, run by both measuring processes: each takes the same job, connects
//! a fresh VI by a discriminator of its own, and the first process answers with the figure.
//!
//! All data and descriptors lie in one registered block of engine-allocated memory (the process's
//! own where the library has no such call), laid out by the constants below. Registered addresses
//! travel through the shared mapping of the limits, not through what is measured.

pub mod ablation;
pub mod amvia;
pub mod bandwidth;
pub mod flow;
pub mod latency;
pub mod overhead;
pub mod pairs;
pub mod payload;
pub mod rate;
pub mod rdma;
pub mod registration;
pub mod scaling;
pub mod signature;
pub mod steps;

use std::time::Duration;

use crate::endpoint::{Block, Nic, PATIENCE, Vi};
use crate::error::Error;
use crate::job::{Job, Request, Setup};
use crate::shared::{LINE_BYTES, SharedMap};
use crate::stat;
use crate::vipl_abi::{Descriptor, Segment};

/// Room for descriptors.
const DESCRIPTOR_BYTES: usize = 512 << 10;
/// Small receive buffers, for credits and final messages.
const CREDIT_OFFSET: usize = DESCRIPTOR_BYTES;
/// Outgoing data.
const OUT_OFFSET: usize = 1 << 20;
/// Bytes of outgoing and of incoming data.
pub const AREA_BYTES: usize = 8 << 20;
/// Incoming data.
const IN_OFFSET: usize = OUT_OFFSET + AREA_BYTES;
/// The whole block.
const BLOCK_BYTES: usize = IN_OFFSET + AREA_BYTES;
/// Where the processes tell each other their incoming areas: one line each.
const MAILBOX_OFFSET: usize = 48 << 10;

/// The library, opened, with the block that all benchmarks use.
#[derive(Debug)]
pub struct Bench {
    scaling: Option<scaling::Scaling>,
    /// As `block`, in memory of the process; made when it is first asked for.
    user_block: Option<Block>,
    block: Block,
    nic: Nic,
    setup: Setup,
}

/// What a benchmark needs to know of the process it runs in.
#[derive(Debug)]
pub struct Context<'b> {
    /// The NIC.
    pub nic: &'b Nic,
    /// Descriptors and data.
    pub block: &'b Block,
    /// Whether this is the process that measures.
    pub first: bool,
    /// How this run was asked to be.
    pub setup: &'b Setup,
    /// Meeting place.
    pub map: &'b SharedMap,
    /// Names of connections.
    pub request: &'b Request,
}

impl Bench {
    /// Loads the library and opens the NIC.
    ///
    /// # Errors
    /// If either fails.
    pub fn open(setup: &Setup) -> Result<Self, Error> {
        let nic = Nic::open(setup.library.as_deref(), &setup.device, setup.ends.map(|ends| ends.other))?;
        let block = nic.allocate(BLOCK_BYTES, true)?;
        Ok(Bench { scaling: None, user_block: None, block, nic, setup: setup.clone() })
    }

    /// Runs one job: its figures and a remark.
    ///
    /// # Errors
    /// What goes wrong.
    pub fn run(&mut self, request: &Request, map: &SharedMap) -> Result<(Vec<f64>, String), Error> {
        let (job, block) = match &request.job {
            Job::InUserMemory(job) => {
                if self.user_block.is_none() {
                    self.user_block = Some(self.nic.allocate(BLOCK_BYTES, false)?);
                }
                (job.as_ref(), self.user_block.as_ref().expect("made above"))
            }
            job => (job, &self.block),
        };
        let context = Context { nic: &self.nic, block, first: self.setup.first, setup: &self.setup, map, request };
        let values = match *job {
            Job::Latency { size, count, touch } => latency::mean(&context, size, count, touch)?,
            Job::Steps { size, batches, watched } => steps::run(&context, size, batches, watched)?,
            Job::EmptyPolls { count } => steps::empty_polls(&context, count)?,
            Job::Percentiles { size, count } => latency::percentiles(&context, size, count)?,
            Job::Bandwidth { size, count, touch, both_ways } => bandwidth::run(&context, size, count, touch, both_ways)?,
            Job::Rate { size, count } => rate::run(&context, size, count, false)?,
            Job::RateInline { size, count } => rate::run(&context, size, count, true)?,
            Job::WriteLatency { count } => rdma::write_latency(&context, count)?,
            Job::WriteBandwidth { size, count, touch } => rdma::write_bandwidth(&context, size, count, touch)?,
            Job::ReadLatency { size, count } => rdma::read(&context, size, count, 1, true)?,
            Job::ReadBandwidth { size, count } => rdma::read(&context, size, count, rdma::WINDOW, false)?,
            Job::Registration { size, count, engine_memory } => registration::run(&context, size, count, engine_memory)?,
            Job::Overhead { size, bursts } => overhead::run(&context, size, bursts)?,
            Job::Signature { size, burst, delay_ns, bursts } => signature::run(&context, size, burst, delay_ns, bursts)?,
            Job::Amvia { layout, count, streamed } => amvia::run(&context, layout, count, streamed)?,
            Job::Ablation { how, exchanged, size, count } => ablation::run(&context, how, exchanged, size, count)?,
            Job::ScalingOpen { vis, active } => {
                let (scaling, per_vi) = scaling::Scaling::open(&context, vis, active)?;
                self.scaling = Some(scaling);
                vec![per_vi]
            }
            Job::ScalingLatency { count } => {
                let scaling = self.scaling.as_mut().ok_or_else(|| Error::failed("no VIs are open for this"))?;
                scaling.latency(&context, count)?
            }
            Job::Open => {
                let own = stat::own();
                let note = format!("{}, {}{}", self.nic.nic.description, self.nic.nic.memory(), own.wires_text());
                return Ok((vec![f64::from(u8::from(!own.udp.is_empty()))], note));
            }
            Job::Wake { count, pause_us } => latency::woken(&context, count, Duration::from_micros(pause_us))?,
            Job::PingPong { millis } => pairs::run(&context, Duration::from_millis(millis))?,
            Job::InUserMemory(_) => return Err(Error::failed("a job in user memory inside another")),
            Job::Exchange { .. }
            | Job::Copy { .. }
            | Job::Ring { .. }
            | Job::Bounce { .. }
            | Job::Attach { .. }
            | Job::Eventfd { .. }
            | Job::Futex { .. }
            | Job::Socket { .. }
            | Job::Am(_)
            | Job::Mapped { .. }
            | Job::Splitc { .. }
            | Job::Ladder { .. }
            | Job::Load(_)
            | Job::Mark
            | Job::Peers { .. }
            | Job::Verbs { .. }
            | Job::DatagramStream { .. }
            | Job::ByteStream { .. } => {
                return Err(Error::failed("this is no job of the library"));
            }
        };
        Ok((values, String::new()))
    }
}

impl Context<'_> {
    /// Descriptor number `index` of the block.
    pub fn descriptor(&self, index: usize) -> *mut Descriptor {
        let bytes = size_of::<Descriptor>();
        assert!((index + 1) * bytes <= DESCRIPTOR_BYTES);
        self.block.at(index * bytes, bytes).cast()
    }

    /// Small receive buffer number `index`, one cache line.
    pub fn credit(&self, index: usize) -> Segment {
        self.block.segment(CREDIT_OFFSET + index * LINE_BYTES, LINE_BYTES)
    }

    /// Outgoing data.
    pub fn outgoing(&self, offset: usize, len: usize) -> Segment {
        assert!(offset + len <= AREA_BYTES);
        self.block.segment(OUT_OFFSET + offset, len)
    }

    /// Incoming data.
    pub fn incoming(&self, offset: usize, len: usize) -> Segment {
        assert!(offset + len <= AREA_BYTES);
        self.block.segment(IN_OFFSET + offset, len)
    }

    /// A VI that is not connected yet.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn create_vi(&self) -> Result<Vi, Error> {
        self.nic.create_vi(self.setup.reliability.bits(), self.block, self.setup.waiting)
    }

    /// Connects VI number `index` of this job.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn connect(&self, vi: &Vi, index: usize) -> Result<(), Error> {
        self.nic.connect(vi, self.first, (self.request.run, self.request.epoch << 20 | index as u64))
    }

    /// Both processes arrive at `step` (1 to 15) of this job.
    ///
    /// # Errors
    /// If the other does not.
    pub fn meet(&self, step: u64) -> Result<(), Error> {
        self.map.meet(self.first, meeting(self.request.epoch, step), PATIENCE)
    }

    /// Tells the other process where this one's incoming area is, and learns the other's.
    ///
    /// # Errors
    /// If the other does not answer.
    pub fn exchange_areas(&self, step: u64) -> Result<Remote, Error> {
        let mailbox = |first: bool| MAILBOX_OFFSET + if first { 0 } else { 4 * LINE_BYTES };
        let own = self.incoming(0, AREA_BYTES);
        self.map.word(mailbox(self.first)).put(own.address);
        self.map.word(mailbox(self.first) + 8).put(u64::from(own.handle));
        self.meet(step)?;
        let address = self.map.word(mailbox(!self.first)).get();
        let handle = self.map.word(mailbox(!self.first) + 8).get();
        Ok(Remote { address, handle: handle as u32 })
    }

    /// An error for sizes that this NIC or this program cannot do.
    ///
    /// # Errors
    /// If `size` is too large.
    pub fn check_size(&self, size: usize) -> Result<(), Error> {
        let max = self.nic.transfer_max.min(AREA_BYTES / 2);
        if size <= max { Ok(()) } else { Err(Error::unsupported(format!("{size} bytes; the most is {max}"))) }
    }
}

/// The epoch of one step of one request.
///
/// # Panics
/// If a request has more than 16 steps: a later one would come before this one, for whoever waits.
pub fn meeting(epoch: u64, step: u64) -> u64 {
    assert!(step < 16, "step {step} of a request");
    epoch << 4 | step
}

/// The other process's incoming area.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    address: u64,
    handle: u32,
}

impl Remote {
    /// An address segment at `offset`.
    pub fn segment(&self, offset: usize) -> Segment {
        Segment { address: self.address + offset as u64, handle: self.handle, length: 0 }
    }
}
