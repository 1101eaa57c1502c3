// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process's endpoints in its job: made, named to the others, mapped; and how it ends.
//!
//! There are two endpoints in one bundle. The first is the program's: table, handlers, error
//! handler and segment are all its own. The second is for barriers and all-gathers, so that they
//! take no handler number from the program. Each process makes up its tags, at random, and tells
//! them with its names: nobody outside of the job knows them.

use crate::collective::{Collective, settled};
use crate::layer::{Layer, NameBytes};
use crate::{Error, Exchange};
use bellwire_am::{Bundle, Device, EndpointId, Message, NAME_BYTES, Name};
use bellwire_via::nic::{NicConfig, Udp};
use bellwire_via::wire::udp::{address_from, host_address};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a process tells: two names and their tags.
const BLOCK_BYTES: usize = 2 * (NAME_BYTES + 8);

/// This process among those of its job, and its endpoint, whose entry *i* is process *i* (also this
/// one). `B` is what carries the messages.
pub struct Team<B: Layer = Bundle> {
    exchange: Box<dyn Exchange + Sync>,
    bundle: Arc<B>,
    endpoint: EndpointId,
    collective: Collective,
    names: Vec<NameBytes>,
    ranks: BTreeMap<NameBytes, u32>,
}

impl<B: Layer> core::fmt::Debug for Team<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Team").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// Opens a NIC for a job, as the environment says (see [`NicConfig::from_env`]). In a job on
/// several hosts that says nothing of an address, it is the one from which packets to other hosts
/// leave.
///
/// # Errors
/// [`Error::Device`].
pub fn open_device(exchange: &dyn Exchange) -> Result<Arc<Device>, Error> {
    let failed = |e: &dyn core::fmt::Display| Error::Device(e.to_string());
    let mut config = NicConfig::from_env().map_err(|e| failed(&e))?;
    if exchange.local_size() < exchange.size() && std::env::var_os("BELLWIRE_ADDRESS").is_none() {
        let address =
            address_from("auto").ok_or_else(|| failed(&"this job is on several hosts, and this one has no address for others: set BELLWIRE_ADDRESS"))?;
        config.host = host_address(address);
        config.udp.get_or_insert(Udp::default());
    }
    Device::open(config).map_err(|e| failed(&e))
}

fn tag() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|e| Error::Device(format!("random numbers: {e}")))?;
    // Neither TAG_NONE nor TAG_ALL.
    Ok(u64::from_ne_bytes(bytes) | 1 << 63)
}

impl Team {
    /// Opens a NIC and does as [`start_on`](Self::start_on). Collective.
    ///
    /// # Errors
    /// [`Error::Launcher`], [`Error::Device`], [`Error::Messages`].
    pub fn start(exchange: impl Exchange + Sync + 'static) -> Result<Self, Error> {
        let device = open_device(&exchange)?;
        Self::start_on(&device, exchange)
    }

    /// Makes this process's endpoint in a bundle of its own, and maps it to those of all processes
    /// of the job. Collective: every process calls it. Nothing is sent to others yet; the first
    /// message connects.
    ///
    /// # Errors
    /// [`Error::Launcher`], [`Error::Messages`].
    pub fn start_on(device: &Arc<Device>, exchange: impl Exchange + Sync + 'static) -> Result<Self, Error> {
        Self::start_in(Bundle::new(device)?, exchange)
    }

    /// The NIC: for regions, or further bundles.
    pub fn device(&self) -> &Arc<Device> {
        self.bundle.device()
    }

    /// The endpoints of all processes, by rank.
    pub fn names(&self) -> Vec<Name> {
        self.names.iter().filter_map(Name::from_bytes).collect()
    }

    /// Which process sent a message; `None`: none of the job.
    pub fn rank_of(&self, message: &Message<'_>) -> Option<u32> {
        self.rank_of_name(&message.source().to_bytes())
    }
}

impl<B: Layer> Team<B> {
    /// As [`Team::start_on`], in a bundle that is the team's alone.
    ///
    /// # Errors
    /// As there.
    pub fn start_in(bundle: B, exchange: impl Exchange + Sync + 'static) -> Result<Self, Error> {
        let bundle = Arc::new(bundle);
        let (endpoint, inner) = (bundle.create_endpoint()?, bundle.create_endpoint()?);
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        for endpoint in [endpoint, inner] {
            let tag = tag()?;
            bundle.set_tag(endpoint, tag)?;
            block.extend(bundle.name(endpoint)?);
            block.extend(tag.to_le_bytes());
        }
        let (rank, size) = (exchange.rank(), exchange.size());
        let blocks = exchange.all_gather(&block)?;
        let no_names = || Error::Launcher("a process's names are none".into());
        let tables: Vec<_> = blocks.iter().map(|block| parse(block)).collect::<Option<_>>().ok_or_else(no_names)?;
        for endpoint in [endpoint, inner] {
            bundle.set_translations(endpoint, bundle.translations(endpoint)?.max(size))?;
        }
        for (index, table) in (0..).zip(&tables) {
            for (endpoint, (name, tag)) in [endpoint, inner].into_iter().zip(table) {
                if !bundle.map(endpoint, index, name, *tag)? {
                    return Err(no_names());
                }
            }
        }
        let collective = Collective::new(&*bundle, inner, (rank, size), tables.iter().map(|t| t[1].0).collect())?;
        let names: Vec<NameBytes> = tables.iter().map(|t| t[0].0).collect();
        let ranks = names.iter().copied().zip(0..).collect();
        Ok(Self { exchange: Box::new(exchange), bundle, endpoint, collective, names, ranks })
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.exchange.rank()
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.names.len() as u32
    }

    /// The bundle, to be polled; further endpoints can be made in it.
    pub fn bundle(&self) -> &Arc<B> {
        &self.bundle
    }

    /// This process's endpoint: handlers, segment and error handler are the program's to set.
    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// Which process has an endpoint of this name; `None`: none of the job.
    pub fn rank_of_name(&self, name: &NameBytes) -> Option<u32> {
        self.ranks.get(name).copied()
    }

    /// Waits, polling, until every process of the job has come here. Handlers run meanwhile. It
    /// says nothing of requests that are still out.
    ///
    /// # Errors
    /// [`Error::Lost`]: a process is gone, and no collective call will be well any more; [`Error::WrongMoment`].
    pub fn barrier(&self) -> Result<(), Error> {
        self.collective.gather(&*self.bundle, None).map(drop)
    }

    /// Gives everybody's block to everybody, in order of rank, waiting as
    /// [`barrier`](Self::barrier) does. Lengths may differ.
    ///
    /// # Errors
    /// As there; [`Error::TooLong`].
    pub fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.collective.gather(&*self.bundle, Some(block))
    }

    /// Ends well: waits until all requests of this process's endpoint are handled, then until all
    /// others have come so far and have heard it of this process. Collective. After it no request
    /// is in danger, whichever process ends first.
    ///
    /// # Errors
    /// As of [`barrier`](Self::barrier). The endpoints are closed in any case.
    pub fn finish(self) -> Result<(), Error> {
        self.settle()
    }

    /// As [`finish`](Self::finish), for callers that share the team and end it with the last share.
    ///
    /// # Errors
    /// As there.
    pub fn settle(&self) -> Result<(), Error> {
        self.settle_at(Some((&*self.bundle, self.endpoint)))
    }

    /// As [`settle`](Self::settle), for callers that may have moved the endpoint: where it is now.
    /// `None`: it is no more.
    ///
    /// # Errors
    /// As there.
    pub fn settle_at(&self, place: Option<(&B, EndpointId)>) -> Result<(), Error> {
        if let Some((bundle, endpoint)) = place {
            settled(bundle, endpoint)?;
        }
        self.barrier()?;
        self.collective.settle(&*self.bundle)
    }

    /// Ends the whole job with a status from 0 to 255, and this process at once.
    pub fn exit(&self, status: i32) -> ! {
        self.exchange.exit(status)
    }
}

/// The names and tags of a process.
fn parse(block: &[u8]) -> Option<[(NameBytes, u64); 2]> {
    let block: &[u8; BLOCK_BYTES] = block.try_into().ok()?;
    let at = |from: usize| {
        let name: NameBytes = block[from..from + NAME_BYTES].try_into().ok()?;
        Some((name, u64::from_le_bytes(block[from + NAME_BYTES..from + NAME_BYTES + 8].try_into().ok()?)))
    };
    Some([at(0)?, at(NAME_BYTES + 8)?])
}
