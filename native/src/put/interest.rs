//! Whether plugins must see a message before it is stored; see `reput.plugin.putinterest`.

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyString};

use crate::encode::message::{Fields, list_of, text};
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
        for message in list_of(messages)?.iter() {
            let fields = Fields::of(&message)?;
            text(fields.topic)?;
            if is_among(topics, fields.topic)? || is_one_among(properties, fields.properties)? {
                return Ok(true);
            }
        }
        Ok::<_, Stop>(false)
    })
}

/// Whether a set of names holds this one, which is an exact `str`.
#[inline]
pub fn is_among(
    names: &Bound<'_, PyFrozenSet>,
    name: Borrowed<'_, '_, PyAny>,
) -> Result<bool, Decline> {
    Ok(!names.is_empty() && names.contains(name).map_err(|_| Decline::ToPython)?)
}

/// Whether a set of names holds one of a message's properties.
#[inline]
pub fn is_one_among(
    names: &Bound<'_, PyFrozenSet>,
    given: Borrowed<'_, '_, PyAny>,
) -> Result<bool, Decline> {
    if names.is_empty() || given.is_none() {
        return Ok(false);
    }
    let given = given.cast_exact::<PyDict>();
    for (name, _) in given.map_err(|_| Decline::ToPython)?.iter() {
        declined_unless(name.is_exact_instance_of::<PyString>())?;
        if is_among(names, name.as_borrowed())? {
            return Ok(true);
        }
    }
    Ok(false)
}
