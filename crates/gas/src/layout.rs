// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where everything lies. Pure arithmetic.

/// Bytes of a page; addresses are rounded to it.
pub const PAGE: u64 = 4096;
/// Address bits of a global pointer; the process is above them.
pub const ADDRESS_BITS: u32 = 48;
/// Below this address are statics and heap; here symmetric memory begins, in every process.
pub const SYMMETRIC_BASE: u64 = 8 << 30;
/// The end of windows.
pub const WINDOW_END: u64 = 16 << 30;
/// The first alias; that of process p is p times [`ALIAS_STRIDE`] behind it.
pub const ALIAS_BASE: u64 = 16 << 40;
/// A window's room among the aliases and in the memfd. Twice a window, so that an address behind
/// one is in no other.
pub const ALIAS_STRIDE: u64 = 32 << 30;
/// Of symmetric memory, one part in so many is for what processes take alone, each from an arena of
/// its own.
pub const ARENAS_SHARE: u64 = 4;
/// Most processes of one host: aliases end below what libraries and stacks use.
pub const PROCESSES_MAX: u32 = 2048;
/// The longest word.
pub const WORD_MAX: u64 = 16;
/// A line of the control area, which one process writes.
pub const LINE: u64 = 128;

const _: () = assert!(ALIAS_BASE + PROCESSES_MAX as u64 * ALIAS_STRIDE <= 96 << 40, "below the region of libraries and stacks");

/// The process of a global pointer.
pub const fn process_of(pointer: u64) -> u64 {
    pointer >> ADDRESS_BITS
}

/// The address of a global pointer in its process.
pub const fn address_of(pointer: u64) -> u64 {
    pointer & ((1 << ADDRESS_BITS) - 1)
}

/// A global pointer.
pub const fn pointer_of(process: u32, address: u64) -> u64 {
    (process as u64) << ADDRESS_BITS | address_of(address)
}

/// Rounds down to a page.
pub const fn page_down(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// Rounds up to a page.
pub const fn page_up(address: u64) -> u64 {
    page_down(address + PAGE - 1)
}

/// The alias of address 0 of a process's window.
pub const fn alias_of(process: u32) -> u64 {
    ALIAS_BASE + process as u64 * ALIAS_STRIDE
}

/// The process in whose alias an address of this process lies, and the address there.
pub fn of_alias(address: u64, processes: u32) -> Option<(u32, u64)> {
    let offset = address.checked_sub(ALIAS_BASE)?;
    let process = u32::try_from(offset / ALIAS_STRIDE).ok()?;
    (process < processes).then_some((process, offset % ALIAS_STRIDE))
}

/// How symmetric memory of so many bytes is divided: bytes for collective calls, and of the arena
/// of each process.
pub const fn arenas(bytes: u64, processes: u32) -> (u64, u64) {
    let each = page_down(bytes / ARENAS_SHARE / processes as u64);
    (bytes - each * processes as u64, each)
}

/// The parts of the memfd.
#[derive(Clone, Copy, Debug)]
pub struct File {
    processes: u32,
}

/// What the control area begins with, in lines: barrier, then a line of a process, slots of
/// exchanges (two turns), counts of stores.
impl File {
    /// Of a host with so many processes, at most [`PROCESSES_MAX`].
    pub const fn new(processes: u32) -> Self {
        Self { processes }
    }

    /// The line of a process, from the beginning.
    pub const fn line(self, process: u32) -> u64 {
        (1 + process as u64) * LINE
    }

    /// The slot of a process in an even or odd exchange.
    pub const fn slot(self, turn: u64, process: u32) -> u64 {
        self.line(self.processes) + ((turn & 1) * self.processes as u64 + process as u64) * LINE
    }

    /// The buffer of an even or odd part of a broadcast.
    pub const fn part(self, turn: u64) -> u64 {
        self.slot(0, 0) + 2 * self.processes as u64 * LINE + (turn & 1) * PART_BYTES
    }

    /// The count of what `from` has stored at `to`.
    pub const fn arrived(self, to: u32, from: u32) -> u64 {
        self.part(0) + 2 * PART_BYTES + (to as u64 * self.processes as u64 + from as u64) * LINE
    }

    /// Bytes of the control area.
    pub const fn control_bytes(self) -> u64 {
        page_up(self.arrived(self.processes, 0))
    }

    /// Where the window of a process begins.
    pub const fn window(self, process: u32) -> u64 {
        self.control_bytes() + process as u64 * WINDOW_END
    }

    /// All of it.
    pub const fn bytes(self) -> u64 {
        self.window(self.processes)
    }
}

/// Bytes of a broadcast that move at a time.
pub const PART_BYTES: u64 = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing() {
        let pointer = pointer_of(65535, 0x1234_5678_9abc);
        assert_eq!((process_of(pointer), address_of(pointer)), (65535, 0x1234_5678_9abc));
        assert_eq!(page_up(1), PAGE);
        assert_eq!(page_down(PAGE + 1), PAGE);
    }

    #[test]
    fn parts_of_the_control_area_do_not_overlap() {
        let file = File::new(3);
        let mut places: Vec<(u64, u64)> = vec![(0, LINE)];
        for p in 0..3 {
            places.push((file.line(p), LINE));
            places.extend([0, 1].map(|turn| (file.slot(turn, p), LINE)));
            places.extend([0, 1, 2].map(|from| (file.arrived(p, from), LINE)));
        }
        places.extend([0, 1].map(|turn| (file.part(turn), PART_BYTES)));
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{places:?}");
        assert!(places.last().is_some_and(|last| last.0 + last.1 <= file.control_bytes()));
    }

    #[test]
    fn arenas_fit() {
        for processes in [1, 2, 3, 1000] {
            let (together, each) = arenas(64 << 20, processes);
            assert!(together >= 48 << 20 && together + u64::from(processes) * each == 64 << 20 && each.is_multiple_of(PAGE));
        }
    }

    #[test]
    fn an_alias_knows_its_process() {
        assert_eq!(of_alias(alias_of(2) + 5, 3), Some((2, 5)));
        assert_eq!(of_alias(alias_of(3), 3), None);
        assert_eq!(of_alias(ALIAS_BASE - 1, 3), None);
    }
}
