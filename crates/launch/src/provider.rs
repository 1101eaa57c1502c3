// SPDX-License-Identifier: MIT OR Apache-2.0
//! Environment variables by which an MPI, or any program on libfabric, runs on Bellwire.
//! The provider lies in a folder where libfabric does not look by itself.

use std::ffi::OsString;
use std::path::PathBuf;

/// An MPI that is told by variables what to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Mpi {
    /// MPICH with its netmod ofi (Debian's has none; PyPI's has)
    Mpich,
    /// Open MPI with its mtl ofi
    Openmpi,
    /// Intel MPI
    Intel,
}

/// The provider's file name, as libfabric wants it.
const PROVIDER: &str = "libbellwire-fi.so";

/// The folder of the provider: where it is installed beside this command.
fn folder() -> Result<PathBuf, String> {
    let executable = std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let folder = executable.parent().and_then(|bin| bin.parent()).map(|prefix| prefix.join("lib/bellwire")).ok_or("this command has no place")?;
    if folder.join(PROVIDER).is_file() { Ok(folder) } else { Err(format!("{} is not there: make install puts it there", folder.join(PROVIDER).display())) }
}

/// What to set.
///
/// # Errors
/// If the provider is not installed.
pub fn variables(mpi: Option<Mpi>) -> Result<Vec<(OsString, OsString)>, String> {
    let fixed: &[(&str, &str)] = match mpi {
        None => &[],
        // All traffic, that of one host too: else each has a way of its own there.
        Some(Mpi::Mpich) => &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")],
        Some(Mpi::Openmpi) => &[("OMPI_MCA_pml", "cm"), ("OMPI_MCA_mtl", "ofi"), ("OMPI_MCA_mtl_ofi_provider_include", "bellwire")],
        Some(Mpi::Intel) => &[("I_MPI_FABRICS", "ofi"), ("I_MPI_OFI_PROVIDER", "bellwire")],
    };
    let mut all = vec![("FI_PROVIDER_PATH".into(), folder()?.into_os_string()), ("FI_PROVIDER".into(), "bellwire".into())];
    all.extend(fixed.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
    Ok(all)
}
