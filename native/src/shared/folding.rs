//! Hashes short names in a nanosecond or two.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Keyed, so that no log and no producer can bring about collisions.
#[derive(Clone)]
pub struct Folding {
    key: u64,
}

impl Folding {
    pub fn new() -> Self {
        Self {
            key: RandomState::new().build_hasher().finish(),
        }
    }
}

impl BuildHasher for Folding {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded {
            state: self.key,
            key: self.key | 1,
        }
    }
}

pub struct Folded {
    state: u64,
    key: u64,
}

impl Folded {
    #[inline]
    fn fold(&mut self, word: u64) {
        const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
        let product = u128::from(self.state ^ word) * u128::from(MULTIPLIER ^ self.key);
        self.state = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for Folded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.fold(u64::from_le_bytes(last));
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}
