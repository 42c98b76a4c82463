//! All entries of property texts; see `reput_arrow.propertymaps.property_maps`.

use std::str::from_utf8;

use pyo3::prelude::*;

use crate::derive::properties::each_entry;
use crate::shared::arrays::{Stretches, array, slices};
use crate::shared::border::{guarded, unlocked};
use crate::shared::decline::{Decline, declined_unless, room};

const ENTRY_SIZE_MIN: usize = 3; // bytes: a name, what ends it, and a value
const ENTRIES_MAX: usize = 64; // of one text; Python compares the names of more

/// See `reput_arrow.propertymaps.property_maps`.
#[pyfunction]
pub fn property_maps<'py>(
    py: Python<'py>,
    window: &Bound<'py, PyAny>,
    starts: &Bound<'py, PyAny>,
    sizes: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "property_maps", || {
        slices!(window, starts, sizes);
        let texts = Stretches::of(window, starts, sizes)?;
        let (first, names, values) = unlocked(py, 128 * texts.len(), || maps_of(window, texts))?;
        Ok((
            array(py, first),
            array(py, names.borders),
            array(py, names.bytes),
            array(py, values.borders),
            array(py, values.bytes),
        ))
    })
}

/// Number of each text's first entry, and of all; names and values. A text that has a name twice,
/// or is not UTF-8, is declined.
pub(super) fn maps_of(
    window: &[u8],
    texts: Stretches<'_>,
) -> Result<(Vec<i32>, Joined, Joined), Decline> {
    let (mut names, mut values) = (Joined::new()?, Joined::new()?);
    let mut first = room(texts.len() + 1)?;
    first.push(0);
    for row in 0..texts.len() {
        let (start, end) = texts.place(row);
        declined_unless(from_utf8(&window[start..end]).is_ok())?;
        names.reserve(end - start)?;
        values.reserve(end - start)?;
        let before = names.count();
        each_entry(window, start, end, |name, from, to| {
            if !name.is_empty() {
                names.push(name);
                values.push(&window[from..to]);
            }
        });
        declined_unless(names.fits() && values.fits() && names.are_distinct(before))?;
        first.push(names.count() as i32); // fewer than there are bytes, which fit
    }
    // Arrow keeps this memory as long as a batch lives.
    names.bytes.shrink_to_fit();
    values.bytes.shrink_to_fit();
    Ok((first, names, values))
}

/// Texts one behind the other.
pub(super) struct Joined {
    /// Where each begins, and the end of the last.
    pub borders: Vec<i32>,
    pub bytes: Vec<u8>,
}

impl Joined {
    fn new() -> Result<Self, Decline> {
        let mut borders = room(1)?;
        borders.push(0);
        let bytes = vec![];
        Ok(Self { borders, bytes })
    }

    /// Make room for what a text of so many bytes can add.
    fn reserve(&mut self, size: usize) -> Result<(), Decline> {
        self.borders.try_reserve(size / ENTRY_SIZE_MIN + 1)?;
        Ok(self.bytes.try_reserve(size)?)
    }

    #[inline]
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.borders.push(self.bytes.len() as i32); // `fits` is asked before it is used
    }

    fn count(&self) -> usize {
        self.borders.len() - 1
    }

    fn fits(&self) -> bool {
        i32::try_from(self.bytes.len()).is_ok()
    }

    fn get(&self, number: usize) -> &[u8] {
        &self.bytes[self.borders[number] as usize..self.borders[number + 1] as usize]
    }

    /// Whether there are few texts from that one on, and each of them once.
    fn are_distinct(&self, first: usize) -> bool {
        let numbers = first..self.count();
        let is_new = |number| (first..number).all(|other| self.get(other) != self.get(number));
        numbers.len() <= ENTRIES_MAX && numbers.clone().all(is_new)
    }
}
