//! Arrays as slices: taken only where each element is where a slice has it.

use numpy::ndarray::{Array2, Ix2, ShapeBuilder, StrideShape};
use numpy::npyffi::flags::NPY_ARRAY_WRITEABLE;
use numpy::{
    Element, PyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::prelude::*;

use crate::shared::decline::{Decline, declined_unless};

/// An array that is one-dimensional, of this type, contiguous and aligned.
pub struct Column<'py, T: Element> {
    array: Bound<'py, PyArray1<T>>,
    /// Notes that the array is read, which takes longer than many a kernel. An array that nobody may
    /// write needs no note.
    _note: Option<PyReadonlyArray1<'py, T>>,
}

impl<'py, T: Element> Column<'py, T> {
    /// The array behind `object`; another kind is declined.
    pub fn of(object: &Bound<'py, PyAny>) -> Result<Self, Decline> {
        let array = object.cast::<PyArray1<T>>();
        let array = array.map_err(|_| Decline::ToPython)?.clone();
        // SAFETY: the object is an array, and the interpreter lock is held.
        let flags = unsafe { (*array.as_array_ptr()).fields.flags };
        let note = (flags & NPY_ARRAY_WRITEABLE != 0).then(|| array.try_readonly());
        let note = note.transpose().map_err(|_| Decline::ToPython)?;
        let found = Self { array, _note: note };
        found.slice().ok_or(Decline::ToPython).map(drop)?;
        Ok(found)
    }

    /// Its elements.
    pub fn items(&self) -> &[T] {
        // `of` has asked already, and nobody can move an array that is held.
        self.slice().unwrap_or_default()
    }

    fn slice(&self) -> Option<&[T]> {
        // SAFETY: nobody writes to the arrays of a kernel while it runs, and no kernel that writes
        // to one gets it: it is noted, or may not be written.
        unsafe { self.array.as_slice() }.ok()
    }
}

/// Have each of these names mean the slice of the array that it means; see `Column`.
macro_rules! slices {
    ($($name:ident),+ $(,)?) => {
        $(let $name = $crate::shared::arrays::Column::of($name)?;)+
        $(let $name = $name.items();)+
    };
}
pub(crate) use slices;

/// Whether there is one length only.
pub fn are_equal<const COUNT: usize>(lengths: [usize; COUNT]) -> bool {
    lengths.iter().all(|length| *length == lengths[0])
}

/// Where texts stand in a window, row by row. A size of 0 or less is no text.
#[derive(Clone, Copy)]
pub struct Stretches<'a> {
    window: &'a [u8],
    starts: &'a [i64],
    sizes: &'a [i64],
}

impl<'a> Stretches<'a> {
    /// Declined where a row leaves the window, or the columns are not of one length.
    pub fn of(window: &'a [u8], starts: &'a [i64], sizes: &'a [i64]) -> Result<Self, Decline> {
        let room = window.len() as u64;
        let is_inside = |(&start, &size): (&i64, &i64)| {
            // A negative start is a huge one here; the sum of two cannot wrap around then.
            size <= 0 || (start as u64) <= room && size as u64 <= room - start as u64
        };
        let is_sound = starts.len() == sizes.len() && starts.iter().zip(sizes).all(is_inside);
        declined_unless(is_sound)?;
        Ok(Self {
            window,
            starts,
            sizes,
        })
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes of a row; none where it has no text.
    #[inline]
    pub fn row(&self, row: usize) -> &'a [u8] {
        let (start, end) = self.place(row);
        &self.window[start..end]
    }

    /// Where a row begins and ends in the window; both 0 where it has no text.
    #[inline]
    pub fn place(&self, row: usize) -> (usize, usize) {
        let (start, size) = (self.starts[row], self.sizes[row]);
        if size <= 0 {
            return (0, 0);
        }
        (start as usize, start as usize + size as usize)
    }
}

/// Load what the crate `numpy` looks up when it is first used: it panics where that fails.
///
/// A signal handler may raise in any Python code, and this is some. It runs on the main thread only,
/// so another thread loads it.
pub fn load_numpy(py: Python<'_>) -> PyResult<()> {
    let load = || {
        Python::attach(|py| {
            PyArray1::<u8>::zeros(py, 1, false).readwrite();
            PyArray1::<i32>::zeros(py, 1, false).readonly();
            PyArray1::<i64>::zeros(py, 1, false).readonly();
            PyArray1::<isize>::zeros(py, 1, false).readonly();
        });
    };
    py.detach(|| std::thread::spawn(load).join())
        .map_err(|_| PyImportError::new_err("the C functions of numpy cannot be loaded"))
}

/// An array that takes over the memory of `values`.
pub fn array<'py, T: Element>(py: Python<'py>, values: Vec<T>) -> Bound<'py, PyArray1<T>> {
    PyArray1::from_vec(py, values)
}

/// A matrix that takes over the memory of `values`.
pub fn matrix<T: Element>(
    py: Python<'_>,
    values: Vec<T>,
    shape: impl Into<StrideShape<Ix2>>,
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let made = Array2::from_shape_vec(shape, values).map_err(other_error)?;
    Ok(PyArray2::from_owned_array(py, made))
}

fn other_error(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The array, which nobody may write from now on.
pub fn frozen<T, D>(array: Bound<'_, PyArray<T, D>>) -> Bound<'_, PyArray<T, D>> {
    // SAFETY: the object is an array, the interpreter lock is held, and nobody else knows it yet.
    unsafe { (*array.as_array_ptr()).fields.flags &= !NPY_ARRAY_WRITEABLE };
    array
}

/// `COUNT` columns of one length in one piece of memory, one behind the other.
pub struct Columns<const COUNT: usize> {
    values: Vec<i64>,
    /// Numbers from one column to the next one.
    stride: usize,
    length: usize,
}

impl<const COUNT: usize> Columns<COUNT> {
    pub fn with_capacity(room: usize) -> Self {
        // Columns a power of two apart would share few lines of the processor's cache.
        const APART: usize = 8;
        let stride = room + APART;
        Self {
            values: vec![0; COUNT * stride],
            stride,
            length: 0,
        }
    }

    /// Add one number to each column.
    #[inline]
    pub fn push(&mut self, numbers: [i64; COUNT]) {
        if self.length == self.stride {
            self.grow();
        }
        for (column, number) in numbers.into_iter().enumerate() {
            self.values[column * self.stride + self.length] = number;
        }
        self.length += 1;
    }

    fn grow(&mut self) {
        let mut grown = Self::with_capacity(2 * self.stride);
        let columns = self.values.chunks_exact(self.stride);
        for (column, target) in columns.zip(grown.values.chunks_exact_mut(grown.stride)) {
            target[..self.length].copy_from_slice(&column[..self.length]);
        }
        grown.length = self.length;
        *self = grown;
    }

    /// The matrix, of which each row is one column; nobody may write it.
    pub fn matrix(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let shape = [COUNT, self.length].strides([self.stride, 1]);
        Ok(frozen(matrix(py, self.values, shape)?).into_any())
    }
}
