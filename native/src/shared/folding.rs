//! Hashes short names in a nanosecond or two.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Keyed, so that no log and no producer can bring about collisions.
#[derive(Clone)]
pub struct Folding {
    key: u64,
}

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

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
            // Its first and last bits are those of a good one: an even or a small one mixes badly.
            multiplier: MULTIPLIER ^ (self.key & 0x0000_FFFF_FFFF_0000),
        }
    }
}

pub struct Folded {
    state: u64,
    multiplier: u64,
}

impl Folded {
    #[inline]
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.multiplier);
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const NAMES: usize = 4_096;
    const BUCKETS: usize = 512;

    fn hashes(key: u64) -> Vec<u64> {
        let folding = Folding { key };
        let names = (0..NAMES).map(|number| format!("topic-{number}"));
        names
            .map(|name| folding.hash_one(name.as_bytes()))
            .collect()
    }

    /// Sum of squared distances from an even distribution; about `BUCKETS` for chance.
    fn chi_square(hashes: &[u64], bucket: impl Fn(u64) -> u64) -> f64 {
        let mut counts = [0u32; BUCKETS];
        for hash in hashes {
            counts[bucket(*hash) as usize % BUCKETS] += 1;
        }
        let expected = NAMES as f64 / BUCKETS as f64;
        let squares = counts.iter().map(|count| {
            let distance = f64::from(*count) - expected;
            distance * distance / expected
        });
        squares.sum()
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic alone, a million times")]
    fn names_spread_over_the_bits_that_a_table_uses_whatever_the_key() {
        // With some of these, a product by the whole key was one by a power of two, or by 3.
        let hard = (0..64).flat_map(|bit| [MULTIPLIER ^ (1 << bit), MULTIPLIER ^ 1 ^ (1 << bit)]);
        let some = (0..64u64).map(|number| number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        for key in hard.chain(some).chain([MULTIPLIER, !MULTIPLIER, u64::MAX]) {
            let hashes = hashes(key);

            let distinct: HashSet<_> = hashes.iter().collect();
            assert_eq!(distinct.len(), NAMES, "key {key:#x}");
            for shift in [0, 55] {
                let found = chi_square(&hashes, |hash| hash >> shift);
                assert!(
                    found < 2.0 * BUCKETS as f64,
                    "key {key:#x}, shift {shift}: {found}"
                );
            }
        }
    }
}
