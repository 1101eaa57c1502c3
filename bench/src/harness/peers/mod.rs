// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other libraries, run for comparison in the same run on the same two processors. What is missing
//! is named with the package to install and is never a failure.

pub mod agent;
pub mod gasnet;
pub mod installed;
pub mod libfabric;
pub mod mpi;
pub mod process;
pub mod simulator;
pub mod ucx;

use crate::error::Error;
use installed::{Flavour, INTEL_HINT};

/// The packages of Debian that bring all peers.
pub const INSTALL_HINT: &str = "apt-get install ucx-utils libfabric-bin mpich libmpich-dev openmpi-bin libopenmpi-dev";

/// The peers that are here, and what is said about the others.
#[derive(Debug, Default)]
pub struct Peers {
    /// UCX.
    pub ucx: Option<ucx::Ucx>,
    /// libfabric.
    pub libfabric: Option<libfabric::Libfabric>,
    /// GASNet-EX, for Active Messages.
    pub gasnet: Option<gasnet::Gasnet>,
    /// MPICH.
    pub mpich: Option<mpi::Program>,
    /// Open MPI.
    pub openmpi: Option<mpi::Program>,
    /// Intel MPI.
    pub intel: Option<mpi::Program>,
    /// One line per peer that is not here.
    pub missing: Vec<String>,
}

impl Peers {
    /// Looks for them; the MPIs, whose program must be compiled, only `with_mpi`.
    pub fn find(with_mpi: bool) -> Self {
        let mut peers = Peers { ucx: ucx::Ucx::find(), libfabric: libfabric::Libfabric::find(), ..Peers::default() };
        let mut missing = Vec::new();
        if peers.ucx.is_none() {
            missing.push("UCX (ucx_perftest): package ucx-utils".to_owned());
        }
        if peers.libfabric.is_none() {
            missing.push("libfabric (fi_pingpong): package libfabric-bin".to_owned());
        }
        if !with_mpi {
            peers.missing = missing;
            return peers;
        }
        peers.mpich = note(mpi::Program::find(Flavour::Mpich), "MPICH: packages mpich libmpich-dev", &mut missing);
        peers.openmpi = note(mpi::Program::find(Flavour::OpenMpi), "Open MPI: packages openmpi-bin libopenmpi-dev", &mut missing);
        peers.intel = note(mpi::Program::find(Flavour::Intel), INTEL_HINT, &mut missing);
        peers.missing = missing;
        peers
    }

    /// Looks for those that have active messages, or what is used like them.
    pub fn find_for_am() -> Self {
        let mut peers = Peers { gasnet: gasnet::Gasnet::find(), ..Peers::find(false) };
        if peers.gasnet.is_none() {
            peers.missing.push("GASNet-EX (testam of its smp conduit): built from its source; its path in BELLWIRE_GASNET".to_owned());
        }
        peers
    }

    /// Names and versions of those that are here.
    pub fn versions(&self) -> Vec<String> {
        let mut names = Vec::new();
        names.extend(self.ucx.as_ref().map(|ucx| format!("UCX {}", ucx.version)));
        names.extend(self.libfabric.as_ref().map(|fabric| format!("libfabric {}", fabric.version)));
        names.extend(self.gasnet.as_ref().map(|gasnet| format!("GASNet-EX {}", gasnet.version)));
        names.extend([&self.mpich, &self.openmpi, &self.intel].into_iter().flatten().map(mpi::Program::title));
        names
    }
}

fn note(found: Result<Option<mpi::Program>, Error>, what: &str, missing: &mut Vec<String>) -> Option<mpi::Program> {
    match found {
        Ok(Some(mpi)) => return Some(mpi),
        Ok(None) => missing.push(what.to_owned()),
        Err(error) => missing.push(format!("{what} ({error})")),
    }
    None
}
