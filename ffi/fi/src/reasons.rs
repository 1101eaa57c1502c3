// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why peers are gone, as numbers: `prov_errno` of an error entry, whose text `fi_cq_strerror` and
//! `fi_eq_strerror` give. fi_bellwire(7) lists them; a number never changes its meaning.

use bellwire_tag::Gone;
use bellwire_via::frame::DisconnectReason as Told;
use bellwire_via::wire::LinkFailure as Link;
use bellwire_via::{Cause, Error};
use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;
use std::sync::OnceLock;

/// The first of them: libfabric's own numbers are below.
const FIRST: c_int = 1000;

/// All of them, in the order of their numbers; a new one goes to the end.
const ALL: [Gone; 32] = [
    Gone::Broken(Cause::Link(Link::PeerDied)),
    Gone::Broken(Cause::Link(Link::PeerClosed)),
    Gone::Broken(Cause::Link(Link::PeerRestarted)),
    Gone::Broken(Cause::Link(Link::PeerForgot)),
    Gone::Broken(Cause::Link(Link::PeerSilent)),
    Gone::Broken(Cause::Link(Link::PeerMisbehaved)),
    Gone::Broken(Cause::Link(Link::BadFrame)),
    Gone::Broken(Cause::Link(Link::PeerStalled)),
    Gone::Broken(Cause::Link(Link::LocalLimit)),
    Gone::Broken(Cause::Link(Link::NobodyThere)),
    Gone::Broken(Cause::Link(Link::Busy)),
    Gone::Broken(Cause::Link(Link::NotReachable)),
    Gone::Misbehaved,
    Gone::OtherVersion,
    Gone::ENDED_THERE,
    Gone::ENDED_HERE,
    Gone::Unreachable(Error::NoMatch),
    Gone::Unreachable(Error::Timeout),
    Gone::Unreachable(Error::Rejected),
    Gone::Unreachable(Error::NotReachable),
    Gone::Unreachable(Error::Resource),
    Gone::Unreachable(Error::InvalidState),
    Gone::Broken(Cause::Peer(Told::PeerError)),
    Gone::Broken(Cause::Peer(Told::Protocol)),
    Gone::Broken(Cause::Here(Told::Protocol)),
    Gone::Broken(Cause::Here(Told::PeerError)),
    Gone::Unreachable(Error::NotAllowedHere),
    Gone::Unreachable(Error::NotAllowedThere),
    Gone::Unreachable(Error::Key(Link::KeyWanted)),
    Gone::Unreachable(Error::Key(Link::KeyMissing)),
    Gone::Unreachable(Error::Key(Link::KeyOther)),
    Gone::Unreachable(Error::Key(Link::KeyUnknown)),
];

/// The number of a reason; 0 of one that these layers do not bring about.
pub(crate) fn number(gone: Gone) -> c_int {
    ALL.iter().position(|known| *known == gone).map_or(0, |at| FIRST + at as c_int)
}

/// The text of a number, if it is one of these.
pub(crate) fn text(number: c_int) -> Option<&'static CStr> {
    static TEXTS: OnceLock<Vec<CString>> = OnceLock::new();
    let at = usize::try_from(number.checked_sub(FIRST)?).ok()?;
    let texts = TEXTS.get_or_init(|| ALL.iter().map(|gone| CString::new(gone.to_string()).unwrap_or_default()).collect());
    texts.get(at).map(CString::as_c_str)
}

/// A text for `fi_cq_strerror` and its like: copied to the program's buffer, if there is one.
///
/// # Safety
/// F2: `length` bytes.
pub(crate) unsafe fn tell(text: &'static CStr, buffer: *mut c_char, length: usize) -> *const c_char {
    if !buffer.is_null() && length != 0 {
        let n = text.to_bytes().len().min(length - 1);
        // SAFETY: the caller's.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), buffer, n);
            *buffer.add(n) = 0;
        }
    }
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_those_of_the_manual() {
        // Long texts are blocks in their table.
        let manual = include_str!("../../../docs/man/fi_bellwire.7").replace("T{\n", "").replace("\nT}", "");
        for (i, gone) in ALL.iter().enumerate() {
            let number = number(*gone);
            assert_eq!(number, FIRST + i as c_int, "{gone:?} is there twice");
            let text = text(number).unwrap().to_str().unwrap();
            assert!(manual.contains(&format!("{number}\t{text}\n")), "{number}\t{text}");
        }
        assert!(text(FIRST - 1).is_none() && text(FIRST + ALL.len() as c_int).is_none() && text(c_int::MIN).is_none());
    }
}
