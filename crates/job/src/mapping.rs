// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processes share a host: the text that PMI launchers keep under `PMI_process_mapping`.
//!
//! `(vector,(first host,hosts,processes on each),...)`: ranks in order fill the hosts of each
//! block; when the blocks are used up they begin again. Written by hand from what MPICH's hydra and
//! Slurm send.

/// Blocks that a text may have.
const BLOCKS_MAX: usize = 4096;

/// The key under which launchers keep it.
pub const KEY: &str = "PMI_process_mapping";

/// The number of `rank` among the processes of its host, and how many those are; `None` if the text
/// cannot be understood.
pub fn local(text: &str, rank: u32, size: u32) -> Option<(u32, u32)> {
    let mut blocks = parse(text)?;
    // Blocks without a process would be walked over for nothing, without bound.
    blocks.retain(|block| block.1 > 0 && block.2 > 0);
    if rank >= size || blocks.is_empty() {
        return None;
    }
    let mut hosts = Vec::new();
    while (hosts.len() as u64) < u64::from(size) {
        for (first, count, each) in &blocks {
            for host in 0..*count {
                let host = first.checked_add(host)?;
                let room = (size as usize).saturating_sub(hosts.len()).min(*each as usize);
                hosts.extend(std::iter::repeat_n(host, room));
                if hosts.len() >= size as usize {
                    break;
                }
            }
        }
    }
    let mine = *hosts.get(rank as usize)?;
    let before = hosts[..rank as usize].iter().filter(|host| **host == mine).count();
    let all = hosts.iter().filter(|host| **host == mine).count();
    Some((u32::try_from(before).ok()?, u32::try_from(all).ok()?))
}

/// The text for `size` processes on one host.
pub fn one_host(size: u32) -> String {
    format!("(vector,(0,1,{size}))")
}

fn parse(text: &str) -> Option<Vec<(u32, u32, u32)>> {
    let mut rest = text.trim_matches('"').strip_prefix("(vector")?.strip_suffix(')')?;
    let mut blocks = Vec::new();
    while let Some(block) = rest.strip_prefix(",(") {
        let (inside, after) = block.split_once(')')?;
        let mut numbers = inside.split(',').map(|number| number.trim().parse::<u32>());
        let (Some(Ok(first)), Some(Ok(count)), Some(Ok(each)), None) = (numbers.next(), numbers.next(), numbers.next(), numbers.next()) else { return None };
        blocks.push((first, count, each));
        if blocks.len() > BLOCKS_MAX {
            return None;
        }
        rest = after;
    }
    rest.is_empty().then_some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_launchers() {
        assert_eq!(local(&one_host(4), 2, 4), Some((2, 4)));
        // Two hosts with two each, then a third with three.
        let text = "(vector,(0,2,2),(2,1,3))";
        let all: Vec<_> = (0..7).map(|rank| local(text, rank, 7).unwrap()).collect();
        assert_eq!(all, [(0, 2), (1, 2), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]);
        // Cyclic: one to each host in turn.
        assert_eq!(local("(vector,(0,2,1))", 3, 5), Some((1, 2)));
        assert_eq!(local("(vector,(0,2,1))", 4, 5), Some((2, 3)));
    }

    #[test]
    fn what_is_no_mapping() {
        for text in [
            "",
            "(vector)",
            "(vector,)",
            "(vector,(0,0,4))",
            "(vector,(0,1,0))",
            "(vector,(0,1))",
            "(vector,(0,1,4)",
            "vector",
            "(vector,(4294967295,4294967295,1))",
            "(vector,(-1,1,1))",
        ] {
            assert_eq!(local(text, 1, 2), None, "{text}");
        }
        assert_eq!(local(&one_host(2), 2, 2), None);
    }

    proptest! {
        #[test]
        fn nothing_panics_or_takes_long(text in "\\(vector(,\\([0-9]{1,10},[0-9]{1,10},[0-9]{1,10}\\)){0,3}\\)", rank in 0u32..100, size in 0u32..100) {
            if let Some((mine, all)) = local(&text, rank, size) {
                prop_assert!(mine < all && all <= size);
            }
        }
    }
}
