// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian's MPICH and Open MPI, and Intel MPI, measured with a small MPI program of our own, compiled into a temporary folder: with the compiler wrapper of
//! each of the first two; for Intel MPI, whose run-time package brings no compiler, with MPICH's header, since both keep one binary interface.
//!
//! Received data is not read, and all receives use one buffer, as in the usual MPI benchmarks.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use super::process::{find, run};
use crate::cleanup::TempFolder;
use crate::error::Error;
use crate::pin::Pinning;

/// The program.
const SOURCE: &str = include_str!("../../../../scripts/peers/mpi_bench.c");
/// What is said where Intel MPI is missing.
pub const INTEL_HINT: &str = "Intel MPI: pip install impi-rt, and its folder in I_MPI_ROOT";
/// Milliseconds per figure.
const BUDGET_MS: &str = "16";

/// Which MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// MPICH.
    Mpich,
    /// Open MPI.
    OpenMpi,
    /// Intel MPI.
    Intel,
}

impl Flavour {
    fn suffix(self) -> &'static str {
        match self {
            Flavour::Mpich => "mpich",
            Flavour::OpenMpi => "openmpi",
            Flavour::Intel => "intel",
        }
    }
}

/// What a line of the program's output is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Half round trip, ns.
    Latency,
    /// Messages per second.
    Rate,
    /// Bytes per second.
    Bandwidth,
}

/// One figure of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Which.
    pub what: What,
    /// Bytes of a message.
    pub size: usize,
    /// In the unit of [`What`].
    pub value: f64,
}

/// An MPI with the program compiled for it.
#[derive(Debug)]
pub struct Mpi {
    launcher: PathBuf,
    flavour: Flavour,
    directory: TempFolder,
    /// Version, if the launcher tells.
    pub version: String,
}

impl Mpi {
    /// The MPI as installed, with the program compiled, or nothing if it is not installed.
    ///
    /// # Errors
    /// If it is installed but does not compile the program.
    pub fn find(flavour: Flavour) -> Result<Option<Self>, Error> {
        let tools = if flavour == Flavour::Intel { intel_tools()? } else { tools(flavour) };
        let Some((mut compiler, launcher, linked)) = tools else { return Ok(None) };
        let directory = TempFolder::create(flavour.suffix())?;
        let mut mpi = Mpi { launcher, flavour, directory, version: String::new() };
        let source = mpi.directory.path().join("mpi_bench.c");
        std::fs::write(&source, SOURCE)?;
        run(compiler.args(["-O2", "-w", "-o"]).arg(mpi.program()).arg(&source).args(linked)).map_err(|error| error.within("compiling mpi_bench.c"))?;
        mpi.version = run(Command::new(&mpi.launcher).arg("--version")).ok().and_then(|text| parse_version(&text)).unwrap_or_default();
        Ok(Some(mpi))
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("mpi_bench")
    }

    /// All figures for these sizes.
    ///
    /// # Errors
    /// If the program fails or prints something else than expected.
    pub fn measure(&self, sizes: &[usize], pinning: Pinning) -> Result<Vec<Figure>, Error> {
        let cpus = match pinning {
            Pinning::Pair(a, b) => format!("{a},{b}"),
            Pinning::None => "-".to_owned(),
        };
        let mut command = Command::new(&self.launcher);
        if std::env::var_os("UCX_TLS").is_none() {
            command.env("UCX_TLS", "posix,cma,self");
        }
        command.env("UCX_LOG_LEVEL", "error").args(["-n", "2"]);
        match self.flavour {
            Flavour::Mpich => command.args(["-bind-to", "none", "-iface", "lo"]),
            // The program pins itself. Fork: no remote shell for processes of this host.
            Flavour::Intel => command.env("I_MPI_FABRICS", "shm").env("I_MPI_PIN", "0").args(["-bootstrap", "fork", "-iface", "lo"]),
            Flavour::OpenMpi => {
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                command.args(["--oversubscribe", "--bind-to", "none", "--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo"])
            }
        };
        command.arg(self.program()).args([&cpus, BUDGET_MS]).args(sizes.iter().map(usize::to_string));
        let figures = parse(&run(&mut command)?);
        if figures.is_empty() { Err(Error::failed("no figures in the output")) } else { Ok(figures) }
    }
}

/// Compiler, launcher, and what is linked in the end.
type Tools = (Command, PathBuf, Vec<OsString>);

fn tools(flavour: Flavour) -> Option<Tools> {
    let compiler = find(&format!("mpicc.{}", flavour.suffix()))?;
    let launcher = find(&format!("mpirun.{}", flavour.suffix()))?;
    Some((Command::new(compiler), launcher, Vec::new()))
}

/// Intel MPI: under `I_MPI_ROOT`, or wherever an `mpiexec` on the path belongs to it. The library stands beside the launcher's folder.
fn intel_tools() -> Result<Option<Tools>, Error> {
    let root = std::env::var_os("I_MPI_ROOT").map(PathBuf::from).or_else(|| intel_root(&find("mpiexec.hydra").or_else(|| find("mpiexec"))?));
    let Some(root) = root else { return Ok(None) };
    let (launcher, library) = (root.join("bin/mpiexec"), root.join("lib/libmpi.so.12"));
    let library = if library.exists() { library } else { root.join("lib/release/libmpi.so.12") };
    if !launcher.exists() || !library.exists() {
        return Err(Error::failed(format!("no bin/mpiexec or lib/libmpi.so.12 in {}", root.display())));
    }
    let include = if root.join("include/mpi.h").exists() { Some(root.join("include")) } else { mpich_include() };
    let include = include.ok_or_else(|| Error::failed("found, but no mpi.h: install libmpich-dev, whose header fits"))?;
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(include);
    let folder = library.parent().map(|path| path.as_os_str().to_owned()).unwrap_or_default();
    let mut runtime = OsString::from("-Wl,--allow-shlib-undefined,-rpath,");
    runtime.push(folder);
    Ok(Some((compiler, launcher, vec![library.into_os_string(), runtime])))
}

/// The installation that a launcher belongs to, if it is one of Intel MPI.
fn intel_root(launcher: &std::path::Path) -> Option<PathBuf> {
    let text = run(Command::new(launcher).arg("--version")).ok()?;
    text.contains("Intel(R) MPI").then(|| launcher.parent()?.parent().map(PathBuf::from)).flatten()
}

fn mpich_include() -> Option<PathBuf> {
    let text = run(Command::new(find("mpicc.mpich")?).arg("-show")).ok()?;
    text.split_whitespace().find_map(|word| word.strip_prefix("-I")).map(PathBuf::from)
}

fn parse(text: &str) -> Vec<Figure> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Figure> {
    let mut fields = line.split_whitespace();
    let what = match fields.next()? {
        "latency" => What::Latency,
        "rate" => What::Rate,
        "bandwidth" => What::Bandwidth,
        _ => return None,
    };
    let size = fields.next()?.parse().ok()?;
    let value = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some(Figure { what, size, value })
}

/// The first word that looks like a version number.
fn parse_version(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_noise() {
        let text = "latency 8 113.181\nrate 8 15106631.6\n--- a warning of the launcher ---\nbandwidth 65536 12168890701.2\nlatency 8\n";
        let figure = |what, size, value| Figure { what, size, value };
        assert_eq!(parse(text), vec![figure(What::Latency, 8, 113.181), figure(What::Rate, 8, 15_106_631.6), figure(What::Bandwidth, 65536, 12_168_890_701.2)]);
    }

    #[test]
    fn versions() {
        assert_eq!(parse_version("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs").as_deref(), Some("4.1.4"));
        assert_eq!(parse_version("Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: x)\n").as_deref(), Some("2021.18.1"));
        assert_eq!(parse_version("HYDRA build details:\n    Version:     4.0.2\n").as_deref(), Some("4.0.2"));
    }
}
