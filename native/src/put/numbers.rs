//! Queues and their numbers between Python and `queues`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString, PyTuple};

use crate::encode::message::{integer, text};
use crate::put::queues::{Large, Whole};

/// Topic and queue id of a key. Names of directories may hold what is no UTF-8.
pub fn key_of(key: &Bound<'_, PyTuple>) -> PyResult<(Vec<u8>, Whole<i64>)> {
    let (name, queue_id) = (key.get_item(0)?, key.get_item(1)?);
    let queue_id = match integer(queue_id.as_borrowed()) {
        Ok(found) => Whole::Small(found),
        Err(_) => whole(&queue_id)?,
    };
    if let Ok(name) = text(name.as_borrowed()) {
        return Ok((name.as_bytes().to_vec(), queue_id));
    }
    let encoded = name.call_method1("encode", ("utf-8", "surrogatepass"))?;
    Ok((encoded.extract()?, queue_id))
}

/// The text that `key_of` took.
pub fn name_of<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(name) {
        Ok(name) => Ok(PyString::new(py, name).into_any()),
        Err(_) => PyBytes::new(py, name).call_method1("decode", ("utf-8", "surrogatepass")),
    }
}

/// A number of any size.
pub fn whole<'py, T>(value: &Bound<'py, PyAny>) -> PyResult<Whole<T>>
where
    for<'a> T: FromPyObject<'a, 'py>,
{
    match value.extract() {
        Ok(small) => Ok(Whole::Small(small)),
        Err(_) => Ok(Whole::Large(large(value)?)),
    }
}

fn large(value: &Bound<'_, PyAny>) -> PyResult<Large> {
    let number = value.call_method0("__index__")?;
    let bits: usize = number.call_method0("bit_length")?.extract()?;
    let bytes = number.call_method(
        "to_bytes",
        (bits / 8 + 1, "little"),
        Some(&signed(&number)?),
    )?;
    Ok(bytes.cast::<PyBytes>()?.as_bytes().into())
}

/// The `int` of a number.
pub fn int_of<'py, T>(py: Python<'py>, number: &Whole<T>) -> PyResult<Bound<'py, PyAny>>
where
    T: Copy + IntoPyObject<'py>,
    PyErr: From<T::Error>,
    T::Output: Into<Bound<'py, PyInt>>,
{
    match number {
        Whole::Small(small) => Ok((*small).into_pyobject(py)?.into().into_any()),
        Whole::Large(bytes) => {
            let bytes = PyBytes::new(py, bytes);
            let signed = signed(&bytes)?;
            let int = py.get_type::<PyInt>();
            int.call_method("from_bytes", (bytes, "little"), Some(&signed))
        }
    }
}

fn signed<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let arguments = PyDict::new(object.py());
    arguments.set_item("signed", true)?;
    Ok(arguments)
}
