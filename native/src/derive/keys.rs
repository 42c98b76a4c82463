//! Hashes of the keys of messages; see `reput_index._keys`.

use pyo3::prelude::*;

use crate::derive::hash::java_hash;
use crate::shared::arrays::{Column, Stretches, array};
use crate::shared::border::{guarded, unlocked};

const SEPARATOR: u8 = b' ';

/// See `reput_index._keys.keys_of_texts`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // they are columns of one batch
pub fn keys_of_texts<'py>(
    py: Python<'py>,
    window: &Bound<'py, PyAny>,
    unique_starts: &Bound<'py, PyAny>,
    unique_sizes: &Bound<'py, PyAny>,
    words_starts: &Bound<'py, PyAny>,
    words_sizes: &Bound<'py, PyAny>,
    seeds: &Bound<'py, PyAny>,
    physical_offsets: &Bound<'py, PyAny>,
    timestamps: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "keys_of_texts", || {
        let (
            Some(window),
            Some(unique_starts),
            Some(unique_sizes),
            Some(words_starts),
            Some(words_sizes),
            Some(seeds),
            Some(physical_offsets),
            Some(timestamps),
        ) = (
            Column::of(window),
            Column::of(unique_starts),
            Column::of(unique_sizes),
            Column::of(words_starts),
            Column::of(words_sizes),
            Column::<i32>::of(seeds),
            Column::<i64>::of(physical_offsets),
            Column::<i64>::of(timestamps),
        )
        else {
            return Ok(None);
        };
        let window = window.items();
        let (Some(unique), Some(words)) = (
            Stretches::of(window, unique_starts.items(), unique_sizes.items()),
            Stretches::of(window, words_starts.items(), words_sizes.items()),
        ) else {
            return Ok(None);
        };
        let messages = Messages {
            unique,
            words,
            seeds: seeds.items(),
            physical_offsets: physical_offsets.items(),
            timestamps: timestamps.items(),
        };
        if !messages.are_sound() {
            return Ok(None);
        }
        let keys = unlocked(py, 64 * unique.len(), || messages.keys());
        let (hashes, physical_offsets, timestamps) = keys;
        let columns = (
            array(py, hashes),
            array(py, physical_offsets),
            array(py, timestamps),
        );
        Ok(Some(columns.into_pyobject(py)?.into_any()))
    })
}

struct Messages<'a> {
    unique: Stretches<'a>,
    words: Stretches<'a>,
    seeds: &'a [i32],
    physical_offsets: &'a [i64],
    timestamps: &'a [i64],
}

impl Messages<'_> {
    fn are_sound(&self) -> bool {
        let count = self.unique.len();
        [
            self.words.len(),
            self.seeds.len(),
            self.physical_offsets.len(),
            self.timestamps.len(),
        ]
        .iter()
        .all(|length| *length == count)
    }

    /// Hash, physical offset and store time of each key; of a message its unique key first.
    fn keys(&self) -> (Vec<i32>, Vec<i64>, Vec<i64>) {
        let guess = 2 * self.unique.len();
        let mut hashes = Vec::with_capacity(guess);
        let (mut offsets, mut timestamps) = (Vec::with_capacity(guess), Vec::with_capacity(guess));
        for row in 0..self.unique.len() {
            let (unique, words, seed) = (
                self.unique.row(row),
                self.words.row(row),
                self.seeds[row] as u32,
            );
            if !unique.is_empty() {
                hashes.push(key_hash(unique, seed));
            }
            for word in words
                .split(|byte| *byte == SEPARATOR)
                .filter(|word| !word.is_empty())
            {
                hashes.push(key_hash(word, seed));
            }
            offsets.resize(hashes.len(), self.physical_offsets[row]);
            timestamps.resize(hashes.len(), self.timestamps[row]);
        }
        (hashes, offsets, timestamps)
    }
}

/// The hash that an item states: never negative.
#[inline]
fn key_hash(key: &[u8], seed: u32) -> i32 {
    // The smallest number has no positive twin.
    (java_hash(key, seed) as i32).checked_abs().unwrap_or(0)
}
