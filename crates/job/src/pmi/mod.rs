// SPDX-License-Identifier: MIT OR Apache-2.0
//! PMI-1 by wire: lines of `key=value` words on a descriptor that the launcher left open for each
//! process.
//!
//! | line from the process | answer |
//! |---|---|
//! | `cmd=init pmi_version=1 pmi_subversion=1` | `cmd=response_to_init ... rc=0` |
//! | `cmd=get_maxes` | `cmd=maxes kvsname_max=.. keylen_max=.. vallen_max=..` |
//! | `cmd=get_my_kvsname` | `cmd=my_kvsname kvsname=..` |
//! | `cmd=put kvsname=.. key=.. value=..` | `cmd=put_result rc=0` |
//! | `cmd=get kvsname=.. key=..` | `cmd=get_result rc=0 value=..` |
//! | `cmd=barrier_in` | `cmd=barrier_out`, when all are in; also the fence: values put before are seen after |
//! | `cmd=finalize` | `cmd=finalize_ack` |
//! | `cmd=abort exitcode=..` | none: the job ends |
//!
//! Between this client and this server also, for a client that has seen [`GET_ALL_KEY`] in `maxes`:
//! `cmd=bellwire_get_all kvsname=.. key=.. from=..`, answered by
//! `cmd=bellwire_values rc=0 count=.. values=..`, the values of so many processes in one line
//! (`values.rs`).
//!
//! One client serves MPICH's hydra, Slurm's pmi2 plugin (which speaks PMI-1 to a client that begins
//! so) and [`server`]; one server serves this client and MPI programs. The server says in `maxes`
//! by [`VALUE_MAX_KEY`] that it takes long values; others do not know the word and pass over it.

pub(crate) mod client;
pub mod line;
pub mod server;
mod values;

/// The word of `maxes` by which our server offers values longer than PMI-1's usual 1024 characters.
pub const VALUE_MAX_KEY: &str = "bellwire_vallen_max";
/// The word of `maxes` by which our server says that it gives the values of all processes at once.
pub const GET_ALL_KEY: &str = "bellwire_get_all";
