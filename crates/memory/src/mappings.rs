// SPDX-License-Identifier: MIT OR Apache-2.0
//! This module lists the mappings of this process, as `/proc/self/maps` has them.

use core::ops::Range;
use std::io;

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Its addresses.
    pub range: Range<usize>,
    /// Such as `rw-p`: read, write, execute, and private or shared.
    pub rights: &'a str,
    /// Where it begins in the file, bytes.
    pub offset: u64,
    /// The file's device, as the kernel writes it (`fe:00`).
    pub device: &'a str,
    /// Number of the file's inode; 0 for a mapping without a file.
    pub inode: u64,
    /// The file's path, or what the kernel calls the mapping; mostly empty.
    pub name: &'a str,
}

/// The list.
///
/// # Errors
/// There is no `/proc`, or it cannot be read.
pub fn list() -> io::Result<String> {
    std::fs::read_to_string("/proc/self/maps")
}

impl<'a> Mapping<'a> {
    /// A line of the list.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (from, to) = words.next()?.split_once('-')?;
        Some(Self {
            range: usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?,
            rights: words.next()?,
            offset: u64::from_str_radix(words.next()?, 16).ok()?,
            device: words.next()?,
            inode: words.next()?.parse().ok()?,
            name: words.next().unwrap_or("").trim(),
        })
    }

    /// The file at an address within it, by device and inode, and the place in the file.
    pub fn place(&self, at: usize) -> Option<(&'a str, u64, u64)> {
        (self.range.contains(&at) && self.inode != 0).then(|| (self.device, self.inode, self.offset + (at - self.range.start) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let file = Mapping::parse("1000-3000 rw-s 00002000 00:01 77      /memfd:x (deleted)").unwrap();
        assert_eq!(file, Mapping { range: 0x1000..0x3000, rights: "rw-s", offset: 0x2000, device: "00:01", inode: 77, name: "/memfd:x (deleted)" });
        let none = Mapping::parse("3000-4000 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((none.inode, none.name), (0, ""));
        for line in ["", "3000 rw-p 0 00:00 0", "3000-x rw-p 0 00:00 0", "3000-4000 rw-p 0 00:00"] {
            assert_eq!(Mapping::parse(line), None, "{line:?}");
        }
        assert_eq!(list().unwrap().lines().filter(|line| Mapping::parse(line).is_none()).count(), 0);
    }
}
