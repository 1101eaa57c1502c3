// SPDX-License-Identifier: MIT OR Apache-2.0
//! Teams of real processes without a launcher that would end them: what the layer does by itself
//! when one of them is killed.
//!
//! The test starts its own program again, once for each rank; they find each other by files of a
//! folder.

use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_spmd::{Error, Exchange, Team};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Says what a child process is to do: "folder rank size what".
const VARIABLE: &str = "BELLWIRE_SPMD_TEST";
const WELL: i32 = 0;
const LOST: i32 = 40;

/// A launcher made of files.
struct Folder {
    path: PathBuf,
    rank: u32,
    size: u32,
}

impl Exchange for Folder {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn local_size(&self) -> u32 {
        self.size
    }

    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let failed = |e: std::io::Error| Error::Launcher(e.to_string());
        let name = |rank: u32| self.path.join(rank.to_string());
        std::fs::write(name(self.rank).with_extension("new"), block).map_err(failed)?;
        std::fs::rename(name(self.rank).with_extension("new"), name(self.rank)).map_err(failed)?;
        let end = Instant::now() + PATIENCE;
        (0..self.size)
            .map(|rank| {
                while !name(rank).exists() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::fs::read(name(rank)).map_err(failed)
            })
            .collect()
    }

    fn exit(&self, status: i32) -> ! {
        std::process::exit(status)
    }
}

fn block(rank: u32, round: u32) -> Vec<u8> {
    vec![(rank * 7 + round) as u8; ((rank * 1009 + round * 13_007) % 150_000) as usize]
}

/// Barriers, all-gathers and requests to everybody, `rounds` times.
fn work(team: &Team, rounds: u32) -> Result<(), Error> {
    let (bundle, endpoint) = (team.bundle(), team.endpoint());
    let returned = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&returned);
    bundle.set_handler(endpoint, 1, |message| _ = message.reply(2, &[message.args()[0]]))?;
    bundle.set_handler(endpoint, 2, |_| ())?;
    bundle.set_error_handler(endpoint, move |_| _ = counted.fetch_add(1, Ordering::SeqCst))?;
    team.barrier()?;
    for round in 0..rounds {
        for to in 0..team.size() {
            bundle.request(endpoint, to, 1, &[round as i32])?;
        }
        if round % 50 == 0 {
            let all = team.all_gather(&block(team.rank(), round))?;
            assert!(all.iter().zip(0..).all(|(got, rank)| *got == block(rank, round)), "everybody's block, in order");
            assert_eq!(all.len(), team.size() as usize);
        }
        team.barrier()?;
    }
    assert_eq!(returned.load(Ordering::SeqCst), 0);
    Ok(())
}

/// Not a test of its own: what a child process does.
#[test]
fn child() {
    let Ok(role) = std::env::var(VARIABLE) else { return };
    let mut words = role.split(' ');
    let mut word = || words.next().expect("four words");
    let path = PathBuf::from(word());
    let (rank, size) = (word().parse().unwrap(), word().parse().unwrap());
    let rounds = word().parse().unwrap();
    let team = Team::start(Folder { path, rank, size }).expect("it starts");
    let outcome = work(&team, rounds).and_then(|()| team.finish());
    std::process::exit(match outcome {
        Ok(()) => WELL,
        Err(Error::Lost(rank)) if rank < size => LOST,
        Err(e) => panic!("{e}"),
    })
}

fn team(folder: &Path, size: u32, rounds: u32, environment: &[(&str, &str)]) -> Vec<Child> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).unwrap();
    (0..size)
        .map(|rank| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "child", "--nocapture"]).envs(environment.iter().copied());
            command.env(VARIABLE, format!("{} {rank} {size} {rounds}", folder.display()));
            command.stdout(std::process::Stdio::null()).spawn().expect("it starts")
        })
        .collect()
}

/// How they ended; `None`: by a signal. Nobody is left behind.
fn ends(mut children: Vec<Child>) -> Vec<Option<i32>> {
    let end = Instant::now() + PATIENCE;
    let mut codes = Vec::new();
    for child in &mut children {
        while child.try_wait().unwrap().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let hangs = child.try_wait().unwrap().is_none();
        let _ = child.kill();
        let status = child.wait().unwrap();
        codes.push(if hangs { Some(-1) } else { status.code() });
    }
    codes
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("bellwire-spmd-{name}-{}", std::process::id()))
}

fn all_well(name: &str, size: u32, rounds: u32, environment: &[(&str, &str)]) {
    let folder = folder(name);
    assert_eq!(ends(team(&folder, size, rounds, environment)), vec![Some(WELL); size as usize]);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn teams_of_all_sizes_do_well() {
    for size in [1, 2, 3, 5] {
        all_well("sizes", size, 101, &[]);
    }
}

#[test]
fn teams_over_udp_do_well() {
    let udp = [("BELLWIRE_UDP", "on"), ("BELLWIRE_SHM", "off")];
    all_well("udp", 3, 51, &udp);
    all_well("lossy", 3, 51, &[udp[0], udp[1], ("BELLWIRE_FAULTS", "loss=0.02,dup=0.02,reorder=0.02:300us,seed=3")]);
}

/// kill -9 of one of them at some moment: all others hear of it. Rounds: `BELLWIRE_KILLS`.
#[test]
fn who_is_killed_is_missed_by_all() {
    let kills = std::env::var("BELLWIRE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(2u32);
    for kill in 0..kills {
        let folder = folder("killed");
        let size = 3 + kill % 3;
        let mut children = team(&folder, size, 1_000_000_000, &[]);
        let end = Instant::now() + PATIENCE;
        while !(0..size).all(|rank| folder.join(rank.to_string()).exists()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        // From before the first message to amidst traffic.
        std::thread::sleep(Duration::from_micros((u64::from(kill) + 1) * 27_919 % 60_000));
        let victim = (kill * 5 % size) as usize;
        children[victim].kill().unwrap();
        let mut expected = vec![Some(LOST); size as usize];
        expected[victim] = None;
        assert_eq!(ends(children), expected, "kill {kill}");
        let _ = std::fs::remove_dir_all(folder);
    }
}
