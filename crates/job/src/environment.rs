// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launcher of this process, by the variables that launchers set.

use std::time::Duration;

use crate::error::Error;

/// In what way this process was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// By nobody in particular: a job of one.
    Alone,
    /// By a launcher that speaks PMI-1: `bellwire run`, MPICH's `mpiexec`, Slurm's
    /// `srun --mpi=pmi2`.
    Pmi,
    /// By a launcher with a PMIx server: Open MPI's `mpirun`, Slurm's `srun --mpi=pmix`.
    Pmix,
}

impl Launcher {
    /// A word for it: `alone`, `pmi`, `pmix`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Pmi => "pmi",
            Self::Pmix => "pmix",
        }
    }
}

/// How to reach the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// There is none.
    Alone,
    /// PMI-1 on an inherited descriptor.
    Pmi {
        /// Its number.
        fd: i32,
        /// This process.
        rank: u32,
        /// All of them.
        size: u32,
    },
    /// PMIx, through its library.
    Pmix,
}

/// Processes of a job, at most: a limit for what the environment says, far above what a launcher
/// can start.
const SIZE_MAX: u32 = 1 << 20;

/// Finds the way. PMIx goes first: a launcher that set its variables inside another launcher's job
/// is the inner one. `BELLWIRE_JOB_VIA` decides where that is wrong.
///
/// # Errors
/// [`Error::Environment`], with what to do.
pub(crate) fn way(get: &dyn Fn(&str) -> Option<String>) -> Result<Way, Error> {
    match get("BELLWIRE_JOB_VIA").as_deref() {
        None | Some("" | "auto") => {}
        Some("alone") => return Ok(Way::Alone),
        Some("pmi") => return pmi(get),
        Some("pmix") => return Ok(Way::Pmix),
        Some(other) => return Err(Error::Environment(format!("BELLWIRE_JOB_VIA is \"{other}\": it may be auto, pmi, pmix or alone"))),
    }
    if get("PMIX_NAMESPACE").is_some() && get("PMIX_RANK").is_some() {
        Ok(Way::Pmix)
    } else if get("PMI_FD").is_some() {
        pmi(get)
    } else if get("PMI_PORT").is_some() {
        Err(Error::Environment("the launcher offers PMI by a TCP port (PMI_PORT), which is not supported: start mpiexec without -pmi-port".into()))
    } else if let Some(tasks) = get("SLURM_STEP_NUM_TASKS").filter(|tasks| tasks != "1" && get("SLURM_PROCID").is_some()) {
        Err(Error::Environment(format!(
            "srun started {tasks} processes without a way to find each other: add --mpi=pmix or --mpi=pmi2 (srun --mpi=list shows what there is)"
        )))
    } else {
        Ok(Way::Alone)
    }
}

fn pmi(get: &dyn Fn(&str) -> Option<String>) -> Result<Way, Error> {
    let number = |name: &str| -> Result<u32, Error> {
        let text =
            get(name).ok_or_else(|| Error::Environment(format!("{name} is not set: a launcher that speaks PMI-1 sets PMI_FD, PMI_RANK and PMI_SIZE")))?;
        text.parse().map_err(|_| Error::Environment(format!("{name} is \"{}\", not a number", text.escape_default())))
    };
    let (fd, rank, size) = (number("PMI_FD")?, number("PMI_RANK")?, number("PMI_SIZE")?);
    let fd = i32::try_from(fd).map_err(|_| Error::Environment(format!("PMI_FD is {fd}, which is no descriptor")))?;
    if size == 0 || size > SIZE_MAX || rank >= size {
        return Err(Error::Environment(format!("PMI_RANK is {rank} and PMI_SIZE {size}: a rank is below the size, and the size at most {SIZE_MAX}")));
    }
    Ok(Way::Pmi { fd, rank, size })
}

/// The time from `BELLWIRE_JOB_TIMEOUT_S`, if it is set.
///
/// # Errors
/// [`Error::Environment`] if it is not a positive number of seconds.
pub(crate) fn timeout(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Duration>, Error> {
    let Some(text) = get("BELLWIRE_JOB_TIMEOUT_S").filter(|text| !text.is_empty()) else { return Ok(None) };
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(Some(Duration::from_secs_f64(seconds))),
        _ => Err(Error::Environment(format!("BELLWIRE_JOB_TIMEOUT_S is \"{}\": it is a number of seconds above 0", text.escape_default()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Way, Error> {
        way(&|name| variables.iter().find(|v| v.0 == name).map(|v| v.1.to_owned()))
    }

    #[test]
    fn launchers() {
        assert_eq!(find(&[]), Ok(Way::Alone));
        assert_eq!(find(&[("PMI_FD", "6"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")]), Ok(Way::Pmi { fd: 6, rank: 1, size: 2 }));
        assert_eq!(find(&[("PMI_FD", "6"), ("PMIX_NAMESPACE", "n"), ("PMIX_RANK", "0")]), Ok(Way::Pmix));
        assert_eq!(find(&[("PMI_FD", "6"), ("BELLWIRE_JOB_VIA", "alone")]), Ok(Way::Alone));
        assert_eq!(find(&[("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")]), Ok(Way::Alone));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (variables, said) in [
            (&[("PMI_FD", "6")][..], "PMI_RANK"),
            (&[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")], "PMI_FD is \"x\""),
            (&[("PMI_FD", "-1"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")], "PMI_FD"),
            (&[("PMI_FD", "4294967295"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")], "no descriptor"),
            (&[("PMI_FD", "6"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")], "below the size"),
            (&[("PMI_FD", "6"), ("PMI_RANK", "0"), ("PMI_SIZE", "4000000000")], "below the size"),
            (&[("PMI_PORT", "h:1")], "-pmi-port"),
            (&[("BELLWIRE_JOB_VIA", "mpi")], "BELLWIRE_JOB_VIA"),
            (&[("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "0")], "--mpi=pmix"),
        ] {
            let error = find(variables).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn times() {
        let time = |text: &str| timeout(&|_| Some(text.to_owned()));
        assert_eq!(time("2.5"), Ok(Some(Duration::from_millis(2500))));
        assert_eq!(time(""), Ok(None));
        for text in ["0", "-1", "x", "inf", "nan", "1e300"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
