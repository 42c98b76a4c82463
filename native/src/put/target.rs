//! What records are written to: the bytes of a map, or, where those cannot be written to directly,
//! a map whose items are set.

use std::ptr::NonNull;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::put::region::{Region, SizeWord};
use crate::shared::border::copied;
use crate::shared::layout::{SIZE_AND_MAGIC_SIZE, SIZE_SIZE};

/// The bytes of the map of a `reput.files.mappedfile.MappedFile`.
///
/// `None` where items of the map have to be set: for a class derived from `mmap.mmap`, with which a
/// test watches over stores, and for a map that is read-only, which says so.
pub fn region_of(file: &Bound<'_, PyAny>) -> PyResult<Option<Region>> {
    let map = file.getattr("map")?;
    let plain = file.py().import("mmap")?.getattr("mmap")?;
    if !map.get_type().is(&plain) {
        return Ok(None);
    }
    let buffer: PyBuffer<u8> = PyBuffer::get(&map)?;
    let begin = NonNull::new(buffer.buf_ptr().cast());
    let Some(begin) = begin.filter(|_| !buffer.readonly()) else {
        return Ok(None);
    };
    let (size, descriptor) = (buffer.len_bytes(), file.getattr("descriptor")?.extract()?);
    // SAFETY: the buffer is writable, and it keeps the map from being closed. The file keeps its
    // descriptor open as long as it has the map.
    let region = unsafe { Region::new(begin, size, Some(descriptor), Box::new(buffer)) };
    Ok(Some(region))
}

/// Set items of a map as `reput.log.writer.appender.Appender` does, so that tests see each store.
pub fn call_stores(
    file: &Bound<'_, PyAny>,
    position: usize,
    word: SizeWord,
    rest: &[u8],
    is_alone: bool,
) -> PyResult<()> {
    const MAGIC_SIZE: usize = SIZE_AND_MAGIC_SIZE - SIZE_SIZE;
    let Some(magic) = rest.get(..MAGIC_SIZE) else {
        return Err(PyValueError::new_err(
            "a record begins with a size and a magic",
        ));
    };
    let map = file.getattr("map")?;
    if !is_alone {
        set(&map, position + SIZE_SIZE, magic)?;
    }
    set(&map, position + SIZE_SIZE, rest)?;
    set(&map, position, &word)
}

fn set(map: &Bound<'_, PyAny>, position: usize, bytes: &[u8]) -> PyResult<()> {
    let py = map.py();
    let (start, stop) = (position as isize, (position + bytes.len()) as isize);
    map.set_item(PySlice::new(py, start, stop, 1), copied(py, bytes)?)
}
