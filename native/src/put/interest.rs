//! Whether plugins must see a message before it is stored; see `reput.plugin.interest`.

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PyString, PyTuple};

use crate::encode::decline::Decline;
use crate::encode::message::{Fields, text};
use crate::shared::border::guarded;

/// See `reput.plugin.interest.concerns_any`.
#[pyfunction]
pub fn concerns_any<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    topics: &Bound<'py, PyAny>,
    properties: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "concerns_any", || {
        let messages = match messages.cast_exact::<PyList>() {
            Ok(messages) => messages.clone(),
            Err(_) => match messages.cast_exact::<PyTuple>() {
                Ok(messages) => messages.to_list(),
                Err(_) => return Ok(None),
            },
        };
        let (topics, properties) = (topics.cast_exact()?, properties.cast_exact()?);
        for message in messages.iter() {
            match concerns(&message, topics, properties) {
                Err(_) => return Ok(None),
                Ok(true) => return Ok(Some(true.into_pyobject(py)?.to_owned().into_any())),
                Ok(false) => {}
            }
        }
        Ok(Some(false.into_pyobject(py)?.to_owned().into_any()))
    })
}

fn concerns(
    message: &Bound<'_, PyAny>,
    topics: &Bound<'_, PyFrozenSet>,
    properties: &Bound<'_, PyFrozenSet>,
) -> Result<bool, Decline> {
    let fields = Fields::of(message)?;
    let topic = fields.topic();
    text(topic)?;
    Ok(is_among(topics, topic)? || is_one_among(properties, fields.properties())?)
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
        if !name.is_exact_instance_of::<PyString>() {
            return Err(Decline::ToPython);
        }
        if is_among(names, name.as_borrowed())? {
            return Ok(true);
        }
    }
    Ok(false)
}
