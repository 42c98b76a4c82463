//! Why a kernel gives no answer of its own.

use std::collections::TryReserveError;
use std::convert::Infallible;

use pyo3::Borrowed;
use pyo3::prelude::*;

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

/// Go on if that is so; it is Python's otherwise.
#[inline]
pub fn declined_unless(is_so: bool) -> Result<(), Decline> {
    is_so.then_some(()).ok_or(Decline::ToPython)
}

/// An argument of a kernel: one of another type is declined when it is asked for.
pub struct Arg<T>(Option<T>);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Arg<T> {
    type Error = Infallible;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Self(object.extract().ok()))
    }
}

impl<T> Arg<T> {
    pub const fn of(value: T) -> Self {
        Self(Some(value))
    }

    /// The argument before it is asked for; `None` where it will be declined.
    pub const fn peek(&self) -> Option<&T> {
        self.0.as_ref()
    }

    pub fn get(self) -> Result<T, Decline> {
        self.0.ok_or(Decline::ToPython)
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

/// Anything that is an error of Python's.
impl<E> From<E> for Stop
where
    PyErr: From<E>,
{
    fn from(error: E) -> Self {
        Self::Raise(error.into())
    }
}

/// An empty vector with room for so many elements.
pub fn room<T>(count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut made = vec![];
    made.try_reserve_exact(count)?;
    Ok(made)
}
