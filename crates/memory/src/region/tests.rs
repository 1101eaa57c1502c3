// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use rustix::fs::{FallocateFlags, fallocate};

fn page() -> usize {
    rustix::param::page_size()
}

#[test]
fn sizes_are_whole_pages() {
    let region = Region::create("bellwire-test", page() + 1, RegionKind::Shared).unwrap();
    assert_eq!(region.len(), 2 * page());
    assert!(region.base().addr().is_multiple_of(page()));
    assert_eq!(Region::create("z", 0, RegionKind::Shared).unwrap_err(), MemoryError::BadLength { len: 0 });
    for len in [usize::MAX, isize::MAX as usize] {
        assert_eq!(Region::create("z", len, RegionKind::Shared).unwrap_err(), MemoryError::BadLength { len });
    }
}

#[test]
fn more_than_there_is_fails_before_anything_is_taken() {
    let len = 1 << 50;
    match Region::create("huge", len, RegionKind::Shared) {
        Err(MemoryError::NoMemory { wanted, available }) => assert!(wanted > len as u64 && available < wanted),
        // A machine whose kernel tells nothing about its memory, or whose address space is smaller.
        other => assert!(matches!(other, Err(MemoryError::Os { .. })), "{other:?}"),
    }
}

#[test]
fn writer_owned_is_read_only_for_everybody_else() {
    let region = Region::create("mine", page(), RegionKind::WriterOwned).unwrap();
    region.bytes().copy_in(0, b"hello").unwrap();
    let fd = || region.fd().try_clone_to_owned().unwrap();
    assert!(RemoteRegion::map(fd(), 1, page(), Access::ReadWrite).is_err());
    assert_eq!(fallocate(region.fd(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, page() as u64), Err(Errno::PERM));
    assert_eq!(rustix::io::pwrite(region.fd(), b"x", 0), Err(Errno::PERM));
    assert_eq!(ftruncate(region.fd(), 0), Err(Errno::PERM));
    assert_eq!(ftruncate(region.fd(), 1 << 20), Err(Errno::PERM));
    assert_eq!(fcntl_add_seals(region.fd(), SealFlags::WRITE), Err(Errno::PERM));
    let theirs = RemoteRegion::map(fd(), 1, page(), Access::ReadOnly).unwrap();
    let mut got = [0; 5];
    theirs.bytes().copy_out(0, &mut got).unwrap();
    assert_eq!(&got, b"hello");
    assert_eq!(theirs.base_mut(), None);
    assert_eq!(theirs.bytes().copy_in(0, b"x"), Err(MemoryError::ReadOnly));
}

#[test]
fn open_may_be_mapped_for_writing_and_stays_with_its_creator() {
    let region = Region::create("open", page(), RegionKind::Open).unwrap();
    let theirs = RemoteRegion::map(region.fd().try_clone_to_owned().unwrap(), page(), page(), Access::ReadWrite).unwrap();
    region.bytes().copy_in(0, b"hello").unwrap();
    let mut got = [0; 5];
    theirs.bytes().copy_out(0, &mut got).unwrap();
    assert_eq!(&got, b"hello");
    assert_eq!(ftruncate(region.fd(), 0), Err(Errno::PERM));
    assert_eq!(fcntl_add_seals(region.fd(), SealFlags::WRITE), Err(Errno::PERM));
    // A hole is what a reader could make of it: the creator writes on, into fresh pages.
    fallocate(region.fd(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, page() as u64).unwrap();
    region.bytes().copy_in(1, b"again").unwrap();
    theirs.bytes().copy_out(1, &mut got).unwrap();
    assert_eq!(&got, b"again");
    // Not inherited by a child: a "dc" (do not copy) among the mapping's flags, where the kernel
    // tells them.
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    let at = format!("{:x}-", region.base().addr());
    let flags = maps.lines().skip_while(|l| !l.starts_with(&at)).find(|l| l.starts_with("VmFlags:")).unwrap_or_default();
    assert!(flags.split(' ').any(|f| f == "dc"), "{flags}");
}

#[test]
fn shared_is_written_by_both() {
    let region = Region::create("ours", page(), RegionKind::Shared).unwrap();
    let theirs = RemoteRegion::map(region.fd().try_clone_to_owned().unwrap(), page(), page(), Access::ReadWrite).unwrap();
    theirs.bytes().copy_in(page() - 3, b"abc").unwrap();
    let mut got = [0; 3];
    region.bytes().copy_out(page() - 3, &mut got).unwrap();
    assert_eq!(&got, b"abc");
    assert_eq!(fcntl_add_seals(region.fd(), SealFlags::WRITE), Err(Errno::PERM));
    assert_eq!(ftruncate(region.fd(), 0), Err(Errno::PERM));
}

#[test]
fn read_only_descriptor() {
    let region = Region::create("ro", page(), RegionKind::Shared).unwrap();
    let fd = region.read_only_fd().unwrap();
    assert!(matches!(RemoteRegion::map(fd.try_clone().unwrap(), 1, page(), Access::ReadWrite), Err(MemoryError::Os { call: "mmap", errno: Errno::ACCESS })));
    assert!(RemoteRegion::map(fd, 1, page(), Access::ReadOnly).is_ok());
}

#[test]
fn a_lying_peers_descriptors_are_refused() {
    let (min, max) = (page(), 4 * page());
    let refuse = |fd: OwnedFd| RemoteRegion::map(fd, min, max, Access::ReadOnly).map(|_| ()).unwrap_err();
    let memfd = |len: u64, seals: SealFlags| {
        let fd = memfd_create("lie", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, len).unwrap();
        fcntl_add_seals(&fd, seals).unwrap();
        fd
    };
    let whole = page() as u64;
    assert_eq!(refuse(memfd(whole, SealFlags::empty())), MemoryError::NotSealed { missing: 6 });
    assert_eq!(refuse(memfd(whole, SealFlags::GROW)), MemoryError::NotSealed { missing: SealFlags::SHRINK.bits() });
    let sealed = SealFlags::GROW | SealFlags::SHRINK;
    let wrong = |len| MemoryError::WrongSize { len, min: min as u64, max: max as u64 };
    for len in [0, whole - 1, 4 * whole + 1, 1 << 40] {
        assert_eq!(refuse(memfd(len, sealed)), wrong(len));
    }
    let none = RemoteRegion::map(memfd(0, sealed), 0, 0, Access::ReadOnly).map(|_| ()).unwrap_err();
    assert_eq!(none, MemoryError::WrongSize { len: 0, min: 1, max: 0 });
    let unsealable = memfd_create("lie", MemfdFlags::CLOEXEC).unwrap();
    assert!(matches!(refuse(unsealable), MemoryError::NotSealed { .. }));
    assert_eq!(refuse(std::fs::File::open("/dev/null").unwrap().into()), MemoryError::NotMemory);
    assert_eq!(refuse(std::fs::File::open("/proc/self/maps").unwrap().into()), MemoryError::NotMemory);
    assert_eq!(refuse(rustix::pipe::pipe().unwrap().0), MemoryError::NotMemory);
    assert_eq!(refuse(crate::pidfd::own().unwrap()), MemoryError::NotMemory);
    if let Ok(huge) = memfd_create("huge", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB) {
        fcntl_add_seals(&huge, sealed).unwrap();
        assert_eq!(refuse(huge), MemoryError::NotMemory);
    }
}
