// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn paths(list: &[&str]) -> Vec<PathBuf> {
    list.iter().map(PathBuf::from).collect()
}

#[test]
fn meminfo() {
    let text = "MemTotal:       32797612 kB\nMemFree:          514280 kB\nMemAvailable:   21345678 kB\nBuffers:  1 kB\n";
    assert_eq!(parse_mem_available(text), Some(21_345_678 * 1024));
    assert_eq!(parse_mem_available("MemTotal: 5 kB\n"), None);
    assert_eq!(parse_mem_available("MemAvailable: x kB\n"), None);
    assert_eq!(parse_mem_available("MemAvailable: 18446744073709551615 kB\n"), None);
}

#[test]
fn limits() {
    assert_eq!(parse_limit("max\n"), None);
    assert_eq!(parse_limit("67108864\n"), Some(64 << 20));
    assert_eq!(parse_limit("9223372036854771712\n"), Some(9_223_372_036_854_771_712));
    assert_eq!(parse_limit(""), None);
}

#[test]
fn room_counts_droppable_file_pages() {
    assert_eq!(headroom(100, 90, 0), 10);
    assert_eq!(headroom(100, 90, 40), 50);
    assert_eq!(headroom(100, 120, 0), 0);
    assert_eq!(headroom(100, 5, 40), 100);
}

#[test]
fn stat() {
    let text = "cache 12\ninactive_file 7\ntotal_inactive_file 4096\n";
    assert_eq!(parse_stat(text, "inactive_file"), Some(7));
    assert_eq!(parse_stat(text, "total_inactive_file"), Some(4096));
    assert_eq!(parse_stat(text, "inactive"), None);
}

#[test]
fn own_cgroups() {
    assert_eq!(parse_own_cgroups("0::/user.slice/a:b\n"), [(Version::V2, PathBuf::from("/user.slice/a:b"))]);
    let both = parse_own_cgroups("9:name=systemd:/\n4:hugetlb,memory:/jobs/7\n1:cpu:/\n0::/\n");
    assert_eq!(both, [(Version::V1, PathBuf::from("/jobs/7")), (Version::V2, PathBuf::from("/"))]);
    assert_eq!(parse_own_cgroups("garbage\n\n5:memory\n"), []);
}

#[test]
fn mounts() {
    let text = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
                35 31 0:32 /docker/x\\040y /sys/fs/cgroup/memory rw shared:9 master:1 - cgroup cgroup rw,memory\n\
                32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
                short line\n";
    let found = parse_mounts(text);
    assert_eq!(
        found,
        [
            Mount { version: Version::V1, root: "/docker/x y".into(), point: "/sys/fs/cgroup/memory".into() },
            Mount { version: Version::V2, root: "/".into(), point: "/sys/fs/cgroup/unified".into() },
        ]
    );
}

#[test]
fn escapes() {
    assert_eq!(unescape("a\\040b\\134"), PathBuf::from("a b\\"));
    assert_eq!(unescape("a\\04"), PathBuf::from("a\\04"));
    assert_eq!(unescape("\\999"), PathBuf::from("\\999"));
}

#[test]
fn every_level_up_to_the_mount_point() {
    let mount = Mount { version: Version::V2, root: "/".into(), point: "/sys/fs/cgroup".into() };
    assert_eq!(levels(&mount, Path::new("/a/b")), paths(&["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]));
    assert_eq!(levels(&mount, Path::new("/")), paths(&["/sys/fs/cgroup"]));
    assert_eq!(levels(&mount, Path::new("/../x")), paths(&["/sys/fs/cgroup"]));
    let inside = Mount { version: Version::V1, root: "/docker/abc".into(), point: "/m".into() };
    assert_eq!(levels(&inside, Path::new("/docker/abc/job")), paths(&["/m/job", "/m"]));
    assert_eq!(levels(&inside, Path::new("/elsewhere")), paths(&["/m"]));
}

#[test]
fn this_machine_has_some_memory() {
    assert!(available_bytes() > 0);
}
