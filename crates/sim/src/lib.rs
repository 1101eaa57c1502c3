// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator: networks in virtual time, under one seed.
//!
//! - [`topology`]: which nodes, switches and links there are; generators; the TOML form of docs/simulator.md.
//! - [`fabric`]: carries opaque datagrams between ports through that topology, under the faults of `bellwire_faults`. It knows nothing of engines or transports.
//! - [`port`]: a port of the fabric, as the wire over packets wants it.
//! - [`world`]: an engine on each node, stepped in virtual time.
//! - [`memory`]: memory of simulated programs.
//! - [`trial`]: random programs under random faults, checked.
//!
//! ```
//! use bellwire_sim::{Fabric, Instant, LinkSpec, Topology};
//!
//! let topology = Topology::star(2, LinkSpec::default())?;
//! let mut fabric = Fabric::new(topology, &"dup=1,seed=7".parse()?, 1)?;
//! let a = fabric.attach("10.0.0.1:9".parse()?)?;
//! let b = fabric.attach("10.0.0.2:9".parse()?)?;
//! fabric.send(a, fabric.address(b).unwrap(), b"hello".to_vec(), Instant(0)).unwrap();
//! while fabric.next_event() != Instant::NEVER {
//!     fabric.advance_to(fabric.next_event());
//! }
//! let now = fabric.now();
//! assert_eq!(fabric.poll(b, now).unwrap().bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod fabric;
pub mod memory;
pub mod port;
pub mod topology;
pub mod trial;
pub mod world;

pub use bellwire_faults::{FaultPlan, PlanError};
pub use bellwire_time::{Duration, Instant};
pub use fabric::{AttachError, Datagram, DropCause, Fabric, FabricError, FabricEvent, LinkStatistics, Port, SendError, Statistics};
pub use port::{FabricBuffer, FabricPort};
pub use topology::{LinkSpec, NodeId, Place, Routing, SwitchId, Topology, TopologyError, WhenFull};
pub use world::{FabricEngine, Happened, World, WorldConfig};
