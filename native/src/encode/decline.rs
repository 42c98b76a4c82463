//! Why a kernel gives no answer of its own.

use std::collections::TryReserveError;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::shared::border::Answer;

/// What the plain parts of a kernel end with, where they cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decline {
    /// The arguments are wrong, or not those that the kernel is made for: Python's function is
    /// called, which knows what to do or to raise.
    ToPython,
    /// A `MemoryError`.
    NoMemory,
}

impl From<TryReserveError> for Decline {
    fn from(_: TryReserveError) -> Self {
        Self::NoMemory
    }
}

/// What a kernel ends with, where it has no answer.
pub enum Stop {
    Decline(Decline),
    Raise(PyErr),
}

impl From<Decline> for Stop {
    fn from(decline: Decline) -> Self {
        Self::Decline(decline)
    }
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Self {
        Self::Raise(error)
    }
}

impl From<TryReserveError> for Stop {
    fn from(error: TryReserveError) -> Self {
        Self::Decline(error.into())
    }
}

/// What `guarded` takes: the answer, that Python has to give it, or the error.
pub fn answered(found: Result<Bound<'_, PyAny>, Stop>) -> Answer<'_> {
    match found {
        Ok(answer) => Ok(Some(answer)),
        Err(Stop::Decline(Decline::ToPython)) => Ok(None),
        Err(Stop::Decline(Decline::NoMemory)) => Err(PyMemoryError::new_err(())),
        Err(Stop::Raise(error)) => Err(error),
    }
}
