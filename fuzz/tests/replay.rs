// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every input of the corpus, and some hundreds of random ones, through every target: what the fuzzer has found once stays found, also where it cannot run.

use bellwire_fuzz::{cm, cm_device, descriptors, frames, gas, gasvia, job, packets, rendezvous, sealed, shared, sisci, sisci_far, tag, transport, verbs};

fn replay(target: &str, random: u64, run: fn(&[u8])) {
    let directory = format!("{}/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(&directory).expect("a corpus").map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{directory} is empty");
    for file in files {
        println!("{}", file.display());
        run(&std::fs::read(&file).unwrap());
    }
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    for _ in 0..random {
        let n = next() % 1500;
        // Small numbers are more telling than large ones.
        let data: Vec<u8> = (0..n).map(|_| if next() % 3 == 0 { next() as u8 } else { (next() % 20) as u8 }).collect();
        if let Err(failure) = std::panic::catch_unwind(|| run(&data)) {
            println!("failing input: {}", data.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            std::panic::resume_unwind(failure);
        }
    }
}

#[test]
fn frames_of_a_peer() {
    replay("frames", 1000, frames::run);
}

#[test]
fn the_shared_region() {
    replay("shared", 100, shared::run);
}

#[test]
fn making_links() {
    replay("rendezvous", 100, rendezvous::run);
}

#[test]
fn posted_descriptors() {
    replay("descriptors", 1000, descriptors::run);
}

#[test]
fn packets_of_the_protocol() {
    replay("packets", 20_000, packets::run);
}

#[test]
fn the_transport() {
    replay("transport", 200, transport::run);
}

#[test]
fn sealed_packets() {
    replay("sealed", 100, sealed::run);
}

#[test]
fn an_endpoint_with_tag_matching() {
    replay("tag", 1000, tag::run);
}

#[test]
fn requests_to_a_launcher() {
    replay("job", 1000, job::run);
}

#[test]
fn global_memory_by_packets() {
    replay("gas", 1000, gas::run);
}

#[test]
fn split_c_on_vis() {
    replay("gasvia", 1000, gasvia::run);
}

#[test]
fn connection_management() {
    replay("cm", 20_000, cm::run);
}

#[test]
fn the_device_file_of_connection_management() {
    replay("cm_device", 300, cm_device::run);
}

#[test]
fn packets_of_a_peer_to_queue_pairs() {
    replay("verbs", 600, verbs::run);
}

#[test]
fn calls_of_sisci() {
    replay("sisci", 100, sisci::run);
}

#[test]
fn sisci_between_hosts() {
    replay("sisci_far", 300, sisci_far::run);
}
