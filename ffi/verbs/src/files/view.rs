// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree of our devices, as drivers and the kernel would have made it.

use super::character::{Character, Uverbs};
use super::tree::{Node, Tree};
use crate::device;
use std::sync::{Arc, OnceLock};

/// The number of `/dev/infiniband/uverbs0`; others follow.
const UVERBS: (u32, u32) = (231, 192);

/// The devices below `/dev/infiniband` other than verbs devices. An emulated device has its entry
/// here.
fn characters() -> Vec<Character> {
    Vec::new()
}

/// The tree, made when a program first looks.
pub(super) fn tree() -> &'static Tree {
    static TREE: OnceLock<Tree> = OnceLock::new();
    TREE.get_or_init(make)
}

fn make() -> Tree {
    let made = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    let mut tree = Tree::new(made, tree_shows_real());
    tree.file("/sys/class/infiniband_verbs/abi_version", "6\n");
    tree.file("/sys/class/infiniband_mad/abi_version", "5\n");
    tree.add("/dev/infiniband", Node::Folder);
    tree.add("/sys/class/infiniband", Node::Folder);
    for (index, name) in [device::name()].iter().enumerate() {
        add_device(&mut tree, index as u32, name);
    }
    for Character { name, number, file } in characters() {
        tree.add(&format!("/dev/infiniband/{name}"), Node::Device(number, file));
        if name == "rdma_cm" {
            tree.file("/sys/class/misc/rdma_cm/abi_version", "4\n");
            tree.file("/sys/class/misc/rdma_cm/dev", format!("{}:{}\n", number.0, number.1));
        }
    }
    tree
}

fn add_device(tree: &mut Tree, index: u32, name: &str) {
    let number = (UVERBS.0, UVERBS.1 + index);
    tree.add(&format!("/dev/infiniband/uverbs{index}"), Node::Device(number, Arc::new(Uverbs)));
    let parent = format!("/sys/devices/pcib311:00/b311:00:{index:02x}.0");
    let ib = format!("{parent}/infiniband/{name}");
    tree.link(&format!("/sys/class/infiniband/{name}"), format!("../../devices/pcib311:00/b311:00:{index:02x}.0/infiniband/{name}"));
    tree.link(&format!("{ib}/device"), "../..");
}

/// Whether real devices are to be seen beside ours: `BELLWIRE_VERBS_BESIDE` is set, to something.
pub(super) fn tree_shows_real() -> bool {
    static SHOWS: OnceLock<bool> = OnceLock::new();
    *SHOWS.get_or_init(|| std::env::var_os("BELLWIRE_VERBS_BESIDE").is_some_and(|v| !v.is_empty() && v != "0"))
}
