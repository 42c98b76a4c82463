//! The border to Python: what a kernel may answer, and what becomes of a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyException, PyMemoryError, PyRuntimeError};
use pyo3::ffi;
use pyo3::marker::Ungil;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::shared::decline::{Decline, Stop};

/// Call a kernel. What it declines becomes `NotImplemented`, a panic `reput.errors.KernelError`.
pub fn guarded<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    kernel: &'static str,
    work: impl FnOnce() -> Result<T, Stop>,
) -> PyResult<Bound<'py, PyAny>> {
    shielded(py, kernel, || match work() {
        Ok(answer) => answer.into_bound_py_any(py),
        Err(Stop::Decline(Decline::ToPython)) => Ok(py.NotImplemented().into_bound(py)),
        Err(Stop::Decline(Decline::NoMemory)) => Err(PyMemoryError::new_err(())),
        Err(Stop::Raise(error)) => Err(error),
    })
}

/// The same for a method, whose answer has a type: a panic becomes a `KernelError`.
#[inline]
pub fn shielded<T>(
    py: Python<'_>,
    kernel: &'static str,
    work: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(kernel_error(py, kernel, said(payload.as_ref()))))
}

/// Work without the interpreter lock, where it is so long that others should go on meanwhile.
///
/// To give up the lock and take it again costs a tenth of a microsecond when nobody waits for it,
/// and milliseconds when somebody does: a batch of a few messages keeps it.
pub fn unlocked<T: Ungil>(py: Python<'_>, size: usize, work: impl FnOnce() -> T + Ungil) -> T {
    const LONG: usize = 16 << 10; // bytes of arrays, or so: some microseconds
    if size < LONG { work() } else { py.detach(work) }
}

fn said(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    literal.or(text).unwrap_or("a panic without a text")
}

/// The bytes as an object of Python; `PyBytes::new` panics where no memory is left, and a panic
/// takes memory itself.
#[inline]
pub fn copied<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let (start, size) = (bytes.as_ptr().cast(), bytes.len() as isize);
    // SAFETY: it copies these bytes, and returns a new object of that type or an error; the
    // interpreter lock is held.
    unsafe {
        let made = ffi::PyBytes_FromStringAndSize(start, size);
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked())
    }
}

/// A `reput.errors.KernelError`.
pub fn kernel_error(py: Python<'_>, kernel: &str, reason: &str) -> PyErr {
    let made = py
        .import("reput.errors")
        .and_then(|errors| errors.getattr("KernelError"))
        .and_then(|class| class.call1((kernel, reason)));
    match made {
        Ok(error) => PyErr::from_value(error),
        // A signal handler raised in between, which nobody may miss.
        Err(error) if !error.is_instance_of::<PyException>(py) => error,
        Err(_) => PyRuntimeError::new_err(format!("kernel {kernel}: {reason}")),
    }
}

/// Panic, and show what comes out at the border; for tests.
#[pyfunction]
pub fn provoke_panic<'py>(py: Python<'py>, reason: String) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "provoke_panic", || {
        unlocked(py, usize::MAX, || -> () { resume_unwind(Box::new(reason)) });
        Ok(())
    })
}
