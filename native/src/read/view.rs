//! One stored message; see `reput.record.messageview`.
//!
//! The class has the members on the way of every message. The others it is given by
//! `reput.engine.compiled`, from the class in Python. What is wrong with a record, that class
//! says, too: it is asked for its error.

use std::ops::Range;

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::derive::text::java_text;
use crate::derive::window::{Parts, host_extra, is_record};
use crate::shared::border::{copied, kernel_error, shielded};
use crate::shared::bytes::{be_i32, be_i64};
use crate::shared::gil::GilCell;
use crate::shared::layout::{BORN_HOST_V6, HEADER_SIZE, STORE_HOST_V6};

static REFERENCE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static PARSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A whole record: `is_record` was asked, and a host of IPv6 does not lead out of the header. So
/// none of the fixed fields that are read below stands outside of it.
///
/// The memory of as many messages as a large read returns is kept, and not counted by the collector
/// when it is used again.
#[pyclass(
    module = "reput.record.messageview",
    name = "MessageView",
    frozen,
    freelist = 1100
)]
pub struct MessageView {
    /// Bytes among which the record stands; messages that were read together share them.
    shared: Py<PyBytes>,
    place: Range<usize>,
    physical_offset: i64,
    properties: GilCell<Option<Py<PyAny>>>,
}

impl MessageView {
    fn made(shared: Py<PyBytes>, place: Range<usize>, physical_offset: i64) -> Self {
        Self {
            shared,
            place,
            physical_offset,
            properties: GilCell::default(),
        }
    }

    /// A message that the collector does not visit, as bytes lead to no other object: visits take
    /// twice as long as everything else in a read of many messages. See `track`.
    pub fn untracked(
        py: Python<'_>,
        shared: Py<PyBytes>,
        place: Range<usize>,
        physical_offset: i64,
    ) -> PyResult<Bound<'_, Self>> {
        let made = Bound::new(py, Self::made(shared, place, physical_offset))?;
        // SAFETY: the object is whole, and the interpreter lock is held.
        unsafe { ffi::PyObject_GC_UnTrack(made.as_ptr().cast()) };
        Ok(made)
    }

    /// Have the collector visit the message from now on.
    fn track(message: &Bound<'_, Self>) {
        let object = message.as_ptr();
        // SAFETY: the object is whole, and the interpreter lock is held from one call to the other.
        unsafe {
            if ffi::PyObject_GC_IsTracked(object) == 0 {
                ffi::PyObject_GC_Track(object.cast());
            }
        }
    }

    fn bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        &self.shared.bind(py).as_bytes()[self.place.clone()]
    }

    /// A field of the header.
    fn field<T>(&self, py: Python<'_>, read: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
        shielded(py, "MessageView", || Ok(read(self.bytes(py))))
    }

    /// The record, and where its parts stand; the error of the class in Python where they stand
    /// nowhere.
    fn found<'a>(&'a self, py: Python<'a>) -> PyResult<(Parts, &'a [u8])> {
        let bytes = self.bytes(py);
        if let Some(found) = Parts::of(bytes) {
            return Ok((found, bytes));
        }
        let record = self.record(py)?;
        let answer = reference(py)?.call1((record, self.physical_offset))?;
        Err(unexpected(py, answer.call_method0("places")))
    }

    /// A part of the record, by its first byte and the one behind its last.
    fn part<'py>(
        &self,
        py: Python<'py>,
        place: impl FnOnce(Parts, usize) -> (usize, usize),
    ) -> PyResult<Bound<'py, PyBytes>> {
        shielded(py, "MessageView", || {
            let (found, bytes) = self.found(py)?;
            let (start, end) = place(found, bytes.len());
            copied(py, &bytes[start..end])
        })
    }
}

fn reference<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    let found = REFERENCE.get_or_try_init(py, || {
        let references = py.import("reput.engine")?.getattr("REFERENCES")?;
        Ok::<_, PyErr>(references.get_item(py.get_type::<MessageView>())?.unbind())
    })?;
    Ok(found.bind(py))
}

/// The error that Python raised; it is another one if the two classes do not agree.
fn unexpected(py: Python<'_>, answer: PyResult<Bound<'_, PyAny>>) -> PyErr {
    let agreed = |_| kernel_error(py, "MessageView", "Python takes this record");
    answer.map_or_else(|error| error, agreed)
}

/// Bytes by which both hosts of a record are longer than those of IPv4.
fn hosts_extra(record: &[u8]) -> usize {
    host_extra(record, BORN_HOST_V6) + host_extra(record, STORE_HOST_V6)
}

#[pymethods]
impl MessageView {
    #[new]
    #[pyo3(signature = (record, physical_offset = None))]
    fn new(
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        physical_offset: Option<i64>,
    ) -> PyResult<Self> {
        shielded(py, "MessageView", || {
            let record = match record.cast::<PyBytes>() {
                Ok(bytes) => bytes.clone(),
                Err(_) => py
                    .get_type::<PyBytes>()
                    .call1((record,))?
                    .cast_into::<PyBytes>()?,
            };
            let bytes = record.as_bytes();
            if !is_record(bytes) || HEADER_SIZE + hosts_extra(bytes) > bytes.len() {
                let answer = reference(py)?.call1((record, physical_offset));
                return Err(unexpected(py, answer));
            }
            let offset = physical_offset.unwrap_or(be_i64(bytes, 28));
            let place = 0..bytes.len();
            Ok(Self::made(record.unbind(), place, offset))
        })
    }

    /// Like the constructor; for the kernel's Python function, whose caller may hold this class.
    #[staticmethod]
    fn checked(
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        physical_offset: i64,
        places: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let _ = places; // they are found here, too
        Self::new(py, record, Some(physical_offset))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.shared)?;
        let properties = self.properties.visited(&visit);
        properties.map_or(Ok(()), |properties| visit.call(&*properties))
    }

    fn __clear__(&self, py: Python<'_>) {
        let properties = self.properties.borrow(py).take();
        drop(properties); // whose finalizers may ask this view
    }

    #[getter]
    fn record(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let bytes = self.bytes(py);
        if bytes.len() == self.shared.bind(py).as_bytes().len() {
            return Ok(self.shared.clone_ref(py));
        }
        copied(py, bytes).map(Bound::unbind)
    }

    #[getter]
    fn physical_offset(&self) -> i64 {
        self.physical_offset
    }

    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.field(py, <[u8]>::len)
    }

    #[getter]
    fn body_crc(&self, py: Python<'_>) -> PyResult<i32> {
        self.field(py, |record| be_i32(record, 8))
    }

    #[getter]
    fn queue_id(&self, py: Python<'_>) -> PyResult<i32> {
        self.field(py, |record| be_i32(record, 12))
    }

    #[getter]
    fn flag(&self, py: Python<'_>) -> PyResult<i32> {
        self.field(py, |record| be_i32(record, 16))
    }

    #[getter]
    fn queue_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.field(py, |record| be_i64(record, 20))
    }

    #[getter]
    fn stated_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.field(py, |record| be_i64(record, 28))
    }

    #[getter]
    fn sys_flag(&self, py: Python<'_>) -> PyResult<i32> {
        self.field(py, |record| be_i32(record, 36))
    }

    #[getter]
    fn born_timestamp(&self, py: Python<'_>) -> PyResult<i64> {
        self.field(py, |record| be_i64(record, 40))
    }

    #[getter]
    fn store_timestamp(&self, py: Python<'_>) -> PyResult<i64> {
        self.field(py, |record| {
            be_i64(record, 56 + host_extra(record, BORN_HOST_V6))
        })
    }

    #[getter]
    fn reconsume_times(&self, py: Python<'_>) -> PyResult<i32> {
        self.field(py, |record| be_i32(record, 72 + hosts_extra(record)))
    }

    #[getter]
    fn prepared_transaction_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.field(py, |record| be_i64(record, 76 + hosts_extra(record)))
    }

    fn places<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        shielded(py, "MessageView", || {
            let (found, _) = self.found(py)?;
            let topic_end = found.topic + found.topic_size;
            (found.body, found.topic, topic_end, found.properties).into_pyobject(py)
        })
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.part(py, |found, _| (found.body, found.body + found.body_size))
    }

    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        shielded(py, "MessageView", || {
            let (found, bytes) = self.found(py)?;
            let name = &bytes[found.topic..found.topic + found.topic_size];
            Ok(PyString::new(py, &java_text(name)))
        })
    }

    #[getter]
    fn topic_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.part(py, |found, _| (found.topic, found.topic + found.topic_size))
    }

    #[getter]
    fn properties_text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.part(py, |found, size| (found.properties, size))
    }

    #[getter]
    fn properties(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, message) = (slf.py(), slf.get());
        shielded(py, "MessageView", || {
            if let Some(found) = &*message.properties.borrow(py) {
                return Ok(found.clone_ref(py));
            }
            let parse = PARSE.import(py, "reput.record.text.properties", "parse_properties")?;
            let parsed = parse.call1((message.properties_text(py)?,))?.unbind();
            Self::track(slf); // the caller may put anything into the dictionary
            // Where another thread came first, this one answers with the same object.
            Ok(message
                .properties
                .borrow(py)
                .get_or_insert(parsed)
                .clone_ref(py))
        })
    }

    fn body_matches(&self, py: Python<'_>) -> PyResult<bool> {
        shielded(py, "MessageView", || {
            let (found, bytes) = self.found(py)?;
            Ok(found.body_matches(bytes))
        })
    }
}
