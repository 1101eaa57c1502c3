// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk data and long replies, which mapping v1 cuts into pieces.

use crate::head::Head;
use crate::record::Record;
use bellwire_am::Status;

/// A bulk request or get whose pieces leave.
pub(crate) struct Stream {
    pub record: Record,
    pub head: Head,
    pub data: *const u8,
    pub sent: usize,
}

// SAFETY: S1: the data is memory of the program, which stays until the request is over or its last
// piece has left, as the caller of the request has promised.
unsafe impl Send for Stream {}

/// A reply that is fetched.
pub(crate) struct Fetch {
    pub number: u64,
    pub record: Record,
    pub head: Head,
    pub length: usize,
    pub asked: usize,
    pub data: Vec<u8>,
}

/// Bulk data that comes in pieces. Its handler runs only if none is missing: the receiver may have
/// refused some and taken others, if its tag or its segment has changed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arriving {
    /// Address of the first byte, and how many have come behind each other.
    start: u64,
    bytes: u64,
    /// Why it cannot be whole any more.
    wrong: Option<Status>,
}

impl Arriving {
    /// Nothing that a later piece could continue.
    pub(crate) const NOTHING: Self = Self { start: 0, bytes: 0, wrong: Some(Status::BadLength) };

    /// Where the next piece is to go, and its bytes; or why it is refused.
    pub(crate) fn add(&mut self, is_first: bool, place: Result<u64, Status>, bytes: u64) -> Result<(), Status> {
        if is_first {
            *self = Self { start: place.unwrap_or(0), bytes: 0, wrong: None };
        }
        if self.wrong.is_none() {
            self.wrong = match place {
                Err(status) => Some(status),
                Ok(at) if at != self.start + self.bytes => Some(Status::BadSegmentOffset),
                Ok(_) => None,
            };
        }
        self.bytes += bytes;
        self.wrong.map_or(Ok(()), Err)
    }

    /// The last piece is there, of so many bytes in all: where they begin, or why not all of them
    /// are there.
    pub(crate) fn end(&mut self, bytes: u64) -> Result<u64, Status> {
        let of = core::mem::replace(self, Self::NOTHING);
        match of.wrong {
            Some(status) => Err(status),
            None if of.bytes != bytes => Err(Status::BadLength),
            None => Ok(of.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_whole_is_whole_once() {
        let mut arriving = Arriving::NOTHING;
        assert_eq!(arriving.add(true, Ok(1000), 10), Ok(()));
        assert_eq!(arriving.add(false, Ok(1010), 5), Ok(()));
        assert_eq!(arriving.end(15), Ok(1000));
        assert_eq!(arriving.add(false, Ok(1015), 5), Err(Status::BadLength), "there is nothing to continue");
        assert_eq!(arriving.end(5), Err(Status::BadLength));
    }

    #[test]
    fn a_piece_that_was_refused_is_missed() {
        for refused in 0..3 {
            let mut arriving = Arriving::NOTHING;
            for piece in 0..3 {
                let place = if piece == refused { Err(Status::BadTag) } else { Ok(64 * piece) };
                assert_eq!(arriving.add(piece == 0, place, 64).is_ok(), piece < refused, "refused {refused}, piece {piece}");
            }
            assert_eq!(arriving.end(192), Err(Status::BadTag));
        }
    }

    #[test]
    fn pieces_in_two_segments_are_not_one() {
        let mut arriving = Arriving::NOTHING;
        assert_eq!(arriving.add(true, Ok(0), 64), Ok(()));
        assert_eq!(arriving.add(false, Ok(4096 + 64), 64), Err(Status::BadSegmentOffset));
        assert_eq!(arriving.end(128), Err(Status::BadSegmentOffset));
    }

    #[test]
    fn another_transfer_begins_anew_and_a_wrong_sum_shows() {
        let mut arriving = Arriving::NOTHING;
        assert_eq!(arriving.add(true, Ok(0), 64), Ok(()));
        assert_eq!(arriving.add(true, Ok(64), 64), Ok(()), "the one before was given up by its sender");
        assert_eq!(arriving.end(128), Err(Status::BadLength), "of which 64 bytes were sent");
    }
}
