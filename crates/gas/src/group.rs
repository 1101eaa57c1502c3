// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processes share memory with this one: those of the same host, unless that is switched off.
//!
//! The launcher's word is not asked: two processes that it started side by side may live in
//! different network or process namespaces, and cannot map each other.

use bellwire_job::Job;
use rustix::fs::stat;

use crate::error::Error;

/// The processes that share memory with this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Their numbers in the job, in order.
    pub members: Vec<u32>,
    /// This process's place among them.
    pub index: u32,
}

impl Group {
    /// Collective. `apart`: this process shares memory with nobody, by this word of how accesses go
    /// instead, which is the same in all processes or none.
    ///
    /// # Errors
    /// [`Error::Job`]; [`Error::Nic`]: the processes differ.
    pub fn find(job: &Job, apart: Option<&str>) -> Result<Self, Error> {
        let mine = apart.map_or_else(host, |way| format!("{way}/{}", job.rank()));
        let all = job.all_gather(mine.as_bytes())?;
        if let Some(other) = Self::differs(apart.unwrap_or_default(), &all) {
            return Err(Error::Nic(format!("process {other} of the job has another BELLWIRE_GAS than this one")));
        }
        Ok(Self::of(job.rank(), &all))
    }

    /// A process whose accesses go by VIs, if those of this one do not, or not in the same way.
    fn differs(mine: &str, hosts: &[Vec<u8>]) -> Option<usize> {
        let way = |host: &str| host.split_once('/').map_or("", |(way, _)| way).to_owned();
        let is_by_vis = |way: &str| way.starts_with("vi");
        hosts.iter().map(|host| way(&String::from_utf8_lossy(host))).position(|way| (is_by_vis(&way) || is_by_vis(mine)) && way != mine)
    }

    fn of(rank: u32, hosts: &[Vec<u8>]) -> Self {
        let mine = hosts.get(rank as usize);
        let members: Vec<u32> = hosts.iter().zip(0..).filter(|(host, _)| Some(*host) == mine).map(|(_, rank)| rank).collect();
        let index = members.iter().position(|member| *member == rank).unwrap_or_default() as u32;
        Self { members, index }
    }

    /// How many they are.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The one that offers the memory.
    pub fn leader(&self) -> u32 {
        self.members[0]
    }

    /// The place of a process among them.
    pub fn index_of(&self, rank: u32) -> Option<u32> {
        self.members.binary_search(&rank).ok().map(|index| index as u32)
    }
}

/// Processes with the same text can map each other's memory.
fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = rustix::system::uname();
    let space = |kind: &str| stat(format!("/proc/self/ns/{kind}")).map_or(0, |stat| stat.st_ino);
    format!("{}/{}/{}/{}", boot.trim(), name.nodename().to_string_lossy(), space("net"), space("pid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_one_host() {
        let hosts = [b"a".to_vec(), b"b".to_vec(), b"a".to_vec(), b"c".to_vec()];
        assert_eq!(Group::of(2, &hosts), Group { members: vec![0, 2], index: 1 });
        assert_eq!(Group::of(1, &hosts), Group { members: vec![1], index: 0 });
        let group = Group::of(0, &hosts);
        assert_eq!((group.size(), group.leader(), group.index_of(2), group.index_of(1)), (2, 0, Some(1), None));
    }

    #[test]
    fn processes_agree_on_the_way_of_accesses() {
        let hosts = |ways: &[&str]| ways.iter().map(|way| way.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(Group::differs("vi1", &hosts(&["vi1/0", "vi1/1"])), None);
        assert_eq!(Group::differs("vi1", &hosts(&["vi1/0", "vi2/1"])), Some(1));
        assert_eq!(Group::differs("vi1", &hosts(&["b007/host/1/2", "vi1/1"])), Some(0));
        assert_eq!(Group::differs("", &hosts(&["b007/host/1/2", "vi1/1"])), Some(1));
        assert_eq!(Group::differs("", &hosts(&["b007/host/1/2", "off/1"])), None);
    }

    #[test]
    fn a_host_has_a_name() {
        assert!(host().len() > 10);
    }
}
