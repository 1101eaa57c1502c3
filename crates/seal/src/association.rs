// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of one session in use: packets are sealed where they lie, and opened where they lie.
//!
//! ```text
//!   clear | encrypted | counter (7) | key numbers (1) | tag (16) of all that is before it
//! ```
//!
//! *Counter.* Each direction counts the packets that it seals, from 1 on. Counter and key numbers
//! are the nonce.
//! A packet that leaves again gets a new one (S1), so its changed header is as good as a new
//! packet's.
//!
//! *Key update.* After so many packets or bytes or so long, a direction goes on with a key that is
//! derived from the one in use, and forgets that one. A receiver has the keys before, now and next;
//! a packet with the next one moves it on. Each packet tells two numbers, modulo 16: that of its
//! own key (low four bits), and that of the other direction's newest key that its sender has seen
//! (high four bits). A sender updates only when the peer has seen the key in use, so the two are
//! never further apart than one, whatever is lost.

use crate::replay::Replay;
use bellwire_time::{Duration, Instant};
use core::fmt;
use ring::aead::{AES_128_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::{Zeroize as _, Zeroizing};

/// Bytes behind the packet.
pub const TRAILER: usize = 24;
/// Bytes of the longest key.
pub const KEY_BYTES_MAX: usize = 32;
const TAG: usize = 16;
const COUNTER: usize = TRAILER - TAG;
const COUNTER_BITS: u32 = 56;
/// With this counter a direction is spent: far enough from the end that whatever is under way can
/// still be sealed.
const COUNTER_SPENT: u64 = (1 << COUNTER_BITS) - (1 << 32);
/// The greatest number of a key, and the bits of one.
const NUMBERS: u8 = 15;
const NUMBER_BITS: u32 = 4;

/// How packets are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128 in Galois/Counter mode: where both processors have instructions for it.
    Aes128Gcm,
    /// ChaCha20 and Poly1305.
    ChaCha20Poly1305,
}

impl Cipher {
    /// The faster one of this processor.
    pub fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        let has_aes = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let has_aes = std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has_aes = false;
        if has_aes { Self::Aes128Gcm } else { Self::ChaCha20Poly1305 }
    }

    /// As people know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// When a direction goes on with a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// After so many packets ..
    pub packets: u64,
    /// .. or bytes ..
    pub bytes: u64,
    /// .. or so long, when there is something to seal.
    pub time: Duration,
    /// A key that the peer does not let us go on from is spent after so many packets ..
    pub packets_max: u64,
    /// .. or bytes.
    pub bytes_max: u64,
}

impl Default for Limits {
    /// Half of what RFC 9001 (6.6) allows AES-GCM, 64 GiB, two minutes; spent after twice as many
    /// packets or bytes.
    fn default() -> Self {
        Self { packets: 1 << 22, bytes: 1 << 36, time: Duration::from_secs(120), packets_max: 1 << 23, bytes_max: 1 << 37 }
    }
}

/// What a handshake has agreed on: one secret for each direction.
pub struct Secrets {
    pub(crate) send: Zeroizing<[u8; KEY_BYTES_MAX]>,
    pub(crate) receive: Zeroizing<[u8; KEY_BYTES_MAX]>,
}

impl Secrets {
    /// Chosen, for tests and golden packets.
    pub fn chosen(send: [u8; KEY_BYTES_MAX], receive: [u8; KEY_BYTES_MAX]) -> Self {
        Self { send: Zeroizing::new(send), receive: Zeroizing::new(receive) }
    }
}

/// Says nothing of the bytes.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// Why a packet was not opened. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// It has no room for a trailer.
    Short,
    /// It has been opened, or is too old to tell.
    Replayed,
    /// We do not have its key.
    Key,
    /// Its tag is wrong: somebody changed or made it.
    Forged,
}

pub(crate) struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Bytes that follow from a secret, for one use; dropped, they are overwritten (S3).
pub(crate) fn derive<const N: usize>(secret: &[u8; KEY_BYTES_MAX], parts: &[&[u8]]) -> Zeroizing<[u8; N]> {
    let mut bytes = Zeroizing::new([0; N]);
    let filled = Prk::new_less_safe(HKDF_SHA256, secret).expand(parts, Length(N)).and_then(|okm| okm.fill(&mut *bytes));
    assert!(filled.is_ok(), "HKDF gives up to 255 hashes");
    bytes
}

/// One key, and what the next follows from.
struct Epoch {
    /// Zeros once the next key has been derived: that key does not follow from what is left.
    secret: Zeroizing<[u8; KEY_BYTES_MAX]>,
    key: LessSafeKey,
    number: u8,
}

impl Epoch {
    fn new(cipher: Cipher, secret: Zeroizing<[u8; KEY_BYTES_MAX]>, number: u8) -> Self {
        let bytes: Zeroizing<[u8; KEY_BYTES_MAX]> = derive(&secret, &[b"bellwire packet key"]);
        let algorithm = cipher.algorithm();
        let Ok(key) = UnboundKey::new(algorithm, &bytes[..algorithm.key_len()]) else { unreachable!("a key of the cipher's length") };
        Self { secret, key: LessSafeKey::new(key), number }
    }

    //= P-AUTH-8
    fn next(&self, cipher: Cipher) -> Self {
        Self::new(cipher, derive(&self.secret, &[b"bellwire next key"]), (self.number + 1) & NUMBERS)
    }
}

/// The keys of a session.
pub struct Association {
    cipher: Cipher,
    limits: Limits,
    send: Epoch,
    /// Of the packet sealed last.
    counter: u64,
    /// Sealed with this key; since when it is used.
    packets: u64,
    bytes: u64,
    since: Instant,
    receive: Epoch,
    before: Option<Epoch>,
    /// Made when it is first asked for.
    after: Option<Epoch>,
    replay: Replay,
    /// The number of our newest key that the peer has seen.
    seen: u8,
    updates: u64,
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Association({}, {} sealed)", self.cipher.name(), self.counter)
    }
}

/// What a trailer says in the clear.
#[derive(Clone, Copy)]
struct Told(u64);

impl Told {
    fn new(counter: u64, own: u8, seen: u8) -> Self {
        Self(counter | u64::from(own | seen << NUMBER_BITS) << COUNTER_BITS)
    }

    fn of(trailer: &[u8]) -> Self {
        let mut word = [0; COUNTER];
        word.copy_from_slice(&trailer[..COUNTER]);
        Self(u64::from_le_bytes(word))
    }

    const fn counter(self) -> u64 {
        self.0 & ((1 << COUNTER_BITS) - 1)
    }

    /// The number of the key.
    const fn own(self) -> u8 {
        (self.0 >> COUNTER_BITS) as u8 & NUMBERS
    }

    /// The number of the receiver's key that the sender has seen.
    const fn seen(self) -> u8 {
        (self.0 >> (COUNTER_BITS + NUMBER_BITS)) as u8
    }

    fn nonce(self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[4..].copy_from_slice(&self.0.to_le_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}

impl Epoch {
    /// Takes the encryption from the bytes between `clear` and the trailer.
    #[inline]
    fn open(&self, packet: &mut [u8], clear: usize, told: Told) -> bool {
        let (head, rest) = packet.split_at_mut(clear);
        let (body, trailer) = rest.split_at_mut(rest.len() - TRAILER);
        let mut tag = [0; TAG];
        tag.copy_from_slice(&trailer[COUNTER..]);
        self.key.open_in_place_separate_tag(told.nonce(), Aad::from(&*head), Tag::from(tag), body, 0..).is_ok()
    }
}

impl Association {
    /// A new session's, with the secrets of its handshake.
    pub fn new(cipher: Cipher, limits: Limits, secrets: Secrets, now: Instant) -> Self {
        Self {
            cipher,
            limits,
            send: Epoch::new(cipher, secrets.send, 0),
            counter: 0,
            packets: 0,
            bytes: 0,
            since: now,
            receive: Epoch::new(cipher, secrets.receive, 0),
            before: None,
            after: None,
            replay: Replay::new(),
            seen: 0,
            updates: 0,
        }
    }

    /// The cipher.
    pub const fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Keys that our direction has gone on from.
    pub const fn updates(&self) -> u64 {
        self.updates
    }

    /// Whether nothing more should be sealed: this key has sealed all that is safe, and the peer
    /// has not seen it, so there is no next one; or the counter is near its end.
    //= P-AUTH-12
    #[inline]
    pub const fn is_spent(&self) -> bool {
        self.packets >= self.limits.packets_max || self.bytes >= self.limits.bytes_max || self.counter >= COUNTER_SPENT
    }

    /// Seals a packet: the bytes behind the first `clear` ones are encrypted, and the last
    /// [`TRAILER`] bytes are written.
    ///
    /// # Panics
    /// If the packet is shorter than `clear` and the trailer; if all counters are used up, which a
    /// caller that asks [`is_spent`](Self::is_spent) never sees: no nonce is used twice (S1).
    //= P-AUTH-5
    //= P-AUTH-12
    #[inline]
    pub fn seal(&mut self, packet: &mut [u8], clear: usize) {
        assert!(self.counter + 1 < 1 << COUNTER_BITS, "all counters are used up");
        self.counter += 1;
        self.packets += 1;
        self.bytes += packet.len() as u64;
        let (head, rest) = packet.split_at_mut(clear);
        let (body, trailer) = rest.split_at_mut(rest.len() - TRAILER);
        let told = Told::new(self.counter, self.send.number, self.receive.number);
        let Ok(tag) = self.send.key.seal_in_place_separate_tag(told.nonce(), Aad::from(&*head), body) else {
            unreachable!("a packet is shorter than any cipher's limit")
        };
        trailer[..COUNTER].copy_from_slice(&told.0.to_le_bytes());
        trailer[COUNTER..].copy_from_slice(tag.as_ref());
    }

    /// Takes back what [`seal`](Self::seal) did to a packet, as long as its key is in use. `false`:
    /// it is not what was sealed.
    #[must_use]
    pub fn unseal(&self, packet: &mut [u8], clear: usize) -> bool {
        let told = Told::of(&packet[packet.len() - TRAILER..]);
        told.own() == self.send.number && self.send.open(packet, clear, told)
    }

    /// Opens a packet of the peer's: takes the encryption from what is behind the first `clear`
    /// bytes. If it is not the peer's, what is there then means nothing.
    ///
    /// # Errors
    /// An [`OpenError`] says why it is not to be believed.
    //= P-AUTH-5
    //= P-AUTH-6
    //= P-AUTH-7
    #[inline]
    pub fn open(&mut self, packet: &mut [u8], clear: usize) -> Result<(), OpenError> {
        let Some(trailer) = packet.len().checked_sub(TRAILER).filter(|at| *at >= clear) else { return Err(OpenError::Short) };
        let told = Told::of(&packet[trailer..]);
        if !self.replay.is_new(told.counter()) {
            return Err(OpenError::Replayed);
        }
        if told.own() == self.receive.number {
            if !self.receive.open(packet, clear, told) {
                return Err(OpenError::Forged);
            }
        } else {
            self.open_otherwise(packet, clear, told)?;
        }
        if self.replay.note(told.counter()) {
            self.seen = told.seen();
        }
        Ok(())
    }

    /// With the key before, or with the next one, which is the one from then on.
    //= P-AUTH-8
    #[cold]
    fn open_otherwise(&mut self, packet: &mut [u8], clear: usize, told: Told) -> Result<(), OpenError> {
        let number = told.own();
        if let Some(before) = self.before.as_ref().filter(|epoch| epoch.number == number) {
            return if before.open(packet, clear, told) { Ok(()) } else { Err(OpenError::Forged) };
        }
        if number != (self.receive.number + 1) & NUMBERS {
            return Err(OpenError::Key);
        }
        let cipher = self.cipher;
        let after = self.after.get_or_insert_with(|| self.receive.next(cipher));
        if !after.open(packet, clear, told) {
            return Err(OpenError::Forged);
        }
        if let Some(after) = self.after.take() {
            let mut before = core::mem::replace(&mut self.receive, after);
            before.secret.zeroize();
            self.before = Some(before);
        }
        Ok(())
    }

    /// Whether our direction is to go on with the next key: this one is worn, and the peer has seen
    /// it.
    //= P-AUTH-8
    #[inline]
    pub fn is_update_due(&self, now: Instant) -> bool {
        let is_worn = self.packets >= self.limits.packets || self.bytes >= self.limits.bytes || now.since(self.since) >= self.limits.time;
        is_worn && self.packets > 0 && self.seen == self.send.number
    }

    /// Goes on with the next key. Packets that the one before sealed cannot be unsealed any more.
    pub fn update(&mut self, now: Instant) {
        self.send = self.send.next(self.cipher);
        (self.packets, self.bytes, self.since) = (0, 0, now);
        self.updates += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(cipher: Cipher, limits: Limits) -> [Association; 2] {
        let new = |send, receive| Association::new(cipher, limits, Secrets::chosen(send, receive), Instant(0));
        [new([1; 32], [2; 32]), new([2; 32], [1; 32])]
    }

    fn packet(body: &[u8]) -> Vec<u8> {
        [&[0x11; 16], body, &[0; TRAILER]].concat()
    }

    #[test]
    fn what_was_sealed_is_opened_once_and_each_flipped_bit_is_found() {
        //= P-AUTH-5
        //= P-AUTH-6
        //= P-AUTH-7
        for cipher in [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305] {
            let [mut a, mut b] = pair(cipher, Limits::default());
            let plain = packet(b"what nobody else is to read");
            let mut sealed = plain.clone();
            a.seal(&mut sealed, 16);
            assert!(sealed[..16] == plain[..16] && !sealed.windows(6).any(|w| w == b"nobody"));
            for bit in 0..sealed.len() * 8 {
                let mut bent = sealed.clone();
                bent[bit / 8] ^= 1 << (bit % 8);
                assert!(b.open(&mut bent, 16).is_err(), "bit {bit}");
            }
            for length in 0..sealed.len() {
                assert!(b.open(&mut sealed[..length].to_vec(), 16).is_err(), "cut to {length}");
            }
            assert_eq!(a.open(&mut sealed.clone(), 16), Err(OpenError::Forged), "its own packet, said back to it");
            let mut opened = sealed.clone();
            assert_eq!(b.open(&mut opened, 16), Ok(()));
            assert_eq!(opened[..opened.len() - TRAILER], plain[..plain.len() - TRAILER]);
            assert_eq!(b.open(&mut sealed.clone(), 16), Err(OpenError::Replayed));
            let mut back = sealed.clone();
            assert!(a.unseal(&mut back, 16) && back[..43] == plain[..43]);
            // Again with another header: other bytes everywhere, and both are good.
            back[0] = 0x12;
            a.seal(&mut back, 16);
            assert!(back[16..43] != sealed[16..43] && b.open(&mut back, 16).is_ok());
            a.update(Instant(1));
            assert!(!a.unseal(&mut sealed, 16), "its key is gone");
        }
    }

    #[test]
    fn golden() {
        //= P-AUTH-5
        //= P-AUTH-8
        let [mut a, _] = pair(Cipher::Aes128Gcm, Limits::default());
        let mut sealed = packet(b"golden");
        a.seal(&mut sealed, 16);
        a.update(Instant(0));
        let mut next = packet(b"golden");
        a.seal(&mut next, 16);
        let mut chacha = packet(b"golden");
        pair(Cipher::ChaCha20Poly1305, Limits::default())[0].seal(&mut chacha, 16);
        let hex = |b: &[u8]| crate::keys::hex(&b[16..]);
        assert_eq!(hex(&sealed), "df316e496cdb01000000000000004ccc624b0f78282cb7394f09f186db5d");
        assert_eq!(hex(&next), "09a3b89f471d0200000000000001b7799b32f93c4ac97b153209fd8913a1");
        assert_eq!(hex(&chacha), "26877f5801b701000000000000001818d268cc0e27514dc5afbf85e82169");
    }

    #[test]
    fn keys_change_in_step_whatever_is_lost_or_overtaken() {
        //= P-AUTH-8
        let limits = Limits { packets: 5, ..Limits::default() };
        let mut ends = pair(Cipher::Aes128Gcm, limits);
        let mut random = 12345u64;
        let mut wire: Vec<(usize, Vec<u8>)> = Vec::new();
        let (mut opened, mut lost, mut late) = (0, 0, 0);
        for turn in 0..100_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let who = (random >> 40) as usize % 2;
            let now = Instant(turn);
            if ends[who].is_update_due(now) {
                ends[who].update(now);
            }
            let mut sealed = packet(&turn.to_le_bytes());
            ends[who].seal(&mut sealed, 16);
            if (random >> 50).is_multiple_of(5) {
                lost += 1;
            } else {
                wire.push((1 - who, sealed));
            }
            // A packet that two updates overtake is as good as lost.
            while wire.len() > 2 {
                let (to, mut packet) = wire.remove((random >> 45) as usize % wire.len());
                match ends[to].open(&mut packet, 16) {
                    Ok(()) => opened += 1,
                    Err(OpenError::Key) => late += 1,
                    Err(e) => panic!("turn {turn}: {e:?}"),
                }
            }
            for who in 0..2 {
                assert!(ends[who].before.as_ref().is_none_or(|epoch| *epoch.secret == [0; 32]), "the key in use does not follow from the one before");
                let ahead = ends[who].send.number.wrapping_sub(ends[1 - who].receive.number) & NUMBERS;
                assert!(ahead < 2, "turn {turn}: a sender is {ahead} keys ahead");
            }
        }
        assert!(opened > 50_000 && lost > 10_000 && late < 1_000, "{opened} {lost} {late}");
        assert!(ends.iter().all(|e| e.updates() > 5_000), "the numbers of keys come round");
    }

    #[test]
    fn a_peer_that_says_nothing_stops_updates_and_time_makes_them() {
        //= P-AUTH-8
        let [mut a, mut b] = pair(Cipher::Aes128Gcm, Limits { packets: 3, bytes: 1000, time: Duration(100), ..Limits::default() });
        let put = |from: &mut Association, to: &mut Association, body: usize| {
            let mut p = packet(&vec![0; body]);
            from.seal(&mut p, 16);
            to.open(&mut p, 16)
        };
        assert!(!a.is_update_due(Instant(1000)), "nothing was sealed");
        put(&mut a, &mut b, 1).unwrap();
        assert!(a.is_update_due(Instant(100)) && !a.is_update_due(Instant(99)));
        put(&mut a, &mut b, 1000).unwrap();
        assert!(a.is_update_due(Instant(1)));
        a.update(Instant(1));
        for _ in 0..10 {
            put(&mut a, &mut b, 1).unwrap();
        }
        assert!(!a.is_update_due(Instant(1000)), "the peer has not said that it has seen the key");
        put(&mut b, &mut a, 1).unwrap();
        assert!(a.is_update_due(Instant(1)));
    }

    #[test]
    fn a_key_that_cannot_be_left_is_spent_after_its_last_packet_or_byte() {
        //= P-AUTH-12
        let limits = Limits { packets: 3, packets_max: 10, bytes_max: 2000, ..Limits::default() };
        let [mut a, mut b] = pair(Cipher::Aes128Gcm, limits);
        let put = |from: &mut Association, to: &mut Association, body: usize| {
            let mut p = packet(&vec![0; body]);
            from.seal(&mut p, 16);
            to.open(&mut p, 16).unwrap();
        };
        // The peer answers: however much there is to seal, no key is spent.
        for turn in 0..100 {
            put(&mut a, &mut b, 8);
            put(&mut b, &mut a, 8);
            assert!(!a.is_spent());
            if a.is_update_due(Instant(turn)) {
                a.update(Instant(turn));
            }
        }
        // It falls silent.
        a.update(Instant(200));
        for sealed in 1..=10 {
            assert!(!a.is_spent());
            put(&mut a, &mut b, 8);
            assert_eq!(a.is_spent(), sealed == 10);
        }
        a.update(Instant(300));
        assert!(!a.is_spent(), "a new key");
        put(&mut a, &mut b, 2000);
        assert!(a.is_spent());
    }

    #[test]
    fn counters_end_before_one_comes_again() {
        //= P-AUTH-12
        let [mut a, _] = pair(Cipher::Aes128Gcm, Limits::default());
        a.counter = COUNTER_SPENT - 1;
        assert!(!a.is_spent());
        let mut p = packet(b"last");
        a.seal(&mut p, 16);
        assert!(a.is_spent());
        a.update(Instant(1));
        assert!(a.is_spent(), "a new key does not help");
        // A caller that does not ask gets no nonce twice either: nothing is sealed any more.
        a.counter = (1 << COUNTER_BITS) - 2;
        a.seal(&mut p, 16);
        assert_eq!(Told::of(&p[p.len() - TRAILER..]).counter(), (1 << COUNTER_BITS) - 1);
        for _ in 0..2 {
            let before = p.clone();
            let sealed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.seal(&mut p, 16)));
            assert!(sealed.is_err() && p == before);
        }
    }

    proptest! {
        /// Whatever is said to an end between packets of its peer changes nothing.
        #[test]
        fn strangers_change_nothing(noise in proptest::collection::vec((any::<u8>(), any::<u16>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..80)), 1..60)) {
            //= P-AUTH-6
            let [mut a, mut b] = pair(Cipher::ChaCha20Poly1305, Limits { packets: 7, ..Limits::default() });
            let mut said: Vec<Vec<u8>> = Vec::new();
            for (n, (what, at, by, bytes)) in noise.into_iter().enumerate() {
                let mut bad = match (what % 5, said.is_empty()) {
                    (0, _) | (_, true) => bytes,
                    (1, _) => said[usize::from(at) % said.len()].clone(),
                    (2, _) => {
                        let mut p = said[usize::from(at) % said.len()].clone();
                        let i = usize::from(at) % p.len();
                        p[i] ^= by | 1;
                        p
                    }
                    (3, _) => { let mut p = said[usize::from(at) % said.len()].clone(); p.truncate(usize::from(by) % p.len()); p }
                    _ => { let mut p = packet(&bytes); b.seal(&mut p, 16); p }
                };
                let clear = 16.min(bad.len());
                prop_assert!(b.open(&mut bad, clear).is_err());
                let now = Instant(n as u64);
                for end in [&mut a, &mut b] {
                    if end.is_update_due(now) { end.update(now); }
                }
                let mut p = packet(&[n as u8; 9]);
                a.seal(&mut p, 16);
                said.push(p.clone());
                prop_assert_eq!(b.open(&mut p, 16), Ok(()));
                prop_assert_eq!(&p[16..25], &[n as u8; 9]);
                let mut p = packet(&[7]);
                b.seal(&mut p, 16);
                prop_assert_eq!(a.open(&mut p, 16), Ok(()));
            }
        }
    }
}
