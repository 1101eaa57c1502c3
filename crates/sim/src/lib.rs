// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator: networks in virtual time, under one seed.
//!
//! - [`topology`]: which nodes, switches and links there are; generators; the TOML form of
//!   docs/simulator.md.
//! - [`fabric`]: carries opaque datagrams between ports through that topology, under the faults of
//!   `bellwire_faults`. It knows nothing of engines or transports.
//! - [`port`]: a port of the fabric, as the wire over packets wants it.
//! - [`resident`]: a NIC with more endpoints than frames.
//! - [`stopwait`]: stop-and-wait channels, as a transport by itself.
//! - [`world`]: an engine on each node, stepped in virtual time.
//! - [`memory`]: memory of simulated programs.
//! - [`scenario`]: experiments with tables and plots.
//! - [`trial`]: random programs under random faults, checked.
//!
//! Two NICs that meet, and a packet fabric by itself:
//!
//! ```
//! use bellwire_sim::{Duration, LinkSpec, Topology, World, WorldConfig};
//! use bellwire_via::{ViAttributes, ViState};
//!
//! let mut world = World::new(Topology::star(2, LinkSpec::default())?, &"loss=0.1".parse()?, WorldConfig::default(), 7)?;
//! let vi = [0, 1].map(|nic| world.with(nic, |engine| engine.create_vi(&ViAttributes::default(), None, None, None)).unwrap());
//! let [here, there] = [0, 1].map(|nic| world.address(nic, b"meeting"));
//! let until = world.after(0, Duration::from_secs(5));
//! world.with(0, |engine| engine.peer_request(vi[0], &here, &there, until)).unwrap();
//! world.with(1, |engine| engine.peer_request(vi[1], &there, &here, until)).unwrap();
//! let is_connected = |world: &World, nic: usize| world.engine(nic).unwrap().query_vi(vi[nic]).unwrap().0 == ViState::Connected;
//! let deadline = world.now() + Duration::from_secs(5);
//! assert!(world.run_until(deadline, |world| (0..2).all(|nic| is_connected(world, nic))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
pub mod resident;
pub mod scenario;
pub mod stopwait;
pub mod topology;
pub mod trial;
pub mod world;

pub use bellwire_faults::{FaultPlan, PlanError};
pub use bellwire_time::{Duration, Instant};
pub use fabric::{AttachError, Datagram, DropCause, Fabric, FabricError, FabricEvent, LinkStatistics, Overheard, Port, SendError, Statistics};
pub use port::{FabricBuffer, FabricPool, FabricPort};
pub use topology::{LinkSpec, NodeId, Place, Routing, SwitchId, Topology, TopologyError, WhenFull};
pub use world::{FabricEngine, Happened, World, WorldConfig};
