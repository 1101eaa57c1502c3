// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire env`: what has an MPI, or any program on libfabric, run on Bellwire. Nothing does so unasked: the provider lies where libfabric does not look by itself.

use bellwire_launch::provider::{self, Mpi};
use bellwire_report::output;
use clap::Args;

const AFTER_HELP: &str = "\
Examples:
  eval \"$(bellwire env)\"; fi_info -p bellwire              any program on libfabric
  eval \"$(bellwire env --mpi mpich)\"; mpiexec -n 4 ./ring
  eval \"$(bellwire env --mpi openmpi)\"; mpirun -n 4 ./ring
  eval \"$(bellwire env --mpi intel)\"; mpiexec -n 4 ./ring
  bellwire run --mpi mpich -n 4 ./ring                     both in one";

/// Print what to export so that programs on libfabric, or an MPI, use Bellwire
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// For this MPI's programs
    #[arg(long, value_enum)]
    mpi: Option<Mpi>,
}

/// Prints it.
///
/// # Errors
/// If the provider is not installed, or standard output is closed.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let lines = provider::variables(arguments.mpi)?.into_iter().map(|(name, value)| {
        // A quote within quotes is the only sign that a shell would see.
        format!("export {}='{}'\n", name.display(), value.to_string_lossy().replace('\'', "'\\''"))
    });
    output::print(&lines.collect::<String>())
}
