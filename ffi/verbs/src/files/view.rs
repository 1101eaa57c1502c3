// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree of our devices, as drivers and the kernel would have made it.

use super::character::{Character, Uverbs};
use super::tree::{Node, Tree};
use crate::devices::{self, Own};
use crate::ports::Managed;
use crate::query::{LID, PORT_CAPABILITIES, firmware};
use bellwire_cm_device::RdmaCm;
use bellwire_devices::Model;
use std::sync::{Arc, OnceLock};

/// The number of `/dev/infiniband/rdma_cm`.
const RDMA_CM: (u32, u32) = (10, 122);
/// The number of `/dev/infiniband/uverbs0`; others follow.
const UVERBS: (u32, u32) = (231, 192);

/// The devices below `/dev/infiniband` other than verbs devices. An emulated device has its entry
/// here.
fn characters() -> Vec<Character> {
    vec![Character { name: "rdma_cm".into(), number: RDMA_CM, file: Arc::new(RdmaCm::new(&Managed)) }]
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
    let devices = devices::all().unwrap_or_else(|why| {
        devices::complain(why);
        &[]
    });
    let characters = characters();
    // Programs that find the interface of a device go on to open `rdma_cm`.
    let manages = characters.iter().any(|c| c.name == "rdma_cm");
    for own in devices {
        add_device(&mut tree, own, manages);
    }
    for Character { name, number, file } in characters {
        tree.add(&format!("/dev/infiniband/{name}"), Node::Device(number, file));
        if name == "rdma_cm" {
            tree.file("/sys/class/misc/rdma_cm/abi_version", "4\n");
            tree.file("/sys/class/misc/rdma_cm/dev", format!("{}:{}\n", number.0, number.1));
        }
    }
    tree
}

/// Sixteen bytes as `/sys` writes a GID, eight as it writes a GUID.
fn in_groups(bytes: &[u8]) -> String {
    bytes.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect::<Vec<_>>().join(":")
}

/// Everything of one device: its place on a bus that no computer has, and links to it.
fn add_device(tree: &mut Tree, own: &'static Own, manages: bool) {
    let (name, index, uverbs) = (&own.device.name, own.index, own.uverbs);
    let number = (UVERBS.0, UVERBS.1 + uverbs as u32);
    tree.add(&format!("/dev/infiniband/uverbs{uverbs}"), Node::Device(number, Arc::new(Uverbs)));

    let slot = format!("b311:00:{index:02x}.0");
    let parent = format!("/sys/devices/pcib311:00/{slot}");
    let (vendor, part, revision) = own.device.model.numbers();
    let node = own.device.numa_node;
    tree.file(&format!("{parent}/vendor"), format!("0x{vendor:04x}\n"));
    tree.file(&format!("{parent}/device"), format!("0x{part:04x}\n"));
    tree.file(&format!("{parent}/subsystem_vendor"), format!("0x{vendor:04x}\n"));
    tree.file(&format!("{parent}/subsystem_device"), "0x0001\n");
    tree.file(&format!("{parent}/class"), "0x020700\n");
    tree.file(&format!("{parent}/revision"), format!("0x{revision:02x}\n"));
    tree.file(&format!("{parent}/modalias"), format!("pci:v{vendor:08X}d{part:08X}sv{vendor:08X}sd00000001bc02sc07i00\n"));
    tree.file(&format!("{parent}/uevent"), format!("PCI_CLASS=20700\nPCI_ID={vendor:04X}:{part:04X}\nPCI_SLOT_NAME={slot}\n"));
    tree.file(&format!("{parent}/numa_node"), format!("{node}\n"));
    for file in ["local_cpulist", "local_cpus"] {
        // Those of its memory node, or all.
        let named = |of: &str, name: &str| std::fs::read_to_string(format!("/sys/devices/system/{of}/{name}"));
        let local = if file == "local_cpus" { "cpumap" } else { "cpulist" };
        let text = named(&format!("node/node{}", node.max(0)), local).or_else(|_| named("cpu", "online")).unwrap_or_else(|_| "0\n".to_owned());
        tree.file(&format!("{parent}/{file}"), text);
    }
    tree.file(&format!("{parent}/max_link_speed"), "16.0 GT/s PCIe\n");
    tree.file(&format!("{parent}/current_link_speed"), "16.0 GT/s PCIe\n");
    tree.file(&format!("{parent}/max_link_width"), "16\n");
    tree.file(&format!("{parent}/current_link_width"), "16\n");
    if let (Some((interface, _)), true) = (&own.interface, manages) {
        tree.link(&format!("{parent}/net/{interface}"), format!("/sys/class/net/{interface}"));
    }
    // The kernel's software device is on no bus. Some programs end if they do not find the bus that
    // a device names among the computer's own.
    let on_a_bus = own.device.model != Model::Rxe;
    if on_a_bus {
        tree.link(&format!("/sys/bus/pci/devices/{slot}"), format!("../../../devices/pcib311:00/{slot}"));
    }

    let verbs = format!("{parent}/infiniband_verbs/uverbs{uverbs}");
    tree.file(&format!("{verbs}/dev"), format!("{}:{}\n", number.0, number.1));
    tree.file(&format!("{verbs}/ibdev"), format!("{name}\n"));
    tree.file(&format!("{verbs}/abi_version"), "1\n");
    if on_a_bus {
        tree.link(&format!("{verbs}/device"), format!("../../../{slot}"));
    }
    tree.link(&format!("/sys/class/infiniband_verbs/uverbs{uverbs}"), format!("../../devices/pcib311:00/{slot}/infiniband_verbs/uverbs{uverbs}"));

    let ib = format!("{parent}/infiniband/{name}");
    let (kind, board) = own.device.model.board();
    let guid = in_groups(&own.guid().to_be_bytes());
    tree.link(&format!("/sys/class/infiniband/{name}"), format!("../../devices/pcib311:00/{slot}/infiniband/{name}"));
    if on_a_bus {
        tree.link(&format!("{ib}/device"), format!("../../../{slot}"));
    }
    tree.file(&format!("{ib}/node_type"), "1: CA\n");
    tree.file(&format!("{ib}/node_guid"), format!("{guid}\n"));
    tree.file(&format!("{ib}/sys_image_guid"), format!("{guid}\n"));
    tree.file(&format!("{ib}/node_desc"), format!("{name}\n"));
    tree.file(&format!("{ib}/fw_ver"), format!("{}\n", firmware(own)));
    tree.file(&format!("{ib}/hw_rev"), format!("{revision:x}\n"));
    tree.file(&format!("{ib}/hca_type"), format!("{kind}\n"));
    tree.file(&format!("{ib}/board_id"), format!("{board}\n"));
    add_port(tree, own, &format!("{ib}/ports/1"));
}

/// The only port.
fn add_port(tree: &mut Tree, own: &'static Own, port: &str) {
    tree.live(&format!("{port}/state"), || if own.is_up() { "4: ACTIVE\n" } else { "1: DOWN\n" }.to_owned());
    tree.live(&format!("{port}/phys_state"), || if own.is_up() { "5: LinkUp\n" } else { "2: Polling\n" }.to_owned());
    tree.file(&format!("{port}/rate"), format!("{}\n", own.device.rate.text));
    tree.file(&format!("{port}/link_layer"), "Ethernet\n");
    tree.file(&format!("{port}/lid"), format!("0x{LID:x}\n"));
    tree.file(&format!("{port}/sm_lid"), "0x0\n");
    for file in ["lid_mask_count", "sm_sl"] {
        tree.file(&format!("{port}/{file}"), "0\n");
    }
    tree.file(&format!("{port}/cap_mask"), format!("0x{PORT_CAPABILITIES:08x}\n"));
    for index in 0..own.device.gids {
        tree.file(&format!("{port}/gids/{index}"), format!("{}\n", in_groups(&own.gid)));
        tree.file(&format!("{port}/gid_attrs/types/{index}"), "RoCE v2\n");
        if let Some((interface, _)) = &own.interface {
            tree.file(&format!("{port}/gid_attrs/ndevs/{index}"), format!("{interface}\n"));
        }
    }
    tree.file(&format!("{port}/pkeys/0"), "0xffff\n");
    tree.live(&format!("{port}/counters/link_downed"), || format!("{}\n", own.downs()));
}

/// Whether real devices are to be seen beside ours.
pub(super) fn tree_shows_real() -> bool {
    devices::shows_real()
}
