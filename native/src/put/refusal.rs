//! Why there is no append.

use std::collections::TryReserveError;
use std::io;

use pyo3::exceptions::{PyAttributeError, PyMemoryError, PyOSError, PyOverflowError, PyValueError};
use pyo3::prelude::*;

/// Why there is no append, and no change.
#[derive(Debug)]
pub enum Refusal {
    /// Appends are refused.
    Refused,
    NoFile,
    NoRoom,
    NoMemory,
    /// The log would end after the last offset that there is.
    PastLastOffset,
    /// A queue has no queue offset for a message.
    QueueIsFull,
    /// The disk has no room, or fails: a page of the map that is written to then would end the
    /// process.
    Disk(io::Error),
}

impl From<TryReserveError> for Refusal {
    fn from(_: TryReserveError) -> Self {
        Self::NoMemory
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Refused => PyValueError::new_err("appends are refused"),
            Refusal::NoFile => PyAttributeError::new_err("there is no active file"),
            Refusal::NoRoom => PyValueError::new_err("records do not fit into the active file"),
            Refusal::NoMemory => PyMemoryError::new_err(()),
            Refusal::PastLastOffset => {
                PyOverflowError::new_err("the log would end after the last offset, 2**63 - 1")
            }
            Refusal::QueueIsFull => {
                PyOverflowError::new_err("a queue offset would be larger than 2**63 - 1")
            }
            Refusal::Disk(error) => PyOSError::new_err((error.raw_os_error(), error.to_string())),
        }
    }
}
