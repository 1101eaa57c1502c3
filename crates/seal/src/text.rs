// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys as users write them: a key file, and the file of the hosts' public keys.

use crate::keys::{Host, Keys, PublicKey, SecretKey};
use crate::x25519::KEY_BYTES;
use core::fmt;
use core::net::IpAddr;

/// Why keys cannot be used; says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// A line of a key file that is neither `shared KEY` nor `private KEY`.
    Line(usize),
    /// A key is 64 hexadecimal digits, and this is not.
    Digits(usize),
    /// A key file without a key.
    Empty,
    /// Two keys of one kind.
    Twice(usize),
    /// A host's line that is not `HOST PUBLIC-KEY`.
    HostLine(usize),
    /// A host's name has no address.
    NoAddress(usize, String),
    /// A private key, and nobody to believe.
    NoHosts,
    /// Hosts' public keys, and no private key.
    NoPrivate,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n} is neither \"shared KEY\" nor \"private KEY\" (bellwire key makes one)"),
            Self::Digits(n) => write!(f, "line {n}: a key is 64 hexadecimal digits (bellwire key makes one)"),
            Self::Empty => f.write_str("there is no key in it (bellwire key makes one)"),
            Self::Twice(n) => write!(f, "line {n} is a second key of its kind"),
            Self::HostLine(n) => write!(f, "line {n} of the hosts' keys is not \"HOST PUBLIC-KEY\""),
            Self::NoAddress(n, host) => write!(f, "line {n} of the hosts' keys: {host} has no address"),
            Self::NoHosts => f.write_str("a private key needs the public keys of the peers: BELLWIRE_KEY_HOSTS"),
            Self::NoPrivate => f.write_str("public keys of hosts need a private key: BELLWIRE_KEY_FILE"),
        }
    }
}

impl core::error::Error for KeyError {}

/// 64 hexadecimal digits.
fn key(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; KEY_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// The lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().map(|(n, line)| (n + 1, line.split('#').next().unwrap_or("").split_whitespace().collect::<Vec<_>>())).filter(|l| !l.1.is_empty())
}

impl PublicKey {
    /// From 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        key(text).map(Self)
    }
}

impl Keys {
    /// From a key file's text (`shared KEY`, `private KEY`, or both; or a key alone, which is
    /// shared), and, if there is a private key, the text of the hosts' public keys: `HOST
    /// PUBLIC-KEY` in each line, where HOST is an address, a name, or `*`. `resolve` gives the
    /// addresses of a name.
    ///
    /// # Errors
    /// A [`KeyError`] says what is wrong, and in which line.
    pub fn parse(file: &str, hosts: Option<&str>, mut resolve: impl FnMut(&str) -> Vec<IpAddr>) -> Result<Self, KeyError> {
        let (mut shared, mut private) = (None, None);
        for (n, words) in lines(file) {
            let (place, digits) = match words[..] {
                ["shared", digits] | [digits] => (&mut shared, digits),
                ["private", digits] => (&mut private, digits),
                _ => return Err(KeyError::Line(n)),
            };
            if place.is_some() {
                return Err(KeyError::Twice(n));
            }
            *place = Some(key(digits).ok_or(KeyError::Digits(n))?);
        }
        let mut believed = Vec::new();
        for (n, words) in lines(hosts.unwrap_or("")) {
            let [host, digits] = words[..] else { return Err(KeyError::HostLine(n)) };
            let key = PublicKey(key(digits).ok_or(KeyError::Digits(n))?);
            if host == "*" {
                believed.push(Host { address: None, key });
                continue;
            }
            let addresses = host.parse().map_or_else(|_| resolve(host), |address: IpAddr| vec![address]);
            if addresses.is_empty() {
                return Err(KeyError::NoAddress(n, host.to_owned()));
            }
            believed.extend(addresses.into_iter().map(|a| Host { address: Some(a.to_canonical()), key }));
        }
        match (shared, private) {
            (None, None) if hosts.is_some() => Err(KeyError::NoPrivate),
            (None, None) => Err(KeyError::Empty),
            (Some(_), None) if hosts.is_some() => Err(KeyError::NoPrivate),
            (Some(shared), None) => Ok(Self::shared(shared)),
            (_, Some(_)) if hosts.is_none() => Err(KeyError::NoHosts),
            (shared, Some(private)) => {
                let keys = Self::of_host(SecretKey(private), believed);
                Ok(match shared {
                    Some(shared) => keys.and_shared(shared),
                    None => keys,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;

    fn nobody(_: &str) -> Vec<IpAddr> {
        Vec::new()
    }

    #[test]
    fn key_files_are_read_and_mistakes_are_named() {
        let digits = "0f".repeat(32);
        let parse = |text: &str, hosts: Option<&str>| Keys::parse(text, hosts, nobody);
        assert_eq!(parse(&digits, None).unwrap(), Keys::shared([0x0f; 32]));
        assert_eq!(parse(&format!("# of the cluster\n\nshared {digits} # that\n"), None).unwrap().pattern(), Pattern::Shared);
        let (private, hosts) = (format!("private {digits}"), format!("10.0.0.2 {digits}\n* {}\n", "aa".repeat(32)));
        let keys = parse(&private, Some(&hosts)).unwrap();
        assert_eq!((keys.pattern(), keys.hosts().len()), (Pattern::Hosts, 2));
        let own = SecretKey([0x0f; 32]).public();
        assert_eq!(keys.public(), Some(own));
        assert_eq!(keys.key_of("10.0.0.2".parse().unwrap()), Some(PublicKey([0x0f; 32])));
        assert_eq!(keys.key_of("::ffff:10.0.0.2".parse().unwrap()), Some(PublicKey([0x0f; 32])));
        assert_eq!(keys.key_of("10.0.0.3".parse().unwrap()), Some(PublicKey([0xaa; 32])));
        assert!(!keys.believes("10.0.0.3".parse().unwrap(), &PublicKey([0x0f; 32])) && keys.believes("10.0.0.3".parse().unwrap(), &own));
        assert_eq!(parse(&format!("{private}\nshared {digits}"), Some(&hosts)).unwrap().pattern(), Pattern::Both);
        for (text, hosts, error) in [
            ("", None, KeyError::Empty),
            ("secret 00", None, KeyError::Line(1)),
            ("\nshared 00", None, KeyError::Digits(2)),
            (&format!("{digits}\nshared {digits}"), None, KeyError::Twice(2)),
            (&private, None, KeyError::NoHosts),
            (&digits, Some(""), KeyError::NoPrivate),
            (&private, Some("a b c"), KeyError::HostLine(1)),
            (&private, Some("1.2.3.4 zz"), KeyError::Digits(1)),
            (&private, Some(&format!("\nnowhere {digits}")), KeyError::NoAddress(2, "nowhere".to_owned())),
        ] {
            assert_eq!(parse(text, hosts), Err(error.clone()), "{text:?} {hosts:?}");
            assert!(!error.to_string().is_empty());
        }
        assert_eq!(SecretKey([0x0f; 32]).to_hex(), digits);
        assert_eq!(format!("{:?} {:?}", keys, SecretKey([1; 32])), "Keys(Hosts, 2 hosts) SecretKey(..)");
        assert_eq!(PublicKey::from_hex(&own.to_string()), Some(own));
    }
}
