//! Bytes that stay as they are, and where they are, also while others have the interpreter lock.
//!
//! Only `bytes` objects are such: a buffer that is read-only for us may be written to by others.
//! So everything else is copied, and checked after that.

use std::ops::Range;

use numpy::PyUntypedArray;
use pyo3::buffer::PyBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

use crate::shared::decline::{Decline, Stop};

/// A part of a `bytes` object, which it keeps.
pub struct Body {
    begin: *const u8,
    size: usize,
    _owner: Py<PyBytes>,
}

// SAFETY: a `bytes` object never changes its bytes and never moves them, and the owner keeps it.
unsafe impl Send for Body {}
// SAFETY: likewise.
unsafe impl Sync for Body {}

impl Body {
    /// All bytes of an exact `bytes`.
    #[inline]
    pub fn whole(object: &Bound<'_, PyAny>) -> Result<Self, Decline> {
        let owner = object.cast_exact::<PyBytes>();
        let owner = owner.map_err(|_| Decline::ToPython)?;
        Ok(Self::of(owner, owner.as_bytes()))
    }

    /// A part of them; declined where it is not inside.
    #[inline]
    pub fn part(owner: &Bound<'_, PyBytes>, part: Range<usize>) -> Result<Self, Decline> {
        let part = owner.as_bytes().get(part).ok_or(Decline::ToPython)?;
        Ok(Self::of(owner, part))
    }

    #[inline]
    fn of(owner: &Bound<'_, PyBytes>, part: &[u8]) -> Self {
        Self {
            begin: part.as_ptr(),
            size: part.len(),
            _owner: owner.clone().unbind(),
        }
    }
}

impl AsRef<[u8]> for Body {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: see above; `of` took both from a slice of the owner.
        unsafe { std::slice::from_raw_parts(self.begin, self.size) }
    }
}

/// The bytes of a part of an object, and where the part begins in them.
///
/// Only of what Python would cut by bytes: `bytes`, and plain buffers of one dimension of bytes.
pub fn bytes_of_part<'py>(
    object: &Bound<'py, PyAny>,
    part: Range<usize>,
) -> Result<(Bound<'py, PyBytes>, usize), Stop> {
    if let Ok(whole) = object.cast_exact::<PyBytes>() {
        return Ok((whole.clone(), 0));
    }
    let is_buffer = object.is_exact_instance_of::<PyMemoryView>()
        || object.is_exact_instance_of::<PyByteArray>()
        || object.cast_exact::<PyUntypedArray>().is_ok();
    if !is_buffer {
        return Err(Decline::ToPython.into());
    }
    let buffer = PyBuffer::<u8>::get(object).map_err(|_| Decline::ToPython)?;
    let is_plain = buffer.dimensions() == 1 && buffer.is_c_contiguous();
    if !is_plain || part.start > part.end || part.end > buffer.len_bytes() {
        return Err(Decline::ToPython.into());
    }
    let size = ffi::Py_ssize_t::try_from(part.len()).map_err(|_| Decline::NoMemory)?;
    // SAFETY: the part is in the buffer, which is contiguous and held. It is copied at once, while
    // the interpreter lock is held; what others write without that lock may be copied or not.
    unsafe {
        let begin = buffer.buf_ptr().cast::<u8>().add(part.start);
        let copied = ffi::PyBytes_FromStringAndSize(begin.cast(), size);
        let copied = Bound::from_owned_ptr_or_err(object.py(), copied)?;
        Ok((copied.cast_into_unchecked(), part.start))
    }
}
