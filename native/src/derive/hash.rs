//! Java's `String.hashCode` over a column of texts; see `reput.record.text.javatext`.

use pyo3::prelude::*;

use crate::derive::text::java_text;
use crate::shared::arrays::{Column, Stretches, array, slices};
use crate::shared::border::{guarded, unlocked};
use crate::shared::decline::declined_unless;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// 31 to the power of 0 to 8.
const POWERS: [u32; 9] = {
    let mut powers = [1u32; 9];
    let mut at = 1;
    while at < 9 {
        powers[at] = powers[at - 1].wrapping_mul(31);
        at += 1;
    }
    powers
};

/// Hash of a text in front of which stands another one, whose hash is `seed`.
#[inline]
pub fn java_hash(text: &[u8], seed: u32) -> u32 {
    let mut hash = seed;
    let mut seen = 0u64;
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        seen |= u64::from_ne_bytes(*word);
        // Eight at once: the processor need not wait for one product before the next one.
        let sum = (0..8).fold(0u32, |sum, at| {
            sum.wrapping_add(u32::from(word[at]).wrapping_mul(POWERS[7 - at]))
        });
        hash = hash.wrapping_mul(POWERS[8]).wrapping_add(sum);
    }
    for &byte in rest {
        seen |= u64::from(byte);
        hash = hash.wrapping_mul(31).wrapping_add(u32::from(byte));
    }
    if seen & HIGH_BITS == 0 {
        hash
    } else {
        java_hash_of_units(text, seed)
    }
}

#[cold]
fn java_hash_of_units(text: &[u8], seed: u32) -> u32 {
    java_text(text).encode_utf16().fold(seed, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(u32::from(unit))
    })
}

/// See `reput.record.text.javatext.java_string_hash_column`.
#[pyfunction]
#[pyo3(signature = (window, starts, sizes, seeds = None))]
pub fn java_string_hash_column<'py>(
    py: Python<'py>,
    window: &Bound<'py, PyAny>,
    starts: &Bound<'py, PyAny>,
    sizes: &Bound<'py, PyAny>,
    seeds: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "java_string_hash_column", || {
        slices!(window, starts, sizes);
        let texts = Stretches::of(window, starts, sizes)?;
        let seeds = seeds.map(Column::<i32>::of).transpose()?;
        let seeds = seeds.as_ref().map(Column::items);
        declined_unless(seeds.is_none_or(|seeds| seeds.len() == texts.len()))?;
        let seed = |row| seeds.map_or(0, |seeds| seeds[row] as u32);
        let hash = |row| java_hash(texts.row(row), seed(row)) as i32;
        let hashes = unlocked(py, 32 * texts.len(), || {
            (0..texts.len()).map(hash).collect::<Vec<_>>()
        });
        Ok(array(py, hashes))
    })
}
