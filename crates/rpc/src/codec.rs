// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as bytes. Bytes, text and plain values are here; programs add their own, or a format
//! crate's, by one `impl` of [`Codec`].

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A type of arguments or results.
///
/// ```
/// use bellwire_rpc::{Codec, signature};
///
/// struct Point(i32, i32);
///
/// impl Codec for Point {
///     const SIGNATURE: u64 = signature(b"Point", &[]);
///
///     fn encode(&self, to: &mut Vec<u8>) {
///         to.extend(self.0.to_le_bytes());
///         to.extend(self.1.to_le_bytes());
///     }
///
///     fn decode(bytes: &[u8]) -> Option<Self> {
///         let (x, y) = bytes.split_at_checked(4)?;
///         Some(Self(i32::decode(x)?, i32::decode(y)?))
///     }
/// }
/// ```
pub trait Codec: Sized {
    /// A number that tells this type, as it is encoded, from others: see [`signature`].
    const SIGNATURE: u64;

    /// Adds its bytes to `to`.
    fn encode(&self, to: &mut Vec<u8>);

    /// Gives its bytes to `f`; for types that have them as they are.
    #[inline]
    fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
        crate::scratch::with_scratch(|bytes| {
            self.encode(bytes);
            f(bytes)
        })
    }

    /// A value out of exactly these bytes, which a peer made up. `None`: they are no value.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// As [`decode`](Self::decode), for types that can keep the bytes.
    fn decode_owned(bytes: Vec<u8>) -> Option<Self> {
        Self::decode(&bytes)
    }
}

/// A number out of a name and the numbers of what it is made of (FNV-1a).
pub const fn signature(name: &[u8], parts: &[u64]) -> u64 {
    const fn step(hash: u64, byte: u8) -> u64 {
        (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3)
    }
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut i = 0;
    while i < name.len() {
        hash = step(hash, name[i]);
        i += 1;
    }
    let mut i = 0;
    while i < parts.len() {
        let bytes = parts[i].to_le_bytes();
        let mut k = 0;
        while k < 8 {
            hash = step(hash, bytes[k]);
            k += 1;
        }
        i += 1;
    }
    hash
}

/// A value whose bytes are its memory: integers, floats, arrays of them, structs of the program
/// with zerocopy's derives. Both sides have the same byte order: that of their processors, which is
/// little-endian everywhere this runs.
pub trait Plain: FromBytes + IntoBytes + Immutable {
    /// A name for the type.
    const NAME: &'static str;
}

macro_rules! plain {
    ($($type:ty),*) => { $(impl Plain for $type { const NAME: &'static str = stringify!($type); })* };
}
plain!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl<T: Plain, const N: usize> Plain for [T; N] {
    const NAME: &'static str = T::NAME;
}

impl<T: Plain> Codec for T {
    const SIGNATURE: u64 = signature(T::NAME.as_bytes(), &[size_of::<T>() as u64]);

    #[inline]
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.as_bytes());
    }

    #[inline]
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self.as_bytes())
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Option<Self> {
        T::read_from_bytes(bytes).ok()
    }
}

impl Codec for () {
    const SIGNATURE: u64 = signature(b"()", &[]);

    #[inline]
    fn encode(&self, _: &mut Vec<u8>) {}

    #[inline]
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

impl Codec for Vec<u8> {
    const SIGNATURE: u64 = signature(b"bytes", &[]);

    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }

    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }

    fn decode_owned(bytes: Vec<u8>) -> Option<Self> {
        Some(bytes)
    }
}

impl Codec for String {
    const SIGNATURE: u64 = signature(b"text", &[]);

    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.as_bytes());
    }

    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        core::str::from_utf8(bytes).ok().map(str::to_owned)
    }

    fn decode_owned(bytes: Vec<u8>) -> Option<Self> {
        Self::from_utf8(bytes).ok()
    }
}

/// A plain value, and bytes behind it.
impl<T: Plain> Codec for (T, Vec<u8>) {
    const SIGNATURE: u64 = signature(b"and bytes", &[<T as Codec>::SIGNATURE]);

    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.0.as_bytes());
        to.extend_from_slice(&self.1);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = T::read_from_prefix(bytes).ok()?;
        Some((head, rest.to_vec()))
    }
}

/// Perhaps a value: nothing is no byte, a value begins with one that is 1.
impl<T: Codec> Codec for Option<T> {
    const SIGNATURE: u64 = signature(b"perhaps", &[T::SIGNATURE]);

    fn encode(&self, to: &mut Vec<u8>) {
        if let Some(value) = self {
            to.push(1);
            value.encode(to);
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [] => Some(None),
            [1, value @ ..] => T::decode(value).map(Some),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survives<T: Codec + PartialEq + core::fmt::Debug>(value: &T) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        assert_eq!(T::decode(&bytes).as_ref(), Some(value));
        assert_eq!(T::decode_owned(bytes).as_ref(), Some(value));
    }

    #[test]
    fn values_survive_as_bytes() {
        survives(&());
        survives(&7u32);
        survives(&[1.5f64, -2.0]);
        survives(&vec![1u8, 2, 3]);
        survives(&String::from("é"));
        survives(&(9u64, vec![4u8]));
        survives(&None::<String>);
        survives(&Some(String::new()));
    }

    #[test]
    fn what_is_no_value() {
        assert!(u32::decode(&[1, 2, 3]).is_none() && u32::decode(&[0; 5]).is_none());
        assert!(String::decode(&[0xff]).is_none() && <()>::decode(&[0]).is_none());
        assert!(<(u64, Vec<u8>)>::decode(&[0; 7]).is_none());
        assert!(Option::<u8>::decode(&[2, 0]).is_none() && Option::<u8>::decode(&[1]).is_none());
    }

    #[test]
    fn types_have_different_signatures() {
        let all = [<()>::SIGNATURE, u32::SIGNATURE, i32::SIGNATURE, <[u32; 2]>::SIGNATURE, Vec::<u8>::SIGNATURE, String::SIGNATURE, Option::<u32>::SIGNATURE];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }
}
