// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processors each process may run on.

use bellwire_memory::processors;

/// How processes are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bind {
    /// Each to an equal share of the cores, if there is one for each; else not at all.
    #[default]
    Auto,
    /// Each to one core of its own, in order; it is an error if there are too few.
    Core,
    /// Left to the scheduler.
    None,
}

/// The processors of each process, or why that is not possible.
pub(crate) fn choose(bind: Bind, size: usize) -> Result<Option<Vec<Vec<usize>>>, String> {
    let cores = cores(&processors::allowed(), &processors::siblings);
    match bind {
        Bind::None => Ok(None),
        Bind::Core if cores.len() < size => {
            Err(format!("{size} processes cannot have a core each: this one may use {} cores. Start fewer, or leave --bind core out", cores.len()))
        }
        Bind::Core => Ok(Some(cores.into_iter().take(size).collect())),
        // One process, or more than there are cores: nothing is gained.
        Bind::Auto => Ok((size > 1 && size <= cores.len()).then(|| shares(&cores, size))),
    }
}

/// The hardware threads of each core that may be used.
fn cores(allowed: &[usize], siblings: &dyn Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    let mut cores: Vec<Vec<usize>> = Vec::new();
    for &cpu in allowed {
        if cores.iter().any(|core| core.contains(&cpu)) {
            continue;
        }
        let mut core: Vec<usize> = siblings(cpu).into_iter().filter(|other| allowed.contains(other)).collect();
        if !core.contains(&cpu) {
            core = vec![cpu];
        }
        cores.push(core);
    }
    cores
}

/// Neighbouring cores in parts that differ by one core at most.
fn shares(cores: &[Vec<usize>], size: usize) -> Vec<Vec<usize>> {
    (0..size).map(|rank| cores[rank * cores.len() / size..(rank + 1) * cores.len() / size].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_core_stay_together() {
        let pairs = |cpu: usize| vec![cpu % 4, cpu % 4 + 4];
        assert_eq!(cores(&[0, 1, 2, 3, 4, 5, 6, 7], &pairs), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(cores(&[1, 4, 5], &pairs), [vec![1, 5], vec![4]]);
        assert_eq!(cores(&[2, 3], &|_| Vec::new()), [[2], [3]]);
    }

    #[test]
    fn shares_cover_all() {
        let cores: Vec<Vec<usize>> = (0..5).map(|cpu| vec![cpu]).collect();
        assert_eq!(shares(&cores, 2), [vec![0, 1], vec![2, 3, 4]]);
        assert_eq!(shares(&cores, 5), cores);
    }

    #[test]
    fn too_few_cores() {
        assert_eq!(choose(Bind::Auto, 100_000), Ok(None));
        assert!(choose(Bind::Core, 100_000).unwrap_err().contains("--bind core"));
        assert_eq!((choose(Bind::None, 1), choose(Bind::Auto, 1)), (Ok(None), Ok(None)));
    }
}
