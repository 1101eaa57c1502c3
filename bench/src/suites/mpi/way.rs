// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways that an MPI's messages can go on one host, and what the MPI is told by variables to go
//! them.

use std::ffi::OsString;

use crate::peers::installed::Flavour;
use crate::plan::series as s;
use crate::samples::Series;

/// How messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Through the provider.
    Bellwire,
    /// As the MPI does if nothing is said.
    Own,
    /// libfabric's provider shm.
    Shm,
    /// libfabric's provider tcp.
    Tcp,
}

impl Way {
    /// In the order of the tables.
    pub const ALL: [Way; 4] = [Way::Bellwire, Way::Own, Way::Shm, Way::Tcp];

    /// Its column.
    pub fn series(self) -> Series {
        match self {
            Way::Bellwire => s::OURS,
            Way::Own => s::MPI_OWN,
            Way::Shm => s::SHM_MESSAGE,
            Way::Tcp => s::FABRIC_TCP,
        }
    }

    /// What the MPI is told; `ours` is what has it run on Bellwire.
    pub fn environment(self, flavour: Flavour, ours: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let provider = match self {
            Way::Bellwire => return ours.to_vec(),
            Way::Own if flavour == Flavour::Intel => return variables(&[("I_MPI_FABRICS", "shm")]),
            Way::Own => return Vec::new(),
            Way::Shm => "shm",
            Way::Tcp => "tcp",
        };
        let fixed: &[(&str, &str)] = match flavour {
            Flavour::Mpich => &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")],
            Flavour::OpenMpi => &[
                ("OMPI_MCA_pml", "cm"),
                ("OMPI_MCA_mtl", "ofi"),
                ("OMPI_MCA_mtl_ofi_provider_include", provider),
                ("OMPI_MCA_opal_common_ofi_provider_include", provider),
            ],
            Flavour::Intel => &[("I_MPI_FABRICS", "ofi")],
        };
        let mut all = variables(fixed);
        all.extend(variables(&[("FI_PROVIDER", provider)]));
        all
    }
}

fn variables(fixed: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    fixed.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mpi_as_it_is_is_told_nothing() {
        assert_eq!(Way::Own.environment(Flavour::Mpich, &variables(&[("A", "1")])), []);
        assert_eq!(Way::Bellwire.environment(Flavour::Mpich, &variables(&[("A", "1")])), variables(&[("A", "1")]));
        assert!(Way::Tcp.environment(Flavour::OpenMpi, &[]).contains(&("FI_PROVIDER".into(), "tcp".into())));
    }
}
