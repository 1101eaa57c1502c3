// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facilities of the kernel that the data path uses, each tried as the engine would use it.

use std::path::Path;

use bellwire_memory::event::Bell;
use bellwire_memory::region::{Access, Region, RegionKind, RemoteRegion};
use bellwire_memory::{membarrier, pidfd, reserve};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;

use super::attach::{self, Settings};
use super::probe::{self, Attaching};
use super::{Fact, Status, bytes_text};

/// Bytes of the region that is tried: what a link of two NICs needs, roughly.
const TRIAL_BYTES: usize = 4 << 20;
/// A bell that was rung is heard at once; this is the end of patience.
const RING_TIME_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Available memory below which links and allocations may fail.
const COMFORT_BYTES: u64 = 64 << 20;

/// Adds the facts.
pub(super) fn inspect(helper: (&Path, &str), facts: &mut Vec<Fact>) {
    shared_memory(facts);
    memory_left(facts);
    match probe::attaching(helper) {
        Ok(attaching) => attach_facts(&attaching, attach::settings(), facts),
        Err(error) => facts.push(Fact::new("memory", "cross-memory attach", Status::Missing, "not tried", error.to_string())),
    }
    facts.push(Fact::new(
        "memory",
        "bounce buffers",
        Status::Ok,
        "always",
        "memory that can be neither mapped nor attached to moves through the link's shared lines, by both sides",
    ));
    barriers(facts);
    sleeping(facts);
    death(facts);
}

fn shared_memory(facts: &mut Vec<Fact>) {
    let tried = || {
        let region = Region::create("bellwire-info", TRIAL_BYTES, RegionKind::WriterOwned)?;
        RemoteRegion::map(region.read_only_fd()?, 1, TRIAL_BYTES, Access::ReadOnly).map(drop)
    };
    facts.push(match tried() {
        Ok(()) => Fact::new(
            "memory",
            "shared memory",
            Status::Ok,
            "memfd with seals",
            format!("{} reserved, sealed, mapped read-only through a second descriptor", bytes_text(TRIAL_BYTES as u64)),
        ),
        Err(error) => Fact::new("memory", "shared memory", Status::Broken, "does not work", error.to_string())
            .advise("Linux 5.1 or later with /proc mounted, memfd_create allowed by the sandbox, and some free memory are needed"),
    });
    let size = rustix::fs::statvfs("/dev/shm").map_or_else(|_| "not mounted".to_owned(), |fs| bytes_text(fs.f_blocks.saturating_mul(fs.f_frsize)));
    facts.push(Fact::new("memory", "/dev/shm", Status::Plain, size, "irrelevant: no file is made there, memfds do not count against it"));
}

fn memory_left(facts: &mut Vec<Fact>) {
    let available = reserve::available_bytes();
    let reason = "what may be taken now: the machine's available memory and the headroom of every memory cgroup above this process, whichever is least; regions are reserved when they are made, so there is no SIGBUS later";
    facts.push(match available {
        u64::MAX => Fact::new("memory", "available memory", Status::Plain, "unknown", "neither /proc/meminfo nor a memory cgroup can be read"),
        few if few < COMFORT_BYTES => Fact::new("memory", "available memory", Status::Limited, bytes_text(few), reason)
            .advise(format!("raise the memory limit: {} are kept free, and every peer takes some MiB", bytes_text(reserve::MARGIN_BYTES))),
        enough => Fact::new("memory", "available memory", Status::Ok, bytes_text(enough), reason),
    });
}

fn attach_facts(attaching: &Attaching, settings: Settings, facts: &mut Vec<Fact>) {
    const NAME: &str = "cross-memory attach";
    facts.push(match (attaching.sibling, attaching.consenting) {
        (Ok(()), _) => Fact::new("memory", NAME, Status::Ok, "between any two processes of this user", "process_vm_readv tried between two siblings"),
        (Err(errno), Some(Ok(()))) => {
            let (reason, _) = attach::explain(errno, settings);
            let reason = format!("{reason}; after prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) in the target it worked");
            Fact::new("memory", NAME, Status::Limited, "with the target's consent", reason)
                .advise("have the target consent, or use memory of VipxAllocMem, which needs none of this")
        }
        (Err(errno), _) => {
            let (reason, advice) = attach::explain(errno, settings);
            Fact::new("memory", NAME, Status::Missing, format!("refused ({})", errno_name(errno)), reason).advise(advice)
        }
    });
    facts.push(match attaching.child {
        Ok(()) => Fact::new("memory", "attach to a child", Status::Ok, "allowed", "process_vm_readv tried on a process started by this one"),
        Err(errno) => Fact::new("memory", "attach to a child", Status::Missing, format!("refused ({})", errno_name(errno)), attach::explain(errno, settings).0),
    });
    let yama = settings.yama.map_or("no Yama".to_owned(), |scope| format!("Yama ptrace_scope {scope}"));
    let seccomp = ["no seccomp", "strict seccomp", "seccomp filter"][settings.seccomp.min(2) as usize];
    let capability = if settings.capability { "CAP_SYS_PTRACE" } else { "no CAP_SYS_PTRACE" };
    let namespace = if settings.user_namespace { "own user namespace" } else { "first user namespace" };
    let dumpable = match rustix::process::dumpable_behavior() {
        Ok(rustix::process::DumpableBehavior::Dumpable) => "dumpable",
        _ => "not dumpable",
    };
    let value = format!("{yama}, {seccomp}, {capability}, {namespace}, {dumpable}");
    facts.push(Fact::new("memory", "attach settings", Status::Plain, value, "what may explain the lines above; the trial decides"));
}

/// `EPERM` and its like.
pub(super) fn errno_name(errno: rustix::io::Errno) -> &'static str {
    use rustix::io::Errno;
    match errno {
        Errno::PERM => "EPERM",
        Errno::ACCESS => "EACCES",
        Errno::NOSYS => "ENOSYS",
        Errno::SRCH => "ESRCH",
        Errno::FAULT => "EFAULT",
        Errno::IO => "other bytes arrived",
        _ => "error",
    }
}

fn barriers(facts: &mut Vec<Fact>) {
    let support = membarrier::register();
    for (name, there, what) in [
        ("membarrier, private", support.private_expedited, "the progress token costs one plain store per call instead of a locked instruction"),
        ("membarrier, global", support.global_expedited, "who goes to sleep pays for the fence, not every sender"),
    ] {
        facts.push(if there {
            Fact::new("waiting", name, Status::Ok, "works", what)
        } else {
            Fact::new("waiting", name, Status::Limited, "refused", "by the kernel or a seccomp filter; full fences are used instead, some 10 ns per message")
                .advise("allow membarrier(2) in the sandbox's profile; Linux 4.16 or later")
        });
    }
}

fn sleeping(facts: &mut Vec<Fact>) {
    let tried = || {
        let bell = Bell::create()?;
        bell.ring()?;
        let fd = bell.fd();
        Ok::<bool, bellwire_memory::MemoryError>(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&RING_TIME_MAX)).is_ok_and(|ready| ready == 1))
    };
    facts.push(match tried() {
        Ok(true) => Fact::new("waiting", "eventfd", Status::Ok, "works", "sleeping and waking, also through epoll"),
        Ok(false) => Fact::new("waiting", "eventfd", Status::Broken, "does not ring", "an eventfd was rung and did not wake its waiter"),
        Err(error) => Fact::new("waiting", "eventfd", Status::Broken, "refused", error.to_string()).advise("allow eventfd2 and poll in the sandbox's profile"),
    });
}

fn death(facts: &mut Vec<Fact>) {
    facts.push(match pidfd::own().and_then(|fd| pidfd::has_exited(fd.as_fd())) {
        Ok(_) => Fact::new("waiting", "pidfd", Status::Ok, "works", "the death of a peer is noticed within milliseconds, whatever it died of"),
        Err(error) => Fact::new("waiting", "pidfd", Status::Limited, "refused", format!("{error}; death is noticed when the peer's socket closes"))
            .advise("Linux 5.3 or later; allow pidfd_open in the sandbox's profile"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn facts_of(attaching: Attaching, settings: Settings) -> Vec<Fact> {
        let mut facts = Vec::new();
        attach_facts(&attaching, settings, &mut facts);
        facts
    }

    #[test]
    fn siblings_decide_not_children() {
        let yama = Settings { yama: Some(1), ..Settings::default() };
        let fact = &facts_of(Attaching { child: Ok(()), sibling: Err(Errno::PERM), consenting: Some(Ok(())) }, yama)[0];
        assert_eq!(fact.status, Status::Limited);
        assert!(fact.reason.contains("ptrace_scope 1") && !fact.advice.is_empty());
        let fact = &facts_of(Attaching { child: Ok(()), sibling: Err(Errno::PERM), consenting: None }, yama)[0];
        assert_eq!((fact.status, fact.value.as_str()), (Status::Missing, "refused (EPERM)"));
        let fact = &facts_of(Attaching { child: Ok(()), sibling: Ok(()), consenting: None }, yama)[0];
        assert_eq!(fact.status, Status::Ok);
    }

    #[test]
    fn what_the_engine_needs_works_where_tests_run() {
        let mut facts = Vec::new();
        shared_memory(&mut facts);
        sleeping(&mut facts);
        assert_eq!(facts.iter().filter(|fact| fact.status == Status::Ok).count(), 2, "{facts:?}");
    }
}
