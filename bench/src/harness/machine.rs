// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of the machine and the moment, printed above every table and put into every JSON
//! file.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::pin::{self, Pinning};

/// Description of the machine.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu_model: String,
    /// Processors this process may use.
    pub cpus: usize,
    /// Processors of the two processes, if pinned.
    pub pinned: Option<[usize; 2]>,
    /// Operating system and release.
    pub kernel: String,
    /// UTC, ISO 8601.
    pub date: String,
    /// Version of this program.
    pub version: String,
}

/// Describes this machine now.
pub fn describe(pinning: Pinning) -> Machine {
    let uname = rustix::system::uname();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Machine {
        cpu_model: cpu_model(&cpuinfo).unwrap_or_else(|| uname.machine().to_string_lossy().into_owned()),
        cpus: pin::allowed().len(),
        pinned: match pinning {
            Pinning::Pair(a, b) => Some([a, b]),
            Pinning::None => None,
        },
        kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
        date: iso_date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Seconds since 1970 as a UTC date and time.
fn iso_date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut day) = (1970, days);
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if day < length {
            break;
        }
        day -= length;
        year += 1;
    }
    let mut month = 1;
    for length in [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z", day + 1, rest / 3600, rest / 60 % 60, rest % 60)
}

fn leap(year: u64) -> bool {
    (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(iso_date(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_date(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(iso_date(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn model_line() {
        assert_eq!(cpu_model("processor : 0\nmodel name\t: Some CPU @ 3\nmodel name: x\n").as_deref(), Some("Some CPU @ 3"));
        assert_eq!(cpu_model("nothing"), None);
    }
}
