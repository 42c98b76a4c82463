//! Finds properties by name in a column of property texts; see `reput.record.text.properties`.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::shared::arrays::{Stretches, array, slices};
use crate::shared::border::{guarded, unlocked};
use crate::shared::gil::GilCell;
use crate::shared::layout::{NAME_END, VALUE_END};

/// Number of a name that one look at the texts finds together with the other two, as most who ask
/// for one of them ask for another. The compiler makes comparisons of numbers out of it.
#[inline]
fn common(name: &[u8]) -> Option<usize> {
    match name {
        b"TAGS" => Some(0),
        b"KEYS" => Some(1),
        b"UNIQ_KEY" => Some(2),
        _ => None,
    }
}

/// Starts and sizes of one name's values.
type Places = (Vec<i64>, Vec<i64>);

/// Where the values of properties stand in a column of property texts.
#[pyclass(frozen, module = "reput_native")]
pub struct PropertyPlaces {
    window: Py<PyArray1<u8>>,
    starts: Py<PyArray1<i64>>,
    sizes: Py<PyArray1<i64>>,
    /// Of the `common` names; each is handed out once.
    found: GilCell<[Option<Places>; 3]>,
}

/// See `reput.record.text.properties.property_places`.
#[pyfunction]
pub fn property_places<'py>(
    py: Python<'py>,
    window: &Bound<'py, PyAny>,
    starts: &Bound<'py, PyAny>,
    sizes: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "property_places", || {
        {
            slices!(window, starts, sizes);
            Stretches::of(window, starts, sizes)?;
        }
        let places = PropertyPlaces {
            window: window.cast::<PyArray1<u8>>()?.clone().unbind(),
            starts: starts.cast::<PyArray1<i64>>()?.clone().unbind(),
            sizes: sizes.cast::<PyArray1<i64>>()?.clone().unbind(),
            found: GilCell::default(),
        };
        Ok(places)
    })
}

#[pymethods]
impl PropertyPlaces {
    /// Starts and sizes of the values of `name`: 0 and -1 where a text has none.
    fn find<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        guarded(py, "PropertyPlaces.find", || {
            let number = common(name);
            let known = number.and_then(|number| self.found.borrow(py)[number].take());
            let (starts, sizes) = match (known, number) {
                (Some(known), _) => known,
                (None, Some(number)) => {
                    let mut found = self.each(py, common)?.map(Some);
                    let wanted = found[number].take().unwrap_or_default();
                    *self.found.borrow(py) = found;
                    wanted
                }
                (None, None) => {
                    let [found] = self.each(py, |found| (found == name).then_some(0))?;
                    found
                }
            };
            Ok((array(py, starts), array(py, sizes)))
        })
    }
}

impl PropertyPlaces {
    fn each<const COUNT: usize>(
        &self,
        py: Python<'_>,
        number_of: impl Fn(&[u8]) -> Option<usize> + Send,
    ) -> PyResult<[Places; COUNT]> {
        let window = self.window.bind(py).try_readonly()?;
        let starts = self.starts.bind(py).try_readonly()?;
        let sizes = self.sizes.bind(py).try_readonly()?;
        let window = window.as_slice()?;
        // Asked again: arrays can be written to in the meantime.
        let texts = Stretches::of(window, starts.as_slice()?, sizes.as_slice()?)
            .map_err(|_| PyIndexError::new_err("a property text leaves its window"))?;
        Ok(unlocked(py, 128 * texts.len(), || {
            places_of(window, texts, number_of)
        }))
    }
}

/// Starts and sizes of the values of each name that has a number.
fn places_of<const COUNT: usize>(
    window: &[u8],
    texts: Stretches<'_>,
    number_of: impl Fn(&[u8]) -> Option<usize>,
) -> [Places; COUNT] {
    let count = texts.len();
    let mut found = std::array::from_fn(|_| (vec![0; count], vec![-1; count]));
    for row in 0..count {
        let (start, end) = texts.place(row);
        each_entry(window, start, end, |name, value_start, value_end| {
            // The last of equal names wins.
            if let Some((starts, sizes)) = number_of(name).and_then(|number| found.get_mut(number))
            {
                starts[row] = value_start as i64;
                sizes[row] = (value_end - value_start) as i64;
            }
        });
    }
    found
}

/// Visit the entries of one text: name, and where its value begins and ends.
///
/// An entry without a value, or without the byte that ends a name, is none; a value keeps each such
/// byte after the first, and the byte that ends the last value may be missing.
#[inline]
pub(super) fn each_entry<'a>(
    window: &'a [u8],
    start: usize,
    end: usize,
    mut visit: impl FnMut(&'a [u8], usize, usize),
) {
    let (mut name, mut value) = (start, None);
    let mut tell = |name: usize, value: Option<usize>, end: usize| {
        if let Some(value) = value
            && value < end
        {
            visit(&window[name..value - 1], value, end);
        }
    };
    let mut at = start;
    while at < end {
        let (name_ends, value_ends) =
            match window.get(at..at + 64).and_then(|few| few.try_into().ok()) {
                Some(block) => places_of_ends(block),
                None => {
                    let rest = &window[at..end.min(at + 64)];
                    let mut block = [0; 64];
                    block[..rest.len()].copy_from_slice(rest);
                    places_of_ends(&block)
                }
            };
        let inside = if end - at < 64 {
            (1u64 << (end - at)) - 1
        } else {
            u64::MAX
        };
        let mut ends = (name_ends | value_ends) & inside;
        while ends != 0 {
            let place = at + ends.trailing_zeros() as usize;
            let bit = ends & ends.wrapping_neg();
            if value_ends & bit != 0 {
                tell(name, value, place);
                (name, value) = (place + 1, None);
            } else if value.is_none() {
                value = Some(place + 1);
            }
            ends ^= bit;
        }
        at += 64;
    }
    tell(name, value, end);
}

/// A bit for each byte of a block that ends a name, and for each that ends a value.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn places_of_ends(block: &[u8; 64]) -> (u64, u64) {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

    let (mut name_ends, mut value_ends) = (0, 0);
    for (number, quarter) in block.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: it reads 16 bytes at any alignment, and `quarter` has so many. Every x86-64 has
        // these instructions.
        let (names, values) = unsafe {
            let bytes = _mm_loadu_si128(quarter.as_ptr().cast());
            let is = |byte: u8| {
                _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u32
            };
            (is(NAME_END), is(VALUE_END))
        };
        name_ends |= u64::from(names) << (16 * number);
        value_ends |= u64::from(values) << (16 * number);
    }
    (name_ends, value_ends)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn places_of_ends(block: &[u8; 64]) -> (u64, u64) {
    block
        .iter()
        .enumerate()
        .fold((0, 0), |(names, values), (at, &byte)| {
            (
                names | u64::from(byte == NAME_END) << at,
                values | u64::from(byte == VALUE_END) << at,
            )
        })
}
