// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the messages of a program go: what it is started by, the variables that it is told, and the
//! proof that its data went there.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Options;
use crate::error::Error;
use crate::peers::process::run_pair_within;
use crate::samples::{Kind, Series};

/// A way.
#[derive(Debug, Clone)]
pub(super) struct Way {
    /// `bellwire`, if the program is to find Bellwire's device.
    device_by: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    /// Its column.
    pub series: Series,
}

/// Variables of the caller that would lead a program elsewhere.
const FOREIGN: [&str; 5] = ["UCX_TLS", "UCX_NET_DEVICES", "FI_PROVIDER", "FI_PROVIDER_PATH", "LD_PRELOAD"];

impl Way {
    /// As the library does it by itself, with these variables.
    pub fn own(series: Series, environment: &[(&str, &str)]) -> Self {
        let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        Way { device_by: None, environment, series }
    }

    /// Over Bellwire's device, which the program finds under `bellwire run --verbs`.
    pub fn device(bellwire: &Path, series: Series, environment: &[(&str, &str)]) -> Self {
        Way { device_by: Some(bellwire.to_owned()), ..Self::own(series, environment) }
    }

    /// With variables that somebody else has put together.
    pub fn told(series: Series, environment: Vec<(OsString, OsString)>) -> Self {
        Way { device_by: None, environment, series }
    }

    /// Whether a failure is one of ours.
    pub fn is_ours(&self) -> bool {
        self.series.kind == Kind::Ours
    }

    /// The words before the program.
    pub fn prefix(&self) -> Vec<OsString> {
        self.device_by.iter().flat_map(|bellwire| [bellwire.into(), "run".into(), "--verbs".into()]).collect()
    }

    /// Its variables.
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// A start of the program.
    pub fn command(&self, program: &Path) -> Command {
        let words: Vec<OsString> = self.prefix().into_iter().chain([program.into()]).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        self.tell(&mut command);
        command
    }

    /// Sets the variables, and takes those away that would lead elsewhere.
    pub fn tell(&self, command: &mut Command) {
        FOREIGN.iter().for_each(|name| _ = command.env_remove(name));
        command.envs(self.environment.iter().map(|(name, value)| (name as &OsStr, value)));
    }
}

/// Runs a server and a client, each made by `command`, which is told whether it is the client; what
/// the client printed.
///
/// # Errors
/// If one does not start, fails or takes too long.
pub(super) fn pair(options: &Options, port: u16, command: impl Fn(bool) -> Command) -> Result<String, Error> {
    run_pair_within(&mut command(false), command(true).arg("127.0.0.1"), port, options.session.pinning, TIME_MAX)
}

/// How long a pair may take: on a busy machine each message may wait for a processor.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The transports of UCX that could carry messages.
const TRANSPORTS: [&str; 8] = ["rc_verbs/", "ud_verbs/", "tcp/", "posix/", "sysv/", "cma/", "knem/", "xpmem/"];

/// Whether UCX says that its endpoints are of `wanted`, and of no transport but the `allowed`.
///
/// # Errors
/// If they are not.
pub(super) fn ucx_went_by(text: &str, wanted: &str, allowed: &[&str]) -> Result<(), Error> {
    let ends: Vec<&str> = text.lines().filter(|line| line.contains("cfg[") || line.contains("cfg#")).collect();
    let is_foreign = |line: &&&str| TRANSPORTS.iter().any(|name| line.contains(name) && !wanted.starts_with(name) && !allowed.contains(name));
    match ends.iter().find(is_foreign) {
        Some(line) => Err(Error::failed(format!("the data did not go by {wanted} alone: {}", line.trim()))),
        None if ends.iter().any(|line| line.contains(wanted)) => Ok(()),
        None => Err(Error::failed(format!("UCX does not say that the data went by {wanted}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::series as s;

    #[test]
    fn only_the_transport_that_is_measured_may_carry() {
        let says = |line: &str| format!("[1.2] ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: {line}\n   1000  5.5  0.1\n");
        assert!(ucx_went_by(&says("tag(rc_verbs/bellwire0:1)"), "rc_verbs/bellwire0:1", &[]).is_ok());
        assert!(ucx_went_by(&says("tag(self/memory posix/memory cma/memory)"), "posix/", &["cma/"]).is_ok());
        for (line, wanted) in
            [("tag(rc_verbs/bellwire0:1 tcp/lo)", "rc_verbs/bellwire0:1"), ("tag(tcp/eth0)", "tcp/lo"), ("tag(rc_verbs/mlx5_0:1)", "rc_verbs/bellwire0:1")]
        {
            assert!(ucx_went_by(&says(line), wanted, &[]).is_err(), "{line}");
        }
        assert!(ucx_went_by("", "tcp/lo", &[]).is_err());
    }

    #[test]
    fn a_program_finds_the_device_and_nothing_else() {
        let way = Way::device(Path::new("/b/bellwire"), s::STACK_RC, &[("UCX_TLS", "rc_v,self")]);
        let command = way.command(Path::new("/bin/prog"));
        let words: Vec<&OsStr> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
        assert_eq!(words, ["/b/bellwire", "run", "--verbs", "/bin/prog"]);
        let told: Vec<_> = command.get_envs().collect();
        assert!(told.contains(&(OsStr::new("UCX_TLS"), Some(OsStr::new("rc_v,self")))) && told.contains(&(OsStr::new("FI_PROVIDER"), None)));
        assert!(way.is_ours() && !Way::own(s::UCX_TCP, &[]).is_ours());
    }
}
