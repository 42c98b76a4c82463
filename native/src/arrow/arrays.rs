//! Arrow's arrays, copied and checked.
//!
//! Their buffers are read-only for us, and others may write to them all the same; an array that was
//! made by hand may state any offset.

use std::ops::Range;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::arrow::joining::{Ranges, Texts, Valid};
use crate::shared::decline::{Decline, Stop, declined_unless, room};

const ELEMENTS_MAX: usize = 1 << 40; // so that no place of one wraps around
const OFFSET_SIZE: usize = 4; // bytes; a `large_string` has others, and is not read here

/// The buffers of an array.
pub struct Array<'py> {
    object: Bound<'py, PyAny>,
    buffers: Vec<Option<PyBuffer<i8>>>,
    /// Of its first element, in the buffers.
    offset: usize,
    pub len: usize,
}

impl<'py> Array<'py> {
    /// Whether an object is an array of exactly this class of `pyarrow`.
    pub fn is(object: &Bound<'py, PyAny>, class: &str) -> PyResult<bool> {
        static PYARROW: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let py = object.py();
        let module = PYARROW.get_or_try_init(py, || py.import("pyarrow").map(Bound::unbind))?;
        Ok(object.get_type().is(module.bind(py).getattr(class)?))
    }

    pub fn of(object: &Bound<'py, PyAny>, class: &str) -> Result<Self, Stop> {
        declined_unless(Self::is(object, class)?)?;
        let mut buffers = vec![];
        for buffer in object.call_method0("buffers")?.try_iter()? {
            let buffer: Option<Bound<'py, PyAny>> = buffer?.extract()?;
            let buffer = buffer.map(|buffer| PyBuffer::get(&buffer)).transpose();
            // Python reads what is in the memory of another device, or says so.
            buffers.push(buffer.map_err(|_| Decline::ToPython)?);
        }
        let (offset, len) = (object.getattr("offset")?.extract()?, object.len()?);
        declined_unless(usize::max(offset, len) <= ELEMENTS_MAX)?;
        Ok(Self {
            object: object.clone(),
            buffers,
            offset,
            len,
        })
    }

    /// An array that this one is made of.
    pub fn part(&self, name: &str, class: &str) -> Result<Self, Stop> {
        Self::of(&self.object.getattr(name)?, class)
    }

    /// The rows of an array of lists or of maps, as ranges of the elements of its parts, which are
    /// those of `first` on.
    pub fn ranges(&self) -> Result<(usize, Ranges), Stop> {
        let all = 0..self.len;
        let (first, ends) = self.ends(&all)?;
        Ok((first, Ranges::new(ends, self.valid(&all)?)))
    }

    /// The texts of some rows of an array of texts.
    pub fn texts(&self, rows: Range<usize>) -> Result<Texts, Stop> {
        declined_unless(rows.end <= self.len)?;
        let (first, ends) = self.ends(&rows)?;
        let size = ends.last().copied().unwrap_or(0);
        let data = match size {
            0 => vec![], // there may be no data at all
            _ => self.bytes(2, first..first + size)?,
        };
        Ok(Texts::new(Ranges::new(ends, self.valid(&rows)?), data))
    }

    /// Where the first of some rows begins, and where it and each of them ends, counted from there.
    fn ends(&self, rows: &Range<usize>) -> Result<(usize, Vec<usize>), Decline> {
        if rows.is_empty() {
            return Ok((0, vec![0])); // there may be no offsets at all
        }
        let begin = (self.offset + rows.start) * OFFSET_SIZE;
        let end = (self.offset + rows.end + 1) * OFFSET_SIZE;
        let offsets = self.bytes(1, begin..end)?;
        let mut ends = room(offsets.len() / OFFSET_SIZE)?;
        for offset in offsets.as_chunks().0 {
            let end = usize::try_from(i32::from_ne_bytes(*offset));
            ends.push(end.map_err(|_| Decline::ToPython)?);
        }
        declined_unless(ends.is_sorted())?;
        let first = ends[0];
        ends.iter_mut().for_each(|end| *end -= first);
        Ok((first, ends))
    }

    fn valid(&self, rows: &Range<usize>) -> Result<Valid, Decline> {
        if !matches!(self.buffers.first(), Some(Some(_))) {
            return Ok(Valid::All);
        }
        let (begin, end) = (self.offset + rows.start, self.offset + rows.end);
        let bits = self.bytes(0, begin / 8..end.div_ceil(8))?;
        let first = begin % 8;
        Ok(Valid::Bits { bits, first })
    }

    /// A copy of a part of a buffer; declined where that part is not there.
    fn bytes(&self, buffer: usize, part: Range<usize>) -> Result<Vec<u8>, Decline> {
        let buffer = self.buffers.get(buffer).and_then(Option::as_ref);
        let buffer = buffer.ok_or(Decline::ToPython)?;
        let is_plain = buffer.dimensions() == 1 && buffer.is_c_contiguous();
        declined_unless(is_plain && part.start <= part.end && part.end <= buffer.len_bytes())?;
        let mut copy = room(part.len())?;
        // SAFETY: the part is in the buffer, which is contiguous and held, and there is room for as
        // many bytes. They are copied at once, while the interpreter lock is held; what others
        // write without that lock may be copied or not.
        unsafe {
            let from = buffer.buf_ptr().cast::<u8>().add(part.start);
            std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), part.len());
            copy.set_len(part.len());
        }
        Ok(copy)
    }
}
