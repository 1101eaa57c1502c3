// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cross-memory attach (`process_vm_readv`) and why it is refused: tried with the real call, never guessed from a setting. What the settings say
//! comes afterwards, as the reason.
//!
//! Called by [`super::ways`] and [`super::peer`]. The call copies into a buffer of ours; what the address is in the other process is the kernel's matter.

use std::fs;

use rustix::io::Errno;

/// Reads memory of another process into `into`; how many bytes were read.
///
/// # Errors
/// What the kernel says: `EPERM` not allowed, `ESRCH` no such process, `EFAULT` not mapped there, `ENOSYS` no such call.
pub fn read(pid: i32, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the local vector is the exclusively borrowed slice; the remote address is only interpreted by the kernel, in the other process.
    let count = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    usize::try_from(count).map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Settings that decide on attaching, as far as they can be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// Yama's `ptrace_scope`; nothing where Yama is not there.
    pub yama: Option<u32>,
    /// Whether the calling process may attach to any process of its user namespace (`CAP_SYS_PTRACE`).
    pub capability: bool,
    /// `Seccomp:` of /proc/self/status: 0 off, 1 strict, 2 a filter.
    pub seccomp: u32,
    /// Whether the process is in a user namespace of its own, not the machine's first.
    pub user_namespace: bool,
}

/// Position of `CAP_SYS_PTRACE` in the capability sets.
const CAP_SYS_PTRACE: u32 = 19;

/// The settings of this process.
pub fn settings() -> Settings {
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok().and_then(|text| text.trim().parse().ok());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    parse(yama, &status, &map)
}

fn parse(yama: Option<u32>, status: &str, uid_map: &str) -> Settings {
    let effective = super::status_field(status, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
    let seccomp = super::status_field(status, "Seccomp").and_then(|text| text.parse().ok()).unwrap_or(0);
    let fields: Vec<&str> = uid_map.split_whitespace().collect();
    let first_namespace = fields.is_empty() || fields == ["0", "0", "4294967295"];
    Settings { yama, capability: effective >> CAP_SYS_PTRACE & 1 == 1, seccomp, user_namespace: !first_namespace }
}

/// Why an attach failed, and what can be done.
pub fn explain(errno: Errno, settings: Settings) -> (String, String) {
    match errno {
        Errno::PERM | Errno::ACCESS => refused(settings),
        Errno::NOSYS => ("the kernel has no such call, or a sandbox hides it".to_owned(), "nothing needed: user memory moves through buffers".to_owned()),
        Errno::SRCH => ("the process is gone, or of another pid namespace".to_owned(), "share the pid namespace (docker run --pid=container:NAME)".to_owned()),
        other => (format!("{}", std::io::Error::from(other)), String::new()),
    }
}

fn refused(settings: Settings) -> (String, String) {
    let scope = settings.yama.unwrap_or(0);
    if scope >= 3 {
        return ("Yama forbids it for everybody (ptrace_scope 3)".to_owned(), "as root, and after a restart: sysctl kernel.yama.ptrace_scope=1".to_owned());
    }
    if scope == 2 && !settings.capability {
        return (
            "Yama allows it with CAP_SYS_PTRACE only (ptrace_scope 2)".to_owned(),
            "docker run --cap-add=SYS_PTRACE, or as root: sysctl kernel.yama.ptrace_scope=0".to_owned(),
        );
    }
    if scope == 1 && !settings.capability {
        let advice = "the target may consent: prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); or as root: sysctl kernel.yama.ptrace_scope=0";
        return ("Yama allows it to ancestors only (ptrace_scope 1)".to_owned(), advice.to_owned());
    }
    if settings.seccomp == 2 {
        return (
            "a seccomp filter is active and probably refuses the call".to_owned(),
            "docker run --cap-add=SYS_PTRACE, or a seccomp profile that allows process_vm_readv".to_owned(),
        );
    }
    let reason = "different user or capabilities, or the target is not dumpable (it changed its user, or prctl(PR_SET_DUMPABLE, 0))";
    (reason.to_owned(), "run both as one user, with the same capabilities".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_another_process_or_says_why_not() {
        // Of oneself it is always allowed, unless the call itself is not there.
        let secret = [7_u8, 8, 9];
        let mut copy = [0; 3];
        match read(std::process::id() as i32, secret.as_ptr() as u64, &mut copy) {
            Ok(count) => assert_eq!((count, copy), (3, secret)),
            Err(errno) => assert!(matches!(errno, Errno::NOSYS | Errno::PERM), "{errno:?}"),
        }
        assert!(read(std::process::id() as i32, 0, &mut copy).is_err());
        assert!(read(-1, 0, &mut copy).is_err());
    }

    #[test]
    fn settings_are_parsed() {
        let with = |yama, caps: &str, seccomp, map: &str| parse(yama, &format!("Name:\tx\nCapEff:\t{caps}\nSeccomp:\t{seccomp}\nSeccomp_filters:\t3\n"), map);
        let root = with(Some(1), "000001ffffffffff", 0, "         0          0 4294967295\n");
        assert_eq!(root, Settings { yama: Some(1), capability: true, seccomp: 0, user_namespace: false });
        let boxed = with(None, "00000000a80425fb", 2, "0 100000 65536\n");
        assert_eq!(boxed, Settings { yama: None, capability: false, seccomp: 2, user_namespace: true });
    }

    #[test]
    fn reasons_name_the_setting() {
        let settings = |yama, capability, seccomp| Settings { yama, capability, seccomp, user_namespace: false };
        assert!(explain(Errno::PERM, settings(Some(1), false, 0)).0.contains("ptrace_scope 1"));
        assert!(explain(Errno::PERM, settings(Some(2), false, 0)).1.contains("SYS_PTRACE"));
        assert!(explain(Errno::PERM, settings(Some(3), true, 0)).0.contains("everybody"));
        assert!(explain(Errno::PERM, settings(Some(1), true, 2)).0.contains("seccomp"));
        assert!(explain(Errno::PERM, settings(None, false, 0)).0.contains("dumpable"));
        assert!(explain(Errno::SRCH, settings(None, false, 0)).1.contains("pid namespace"));
    }
}
