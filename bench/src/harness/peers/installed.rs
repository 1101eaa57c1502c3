// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the MPIs of this host are: in folders that the caller names, or on the path; what compiles
//! and what starts their programs.
//!
//! An MPI is known by what its launcher says of itself, so that it does not matter what its files
//! are called. Called by `peers/mpi.rs` and by `mpi/`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::{find, is_executable, run};
use crate::error::Error;

/// What is said where Intel MPI is missing.
pub const INTEL_HINT: &str = "Intel MPI: pip install impi-rt, and its folder in I_MPI_ROOT";

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
    /// All of them.
    pub const ALL: [Flavour; 3] = [Flavour::Mpich, Flavour::OpenMpi, Flavour::Intel];

    /// As file names have it.
    pub fn suffix(self) -> &'static str {
        match self {
            Flavour::Mpich => "mpich",
            Flavour::OpenMpi => "openmpi",
            Flavour::Intel => "intel",
        }
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Mpich => "MPICH",
            Flavour::OpenMpi => "Open MPI",
            Flavour::Intel => "Intel MPI",
        }
    }

    /// Whose launcher says this of itself.
    fn of(version: &str) -> Option<Self> {
        let speaks = |words: &[&str]| words.iter().any(|word| version.contains(word));
        match () {
            () if speaks(&["Intel(R) MPI"]) => Some(Flavour::Intel),
            () if speaks(&["Open MPI", "OpenRTE", "PRRTE"]) => Some(Flavour::OpenMpi),
            () if speaks(&["HYDRA"]) => Some(Flavour::Mpich),
            () => None,
        }
    }
}

/// An MPI of this host.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Which.
    pub flavour: Flavour,
    /// Its version, if the launcher tells.
    pub version: String,
    /// Its `mpiexec`.
    pub launcher: PathBuf,
    compiler: PathBuf,
    /// Before the source.
    options: Vec<OsString>,
    /// Behind it.
    linked: Vec<OsString>,
}

impl Installed {
    /// The first MPI of this flavour in `folders`, each of which holds a `bin`, or on the path;
    /// nothing if there is none.
    ///
    /// # Errors
    /// If it is there in part.
    pub fn find(flavour: Flavour, folders: &[PathBuf]) -> Result<Option<Self>, Error> {
        let root = std::env::var_os("I_MPI_ROOT").filter(|_| flavour == Flavour::Intel).map(PathBuf::from);
        let named = folders.iter().cloned().chain(root).map(|folder| folder.join("bin/mpiexec"));
        let suffixed = find(&format!("mpirun.{}", flavour.suffix()));
        let launchers = named.chain(suffixed).chain(find("mpiexec.hydra")).chain(find("mpiexec"));
        for launcher in launchers.filter(|file| is_executable(file)) {
            let said = run(Command::new(&launcher).arg("--version")).unwrap_or_default();
            if Flavour::of(&said) == Some(flavour) {
                return Self::of_launcher(flavour, launcher, parse_version(&said).unwrap_or_default(), folders).map(Some);
            }
        }
        Ok(None)
    }

    fn of_launcher(flavour: Flavour, launcher: PathBuf, version: String, folders: &[PathBuf]) -> Result<Self, Error> {
        let (compiler, options, linked) = match flavour {
            Flavour::Intel => intel_compiler(&launcher, folders)?,
            _ => (compiler_beside(flavour, &launcher)?, Vec::new(), Vec::new()),
        };
        Ok(Installed { flavour, version, launcher, compiler, options, linked })
    }

    /// Name and version.
    pub fn title(&self) -> String {
        format!("{} {}", self.flavour.name(), self.version)
    }

    /// Compiles a program.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn compile(&self, source: &Path, program: &Path) -> Result<(), Error> {
        let mut command = Command::new(&self.compiler);
        command.args(&self.options).args(["-O2", "-w", "-o"]).arg(program).arg(source).args(&self.linked);
        run(&mut command).map(drop).map_err(|error| error.within(&format!("compiling {} with {}", source.display(), self.compiler.display())))
    }

    /// A start, by the words of `prefix`, of so many processes on this host, not bound to
    /// processors, over loopback where launchers want a network; the program is to follow.
    pub fn start(&self, prefix: &[OsString], ranks: usize) -> Command {
        let mut words = prefix.iter().map(OsString::as_os_str).chain([self.launcher.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        if std::env::var_os("UCX_TLS").is_none() {
            command.env("UCX_TLS", "posix,cma,self");
        }
        command.env("UCX_LOG_LEVEL", "error").args(["-n", &ranks.to_string()]);
        match self.flavour {
            Flavour::Mpich => command.args(["-bind-to", "none", "-iface", "lo"]),
            // Fork: no remote shell for processes of this host.
            Flavour::Intel => command.env("I_MPI_PIN", "0").args(["-bootstrap", "fork", "-iface", "lo"]),
            Flavour::OpenMpi => {
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                // Version 5 has no use for the first.
                command.env("OMPI_MCA_oob_tcp_if_include", "lo").env("OMPI_MCA_btl_tcp_if_include", "lo");
                command.args(["--oversubscribe", "--bind-to", "none"])
            }
        };
        command
    }

    /// Whether it can run on libfabric at all; without it there is its own way alone.
    pub fn has_libfabric(&self) -> bool {
        match self.flavour {
            Flavour::Intel => true,
            Flavour::OpenMpi => self.says(&["ompi_info"], |line| line.contains("MCA mtl: ofi")),
            Flavour::Mpich => self.says(&["mpichversion.mpich", "mpichversion"], |line| line.starts_with("MPICH Device:") && line.contains("ofi")),
        }
    }

    /// Whether one of its programs prints such a line.
    fn says(&self, programs: &[&str], wanted: impl Fn(&str) -> bool) -> bool {
        let text = beside(&self.launcher, programs).and_then(|program| run(&mut Command::new(program)).ok());
        text.is_some_and(|text| text.lines().any(wanted))
    }
}

/// The first of these programs beside the launcher.
fn beside(launcher: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| launcher.with_file_name(name)).find(|file| is_executable(file))
}

fn compiler_beside(flavour: Flavour, launcher: &Path) -> Result<PathBuf, Error> {
    let compiler = beside(launcher, &[&format!("mpicc.{}", flavour.suffix()), "mpicc"]);
    compiler.ok_or_else(|| Error::failed(format!("{} has no mpicc beside it", launcher.display())))
}

/// What compiles for Intel MPI: the host's compiler with the header that is beside it, or, since
/// its run-time package has none, MPICH's: both keep one binary interface.
fn intel_compiler(launcher: &Path, folders: &[PathBuf]) -> Result<(PathBuf, Vec<OsString>, Vec<OsString>), Error> {
    // The launcher may be a link to where the package is.
    let real = launcher.canonicalize().unwrap_or_else(|_| launcher.to_owned());
    let roots = [launcher, &real].map(|file| file.parent().and_then(Path::parent).map(Path::to_owned));
    let places = roots.into_iter().flatten().flat_map(|root| ["lib/libmpi.so.12", "lib/release/libmpi.so.12"].map(|name| (root.clone(), root.join(name))));
    let found = places.into_iter().find(|(_, library)| library.exists());
    let (root, library) = found.ok_or_else(|| Error::failed(format!("no lib/libmpi.so.12 beside {}", launcher.display())))?;
    let own = Some(root.join("include")).filter(|folder| folder.join("mpi.h").exists());
    let include =
        own.or_else(|| mpich_include(folders)).ok_or_else(|| Error::failed("found, but no mpi.h: install an MPICH (libmpich-dev), whose header fits"))?;
    let mut runtime = OsString::from("-Wl,--allow-shlib-undefined,-rpath,");
    runtime.push(library.parent().map(Path::as_os_str).unwrap_or_default());
    Ok((PathBuf::from("cc"), vec!["-I".into(), include.into_os_string()], vec![library.into_os_string(), runtime]))
}

fn mpich_include(folders: &[PathBuf]) -> Option<PathBuf> {
    let mpich = Installed::find(Flavour::Mpich, folders).ok()??;
    let text = run(Command::new(mpich.compiler).arg("-show")).ok()?;
    text.split_whitespace().find_map(|word| word.strip_prefix("-I")).map(PathBuf::from)
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

    const SAID: [(&str, Option<Flavour>, &str); 5] = [
        ("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs", Some(Flavour::OpenMpi), "4.1.4"),
        ("mpiexec (Open MPI) 5.0.11\n", Some(Flavour::OpenMpi), "5.0.11"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: x)\n", Some(Flavour::Intel), "2021.18.1"),
        ("HYDRA build details:\n    Version:     4.0.2\n", Some(Flavour::Mpich), "4.0.2"),
        ("slurm 22.05.8", None, "22.05.8"),
    ];

    #[test]
    fn launchers_say_whose_they_are() {
        for (said, flavour, version) in SAID {
            assert_eq!((Flavour::of(said), parse_version(said).as_deref()), (flavour, Some(version)), "{said}");
        }
    }

    #[test]
    fn an_mpi_in_a_folder_is_found_and_needs_a_compiler() {
        use std::os::unix::fs::PermissionsExt;
        let folder = crate::cleanup::TempFolder::create("installed").unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let program = |name: &str, text: &str| {
            std::fs::write(bin.join(name), text).unwrap();
            std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        program("mpiexec", "#!/bin/sh\necho 'mpiexec (Open MPI) 5.0.99'\n");
        let folders = [folder.path().to_owned()];
        let error = Installed::find(Flavour::OpenMpi, &folders).unwrap_err();
        assert!(error.to_string().contains("no mpicc"), "{error}");
        program("mpicc", "#!/bin/sh\nexit 1\n");
        program("ompi_info", "#!/bin/sh\necho ' MCA mtl: ofi (MCA v2.1.0)'\n");
        let found = Installed::find(Flavour::OpenMpi, &folders).unwrap().unwrap();
        assert_eq!((found.title().as_str(), found.has_libfabric()), ("Open MPI 5.0.99", true));
        assert!(found.compile(Path::new("x.c"), Path::new("x")).is_err());
    }
}
