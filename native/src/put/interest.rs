//! Whether plugins must see a message before it is stored; see `reput.plugin.putinterest`.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyList, PyString, PyTuple};
use pyo3::{Borrowed, ffi};

use crate::derive::properties::places_of_ends;
use crate::encode::message::{Fields, bytes, item, items, list_of, text};
use crate::shared::border::guarded;
use crate::shared::decline::{Decline, Stop, declined_unless};

/// See `reput.plugin.putinterest.concerns_any`.
#[pyfunction]
pub fn concerns_any<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    topics: &Bound<'py, PyAny>,
    properties: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "concerns_any", || {
        let (topics, properties) = (topics.cast_exact()?, properties.cast_exact()?);
        let (messages, mut others) = (list_of(messages)?, Others::default());
        for place in 0..messages.len() {
            let message = item(&messages, place)?;
            let fields = Fields::of(&message)?;
            declined_unless(fields.topic.is_exact_instance_of::<PyString>())?;
            if is_among(topics, fields.topic)?
                || is_one_among(properties, fields.properties, &mut others)?
            {
                return Ok(true);
            }
        }
        Ok::<_, Stop>(false)
    })
}

/// See `reput.plugin.putinterest.concerns_columns`; of topics and properties as most columns are.
#[pyfunction]
pub fn concerns_columns<'py>(
    py: Python<'py>,
    columns: &Bound<'py, PyAny>,
    topics: &Bound<'py, PyAny>,
    properties: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "concerns_columns", || {
        let properties: &Bound<'py, PyFrozenSet> = properties.cast_exact()?;
        // Python asks for topics, which few plugins name.
        declined_unless(topics.cast_exact::<PyFrozenSet>()?.is_empty())?;
        let (given, mut others) = (columns.getattr("properties")?, Others::default());
        if let Ok(rows) = given.cast_exact::<PyList>() {
            for place in 0..rows.len() {
                if is_one_among(properties, item(rows, place)?, &mut others)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        if let Ok(pair) = given.cast_exact::<PyTuple>() {
            declined_unless(pair.len() == 2)?;
            declined_unless(pair.get_item(0)?.cast_exact::<PyUntypedArray>().is_ok())?;
            let data = pair.get_item(1)?;
            return Ok(holds(bytes(data.as_borrowed())?, properties)?);
        }
        declined_unless(!given.is_exact_instance_of::<PyBytes>())?;
        Ok::<_, Stop>(is_one_among(properties, given.as_borrowed(), &mut others)?)
    })
}

/// Whether property texts hold one of these names before the end of one.
fn holds(texts: &[u8], names: &Bound<'_, PyFrozenSet>) -> Result<bool, Decline> {
    let names: Vec<_> = names.iter().collect();
    let names = names.iter().map(|name| text(name.as_borrowed()));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let ends_in = |part: &[u8], name: &&str| {
        // Most names differ in their last two bytes.
        let may = name.len() < 2 || name.as_bytes().last_chunk::<2>() == part.last_chunk();
        may && part.ends_with(name.as_bytes())
    };
    for (begin, part) in (0..).step_by(64).zip(texts.chunks(64)) {
        let mut block = [0; 64];
        block[..part.len()].copy_from_slice(part);
        let mut ends = places_of_ends(&block).0;
        while ends != 0 {
            let part = &texts[..begin + ends.trailing_zeros() as usize];
            if names.iter().any(|name| ends_in(part, name)) {
                return Ok(true);
            }
            ends &= ends - 1;
        }
    }
    Ok(false)
}

/// Whether a set of names holds this one, which is an exact `str`.
#[inline]
pub fn is_among(
    names: &Bound<'_, PyFrozenSet>,
    name: Borrowed<'_, '_, PyAny>,
) -> Result<bool, Decline> {
    Ok(!names.is_empty() && names.contains(name).map_err(|_| Decline::ToPython)?)
}

/// Names that are not among those of a set: most messages have the same few objects.
///
/// For messages that are all kept while no Python code runs: so no other object gets their places.
#[derive(Default)]
pub struct Others {
    names: [Option<*mut ffi::PyObject>; 4],
    next: usize,
}

/// Whether a set of names holds one of a message's properties.
#[inline]
pub fn is_one_among(
    names: &Bound<'_, PyFrozenSet>,
    given: Borrowed<'_, '_, PyAny>,
    others: &mut Others,
) -> Result<bool, Decline> {
    if given.is_none() || names.is_empty() {
        return Ok(false);
    }
    let given = given.cast_exact::<PyDict>();
    for [name, _] in items(given.map_err(|_| Decline::ToPython)?) {
        let place = Some(name.as_ptr());
        if !others.names.contains(&place) {
            declined_unless(name.is_exact_instance_of::<PyString>())?;
            if is_among(names, name)? {
                return Ok(true);
            }
            others.names[others.next % others.names.len()] = place;
            others.next += 1;
        }
    }
    Ok(false)
}
