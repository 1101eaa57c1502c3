// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use rustix::process::geteuid;

fn name(kind: &str) -> OwnedName {
    OwnedName { before: format!("bellwire-test-{}/", std::process::id()), after: format!("/{kind}") }
}

#[test]
fn lists_of_users_and_groups() {
    assert_eq!(Allow::parse("0"), Some(Allow::of_users([0])));
    assert_eq!(Allow::parse("root, 65534,@0,@root").map(|a| a.to_string()).as_deref(), Some("0,65534,@0"));
    for wrong in ["", "0,", "@", "no-such-user-here", "@no-such-group-here", "4294967295", "-1", "a\0b"] {
        assert_eq!(Allow::parse(wrong), None, "{wrong:?}");
    }
    assert!(Allow::NOBODY.is_empty() && Allow::default() == Allow::NOBODY);
}

#[test]
fn a_name_is_one_process_s_of_its_user() {
    let own = geteuid().as_raw();
    let n = name("one");
    assert!(matches!(n.reach(own), Err(MemoryError::ConnectionRefused)));
    let first = n.claim(own).unwrap();
    assert!(matches!(n.claim(own), Err(MemoryError::AddressInUse)));
    assert_eq!(n.reach(own).unwrap().1.uid, own);
    assert_eq!(n.holders(), BTreeSet::from([(own, n.of(own))]));
    assert!(n.others(own).is_empty());
    drop(first);
    assert!(matches!(n.reach(own), Err(MemoryError::ConnectionRefused)));
}

/// This process stands for the other user: it listens under names that are not its own.
#[test]
fn a_name_that_another_user_has_taken_is_neither_believed_nor_lost() {
    let (own, other) = (geteuid().as_raw(), geteuid().as_raw() + 1);
    let n = name("two");
    let _squatter = fd_passing::listen_abstract(n.of(other).as_bytes()).unwrap();
    assert!(matches!(n.reach(other), Err(MemoryError::ConnectionRefused)), "it is not that user's");
    assert!(n.others(own).is_empty());
    // As that user sees it: the name is taken, by somebody else.
    let rightful = n.claim(other).unwrap();
    let suffixed = n.suffixed(other);
    assert!(suffixed.len() == 1 && suffixed[0].len() <= fd_passing::NAME_MAX, "{suffixed:?}");
    assert!(n.reach_allowed(own, &Allow::of_users([other])).is_err(), "this process has not that user's id either");
    drop(rightful);
    assert!(n.suffixed(other).is_empty());
}

/// A name that is bound and does not listen, and one whose backlog is full.
#[test]
fn a_name_that_does_not_answer_is_gone_round() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let own = geteuid().as_raw();
    for full in [false, true] {
        let n = name(if full { "full" } else { "deaf" });
        let deaf = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None).unwrap();
        bind(&deaf, &SocketAddrUnix::new_abstract_name(n.of(own).as_bytes()).unwrap()).unwrap();
        let mut waiting = Vec::new();
        if full {
            listen(&deaf, 0).unwrap();
            while let Ok(socket) = fd_passing::connect_abstract(n.of(own).as_bytes()) {
                waiting.push(socket);
            }
        }
        let _listener = n.claim(own).unwrap();
        assert_eq!(n.suffixed(own).len(), 1);
        assert_eq!(n.reach(own).is_ok(), full, "one that refuses is looked round only by those who wait there");
    }
}

#[test]
fn what_the_table_of_sockets_says() {
    let n = OwnedName { before: "bw/".into(), after: "/w/ab".into() };
    let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
        0000000000000000: 00000002 00000000 00010000 0005 01 1234 @bw/7/w/ab\n\
        0000000000000000: 00000002 00000000 00000000 0005 03 1235 @bw/8/w/ab\n\
        0000000000000000: 00000002 00000000 00010000 0005 01 1236 @bw/9/w/ab/00ff\n\
        0000000000000000: 00000002 00000000 00010000 0005 01 1237 @bw/10/w/abc\n\
        0000000000000000: 00000002 00000000 00010000 0005 01 1238 @bw/x/w/ab\n\
        0000000000000000: 00000002 00000000 00010000 0005 01 1239 @bw/99999999999/w/ab\n\
        0000000000000000: 00000002 00000000 00010000 0005 01 1240\n\
        nonsense\n";
    let names = |holders: BTreeSet<(u32, String)>| holders.into_iter().map(|(u, n)| format!("{u} {n}")).collect::<Vec<_>>();
    assert_eq!(names(n.holders_in(table)), ["7 bw/7/w/ab", "9 bw/9/w/ab/00ff"]);
}
