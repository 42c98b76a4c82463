//! The end of a log that several Python objects use.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::put::end::LogEnd;

/// A log's end whose files, and whom to wake, are Python objects.
///
/// The lock is never held while Python code may run, nor while Python allocates or frees, which may
/// run destructors: these put messages, too. What is taken out is dropped after it is released.
pub struct SharedEnd(Mutex<LogEnd<Py<PyAny>>>);

impl SharedEnd {
    pub fn new(end: LogEnd<Py<PyAny>>) -> Self {
        Self(Mutex::new(end))
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, LogEnd<Py<PyAny>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Call `wake`, which was taken out. It stays if it fails, as the reader may still be asleep.
    #[cold]
    pub fn call(&self, py: Python<'_>, wake: Py<PyAny>) -> PyResult<()> {
        let Err(error) = wake.bind(py).call0() else {
            return Ok(());
        };
        let other = self.lock().wake.replace(wake);
        drop(other);
        Err(error)
    }

    /// For the collector, beside which nobody has the lock.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(end) = self.0.try_lock() else {
            return Ok(());
        };
        visit.call(&end.wake)?;
        end.active()
            .map_or(Ok(()), |active| visit.call(&active.file))
    }
}
