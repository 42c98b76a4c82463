//! Hashes of the keys of messages; see `reput_index.batchkeys`.

use pyo3::prelude::*;

use crate::derive::hash::java_hash;
use crate::shared::arrays::{Stretches, are_equal, array, slices};
use crate::shared::border::{guarded, unlocked};
use crate::shared::decline::{Decline, declined_unless};
use crate::shared::layout::KEY_SEPARATOR;

/// See `reput_index.batchkeys.keys_of_texts`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // they are columns of one batch
pub fn keys_of_texts<'py>(
    py: Python<'py>,
    window: &Bound<'py, PyAny>,
    unique_starts: &Bound<'py, PyAny>,
    unique_sizes: &Bound<'py, PyAny>,
    words_starts: &Bound<'py, PyAny>,
    words_sizes: &Bound<'py, PyAny>,
    topic_code: &Bound<'py, PyAny>,
    topic_seeds: &Bound<'py, PyAny>,
    physical_offsets: &Bound<'py, PyAny>,
    timestamps: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "keys_of_texts", || {
        slices!(
            window,
            unique_starts,
            unique_sizes,
            words_starts,
            words_sizes
        );
        slices!(topic_code, topic_seeds, physical_offsets, timestamps);
        let messages = Messages {
            unique: Stretches::of(window, unique_starts, unique_sizes)?,
            words: Stretches::of(window, words_starts, words_sizes)?,
            topic_code,
            topic_seeds,
            physical_offsets,
            timestamps,
        };
        declined_unless(are_equal([
            messages.unique.len(),
            messages.words.len(),
            topic_code.len(),
            physical_offsets.len(),
            timestamps.len(),
        ]))?;
        let size = 64 * messages.topic_code.len();
        let (hashes, offsets, timestamps) = unlocked(py, size, || messages.keys())?;
        Ok((array(py, hashes), array(py, offsets), array(py, timestamps)))
    })
}

/// Hash, physical offset and store time of each key.
type Keys = (Vec<i32>, Vec<i64>, Vec<i64>);

struct Messages<'a> {
    unique: Stretches<'a>,
    words: Stretches<'a>,
    topic_code: &'a [i32],
    topic_seeds: &'a [i32],
    physical_offsets: &'a [i64],
    timestamps: &'a [i64],
}

impl Messages<'_> {
    /// The keys of all messages; of a message its unique key first.
    fn keys(&self) -> Result<Keys, Decline> {
        let guess = 2 * self.unique.len();
        let mut hashes = Vec::with_capacity(guess);
        let (mut offsets, mut timestamps) = (Vec::with_capacity(guess), Vec::with_capacity(guess));
        for row in 0..self.unique.len() {
            let code = usize::try_from(self.topic_code[row]).ok();
            let seed = code.and_then(|code| self.topic_seeds.get(code));
            let seed = *seed.ok_or(Decline::ToPython)? as u32;
            let unique = self.unique.row(row);
            if !unique.is_empty() {
                hashes.push(key_hash(unique, seed));
            }
            let words = self.words.row(row).split(|byte| *byte == KEY_SEPARATOR);
            for word in words.filter(|word| !word.is_empty()) {
                hashes.push(key_hash(word, seed));
            }
            offsets.resize(hashes.len(), self.physical_offsets[row]);
            timestamps.resize(hashes.len(), self.timestamps[row]);
        }
        Ok((hashes, offsets, timestamps))
    }
}

/// The hash that an item states: never negative.
#[inline]
fn key_hash(key: &[u8], seed: u32) -> i32 {
    // The smallest number has no positive twin.
    (java_hash(key, seed) as i32).checked_abs().unwrap_or(0)
}
