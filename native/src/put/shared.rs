//! The end of a log that several Python objects use.

use pyo3::prelude::*;

use crate::put::end::LogEnd;
use crate::shared::gil::GilCell;

/// A log's end whose files, and whom to wake, are Python objects.
pub type SharedEnd = GilCell<LogEnd<Py<PyAny>>>;

/// Call `wake`, which was taken out. It stays if it fails, as the reader may still be asleep.
#[cold]
pub fn call_wake(end: &SharedEnd, py: Python<'_>, wake: Py<PyAny>) -> PyResult<()> {
    let Err(error) = wake.bind(py).call0() else {
        return Ok(());
    };
    let other = end.borrow(py).wake.replace(wake);
    drop(other);
    Err(error)
}
