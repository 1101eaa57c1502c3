// SPDX-License-Identifier: MIT OR Apache-2.0
//! Others' remote memory: small programs of ours (`bench/peers/*_rma.c`), compiled with what is
//! installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::source::{TIME_MAX, cpus};
use super::{Group, Options, bulk_sizes, series as g};
use crate::cleanup::TempFolder;
use crate::error::Error;
use crate::peers::installed::{Flavour, Installed};
use crate::peers::process::{find, run, run_within};
use crate::samples::Series;

/// Where an installed GASNet-EX is, with its smp conduit.
const GASNET_HOME: &str = "BELLWIRE_GASNET_HOME";
const HEADER: &str = include_str!("../../../peers/rma.h");
const MPI: &str = include_str!("../../../peers/mpi_rma.c");
const FABRIC: &str = include_str!("../../../peers/fabric_rma.c");
const GASNET: &str = include_str!("../../../peers/gasnet_rma.c");

/// A compiled program and what starts it.
pub(super) struct Program {
    folder: TempFolder,
    started_by: Option<Installed>,
    is_gasnet: bool,
}

/// Others that are here, their programs compiled.
pub(super) fn peers(missing: &mut Vec<String>) -> Vec<(Series, String, Program)> {
    let mut all = Vec::new();
    for (flavour, series) in [(Flavour::Mpich, g::MPICH), (Flavour::OpenMpi, g::OPEN_MPI)] {
        match Installed::find(flavour, &[]).and_then(|found| found.map(Program::of_mpi).transpose()) {
            Ok(Some((version, program))) => all.push((series, version, program)),
            Ok(None) => missing.push(format!("{}: package {}", series.name, if flavour == Flavour::Mpich { "libmpich-dev" } else { "libopenmpi-dev" })),
            Err(error) => missing.push(format!("{}: {error}", series.name)),
        }
    }
    match Program::compile("fabric", FABRIC, &[], &["-lfabric"]) {
        Ok(program) => {
            let said = find("fi_info").and_then(|info| run(Command::new(info).arg("--version")).ok()).unwrap_or_default();
            all.push((g::FABRIC, format!("libfabric {}", crate::peers::libfabric::version_of(&said)), program));
        }
        Err(error) => missing.push(format!("{}: package libfabric-dev ({error})", g::FABRIC.name)),
    }
    match std::env::var_os(GASNET_HOME).map(|home| Program::of_gasnet(Path::new(&home))) {
        Some(Ok((version, program))) => all.push((g::GASNET, version, program)),
        Some(Err(error)) => missing.push(format!("{}: {error}", g::GASNET.name)),
        None => missing.push(format!("{}: built from its source; the folder where it is installed in {GASNET_HOME}", g::GASNET.name)),
    }
    all
}

impl Program {
    fn file(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    fn of_mpi(installed: Installed) -> Result<(String, Self), Error> {
        let folder = sources(&format!("rma-{}", installed.flavour.suffix()), MPI)?;
        let program = Program { folder, started_by: None, is_gasnet: false };
        installed.compile(&program.folder.path().join("program.c"), &program.file())?;
        Ok((installed.title(), Program { started_by: Some(installed), ..program }))
    }

    /// With the flags that its pkg-config file names.
    fn of_gasnet(home: &Path) -> Result<(String, Self), Error> {
        let ask = |flag: &str| {
            let text = run(Command::new("pkg-config").env("PKG_CONFIG_PATH", home.join("lib/pkgconfig")).args([flag, "gasnet-smp-seq"]))?;
            Ok::<_, Error>(text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let (flags, libraries, version) = (ask("--cflags")?, ask("--libs")?, ask("--modversion")?.concat());
        let (flags, libraries): (Vec<&str>, Vec<&str>) = (flags.iter().map(String::as_str).collect(), libraries.iter().map(String::as_str).collect());
        let program = Self::compile("gasnet", GASNET, &flags, &libraries)?;
        Ok((format!("GASNet-EX {version}"), Program { is_gasnet: true, ..program }))
    }

    fn compile(name: &str, source: &str, flags: &[&str], libraries: &[&str]) -> Result<Self, Error> {
        let program = Program { folder: sources(&format!("rma-{name}"), source)?, started_by: None, is_gasnet: false };
        let mut command = Command::new("cc");
        command.args(["-O2", "-w"]).args(flags).arg("-o").arg(program.file()).arg(program.folder.path().join("program.c")).args(libraries);
        run_within(&mut command, TIME_MAX)?;
        Ok(program)
    }

    pub(super) fn command(&self, options: &Options, budget: &str) -> Command {
        let mut command = match &self.started_by {
            Some(installed) => {
                let mut command = installed.start(&[], 2);
                command.arg(self.file());
                command
            }
            None => Command::new(self.file()),
        };
        if self.is_gasnet {
            command.env("GASNET_PSHM_NODES", "2").env("GASNET_QUIET", "1");
        }
        command.args([cpus(options.session.pinning).as_str(), budget]);
        if options.groups.contains(&Group::Words) {
            command.args(["1", "2", "4", "8", "24"]);
        }
        if options.groups.contains(&Group::Bulk) {
            command.args(bulk_sizes(options.quick).iter().map(u64::to_string));
        }
        command
    }
}

/// A folder with a program and what it includes.
fn sources(name: &str, source: &str) -> Result<TempFolder, Error> {
    let folder = TempFolder::create(name)?;
    std::fs::write(folder.path().join("rma.h"), HEADER)?;
    std::fs::write(folder.path().join("program.c"), source)?;
    Ok(folder)
}
