//! The active file's map: a pointer, or, where a test watches over stores, an object that is called.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{Ordering, fence};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

use crate::encode::record::{Place, Record};

const SIZE_SIZE: usize = 4;
const HEAD_SIZE: usize = 8; // size and magic

/// What records are written to.
pub enum Target {
    /// A `mmap.mmap`, whose bytes are written to directly. The buffer keeps it from being closed.
    Mapped { mapped: Mapped, _kept: PyBuffer<u8> },
    /// An object of a class derived from it: stores are items that are set, which it sees.
    Called(Py<PyAny>),
}

/// The bytes of a map, and the file behind it.
#[derive(Clone, Copy)]
pub struct Mapped {
    begin: *mut u8,
    size: usize,
    descriptor: i32,
}

// SAFETY: whoever hands a `Mapped` to another thread, or gives up the interpreter lock with it,
// holds the log's lock, under which alone the map is written to and let go of.
unsafe impl Send for Mapped {}
// SAFETY: likewise.
unsafe impl Sync for Mapped {}

impl Target {
    /// Write through the map of a `reput.files.mapping.mapped.MappedFile`.
    pub fn of(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = file.py();
        let map = file.getattr("map")?;
        let plain = py.import("mmap")?.getattr("mmap")?;
        if !map.get_type().is(&plain) {
            return Ok(Self::Called(map.unbind()));
        }
        let buffer: PyBuffer<u8> = PyBuffer::get(&map)?;
        let mapped = Mapped {
            begin: buffer.buf_ptr().cast(),
            size: buffer.len_bytes(),
            descriptor: file.getattr("descriptor")?.extract()?,
        };
        Ok(Self::Mapped {
            mapped,
            _kept: buffer,
        })
    }
}

impl Mapped {
    /// Whether `size` bytes from `position` on are in the map.
    #[inline]
    fn has(&self, position: usize, size: usize) -> bool {
        size <= self.size && position <= self.size - size
    }

    /// Copy `bytes` to `position`. The caller has asked whether the map has room for them.
    #[inline]
    fn copy(&self, position: usize, bytes: &[u8]) {
        debug_assert!(self.has(position, bytes.len()));
        // SAFETY: the place is in the map, and nobody else in this process writes to it.
        unsafe {
            let to = self.begin.add(position);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Write a word after everything that was written before, in one piece for readers.
    #[inline]
    fn copy_last(&self, position: usize, word: &[u8; SIZE_SIZE]) {
        fence(Ordering::Release);
        self.copy(position, word);
    }

    /// Write one record, its size last. False if it does not fit, which the log's limits rule out.
    #[inline]
    pub fn write_record(&self, position: usize, record: &Record<'_>, place: &Place) -> bool {
        if !self.has(position, record.size()) {
            return false;
        }
        let (header, size) = (record.header(place), record.properties_size());
        let mut at = position + SIZE_SIZE;
        for part in [
            &header[SIZE_SIZE..],
            record.body,
            &record.topic.part,
            &size,
            record.properties,
        ] {
            self.copy(at, part);
            at += part.len();
        }
        let [first, second, third, fourth, ..] = header;
        self.copy_last(position, &[first, second, third, fourth]);
        true
    }

    /// Write records, the first one's size last; false if they do not fit.
    ///
    /// The first magic is written first, see `Appender.publish`. Many bytes go through the file, as
    /// that takes half the time of touching pages for the first time.
    pub fn write_records(&self, position: usize, records: &[u8]) -> bool {
        const MANY: usize = 16 << 10;
        let Some((head, rest)) = records.split_first_chunk::<HEAD_SIZE>() else {
            return records.is_empty();
        };
        if !self.has(position, records.len()) {
            return false;
        }
        let [word @ .., _, _, _, _] = head;
        self.copy(position + SIZE_SIZE, &head[SIZE_SIZE..]);
        if rest.len() < MANY || !self.write_through(position + HEAD_SIZE, rest) {
            self.copy(position + HEAD_SIZE, rest);
        }
        self.copy_last(position, word);
        true
    }

    /// Write to the file, whose cache the map shows; false after an error, when a copy is to follow.
    fn write_through(&self, position: usize, bytes: &[u8]) -> bool {
        // SAFETY: the descriptor is that of the mapped file, open as long as it is mapped; it is
        // not closed here.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(self.descriptor) });
        file.write_all_at(bytes, position as u64).is_ok()
    }

    /// Write the blank that ends a file, its size last; nothing where there is no room for it.
    pub fn write_blank(&self, position: usize, head: &[u8; HEAD_SIZE]) {
        if self.has(position, HEAD_SIZE) {
            let [word @ .., _, _, _, _] = head;
            self.copy(position + SIZE_SIZE, &head[SIZE_SIZE..]);
            self.copy_last(position, word);
        }
    }
}

/// Set items of a map as `reput.log.writing.appender.Appender` does, so that tests see each store.
pub fn call_stores(
    map: &Bound<'_, PyAny>,
    position: usize,
    word: &[u8],
    rest: &[u8],
    is_alone: bool,
) -> PyResult<()> {
    if word.len() != SIZE_SIZE || rest.len() < HEAD_SIZE - SIZE_SIZE {
        return Err(PyValueError::new_err(
            "a record begins with a size and a magic",
        ));
    }
    if !is_alone {
        set(map, position + SIZE_SIZE, &rest[..HEAD_SIZE - SIZE_SIZE])?;
    }
    set(map, position + SIZE_SIZE, rest)?;
    set(map, position, word)
}

fn set(map: &Bound<'_, PyAny>, position: usize, bytes: &[u8]) -> PyResult<()> {
    let py = map.py();
    let (start, stop) = (position as isize, (position + bytes.len()) as isize);
    map.set_item(PySlice::new(py, start, stop, 1), PyBytes::new(py, bytes))
}
