//! One stored message; see `reput.record.view`.
//!
//! The class has the members on the way of every message. The others it is given by
//! `reput.engine.compiled`, from the class in Python. What is wrong with a record, that class
//! says, too: it is asked for its error.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyString, PyTuple};

use crate::derive::text::java_text;
use crate::derive::window::{
    BORN_HOST_V6, HEADER_SIZE, HOST_EXTRA_V6, Parts, STORE_HOST_V6, is_record,
};
use crate::shared::border::{guarded, shielded};
use crate::shared::bytes::{be_i32, be_i64};

static REFERENCE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static PARSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A whole record: `is_record` was asked, and a host of IPv6 does not lead out of the header. So
/// none of the fixed fields that are read below stands outside of it.
#[pyclass(module = "reput.record.view", name = "MessageView", frozen)]
pub struct MessageView {
    record: Py<PyBytes>,
    physical_offset: i64,
    /// `None` where lengths inside of the record lead out of it.
    places: Option<Places>,
    /// Nobody calls Python while it is locked.
    properties: Mutex<Option<Py<PyAny>>>,
}

/// Records have fewer than 2**31 bytes.
#[derive(Clone, Copy)]
struct Places {
    body: u32,
    body_end: u32,
    topic: u32,
    topic_end: u32,
    properties: u32,
}

impl Places {
    fn of(parts: &Parts) -> Self {
        Self {
            body: parts.body as u32,
            body_end: (parts.body + parts.body_size) as u32,
            topic: parts.topic as u32,
            topic_end: (parts.topic + parts.topic_size) as u32,
            properties: parts.properties as u32,
        }
    }
}

impl MessageView {
    /// A view of a record that was found right.
    pub fn made(record: Bound<'_, PyBytes>, physical_offset: i64, parts: &Parts) -> Self {
        Self {
            record: record.unbind(),
            physical_offset,
            places: Some(Places::of(parts)),
            properties: Mutex::default(),
        }
    }

    fn bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.record.bind(py).as_bytes()
    }

    /// A field of the header.
    fn field<T>(&self, py: Python<'_>, read: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
        shielded(py, "MessageView", || Ok(read(self.bytes(py))))
    }

    fn kept(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.properties
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the parts stand; the error of the class in Python where they stand nowhere.
    fn found(&self, py: Python<'_>) -> PyResult<Places> {
        match self.places {
            Some(places) => Ok(places),
            None => {
                let record = self.record.clone_ref(py);
                let answer = reference(py)?.call1((record, self.physical_offset))?;
                Err(unexpected(answer.call_method0("places")))
            }
        }
    }

    /// A part of the record, by its first byte and the one behind its last.
    fn part<'py>(
        &self,
        py: Python<'py>,
        place: impl FnOnce(Places, usize) -> (u32, usize),
    ) -> PyResult<Bound<'py, PyBytes>> {
        shielded(py, "MessageView", || {
            let (found, bytes) = (self.found(py)?, self.bytes(py));
            let (start, end) = place(found, bytes.len());
            Ok(PyBytes::new(py, &bytes[start as usize..end]))
        })
    }
}

fn longer(bits: i32) -> usize {
    let count = (bits & (BORN_HOST_V6 | STORE_HOST_V6)).count_ones();
    count as usize * HOST_EXTRA_V6
}

fn reference<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    let found = REFERENCE.get_or_try_init(py, || {
        let references = py.import("reput.engine")?.getattr("REFERENCES")?;
        Ok::<_, PyErr>(references.get_item(py.get_type::<MessageView>())?.unbind())
    })?;
    Ok(found.bind(py))
}

/// The error that Python raised; it is another one if the two classes do not agree.
fn unexpected(answer: PyResult<Bound<'_, PyAny>>) -> PyErr {
    match answer {
        Err(error) => error,
        Ok(_) => {
            crate::shared::border::kernel_error_here("MessageView", "Python takes this record")
        }
    }
}

/// Bytes by which the hosts that a record's flag tells of are longer than those of IPv4.
fn extra(record: &[u8], bits: i32) -> usize {
    longer(be_i32(record, 36) & bits)
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
            if !is_record(bytes) || HEADER_SIZE + extra(bytes, -1) > bytes.len() {
                let answer = reference(py)?.call1((record, physical_offset));
                return Err(unexpected(answer));
            }
            let stated = be_i64(bytes, 28);
            let places = Parts::of(bytes).as_ref().map(Places::of);
            Ok(Self {
                record: record.unbind(),
                physical_offset: physical_offset.unwrap_or(stated),
                places,
                properties: Mutex::default(),
            })
        })
    }

    /// Like the constructor; for the kernel's Python function, whose caller may hold this class.
    #[staticmethod]
    fn checked(
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        physical_offset: i64,
        _places: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        Self::new(py, record, Some(physical_offset))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.record)?;
        visit.call(&*self.kept())
    }

    fn __clear__(&self) {
        let properties = self.kept().take();
        drop(properties); // whose finalizers may ask this view
    }

    #[getter]
    fn record(&self, py: Python<'_>) -> Py<PyBytes> {
        self.record.clone_ref(py)
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
            be_i64(record, 56 + extra(record, BORN_HOST_V6))
        })
    }

    #[getter]
    fn reconsume_times(&self, py: Python<'_>) -> PyResult<i32> {
        self.field(py, |record| be_i32(record, 72 + extra(record, -1)))
    }

    #[getter]
    fn prepared_transaction_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.field(py, |record| be_i64(record, 76 + extra(record, -1)))
    }

    fn places<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        shielded(py, "MessageView", || {
            let found = self.found(py)?;
            (found.body, found.topic, found.topic_end, found.properties).into_pyobject(py)
        })
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.part(py, |found, _| (found.body, found.body_end as usize))
    }

    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        shielded(py, "MessageView", || {
            let found = self.found(py)?;
            let name = &self.bytes(py)[found.topic as usize..found.topic_end as usize];
            Ok(PyString::new(py, &java_text(name)))
        })
    }

    #[getter]
    fn topic_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.part(py, |found, _| (found.topic, found.topic_end as usize))
    }

    #[getter]
    fn properties_text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.part(py, |found, size| (found.properties, size))
    }

    #[getter]
    fn properties(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        shielded(py, "MessageView", || {
            if let Some(found) = &*self.kept() {
                return Ok(found.clone_ref(py));
            }
            let parse = PARSE.import(py, "reput.record.text.properties", "parse_properties")?;
            let parsed = parse.call1((self.properties_text(py)?,))?.unbind();
            // Where another thread came first, this one answers with the same object.
            Ok(self.kept().get_or_insert(parsed).clone_ref(py))
        })
    }

    fn body_matches(&self, py: Python<'_>) -> PyResult<bool> {
        shielded(py, "MessageView", || {
            self.found(py)?;
            let bytes = self.bytes(py);
            Ok(Parts::of(bytes).is_some_and(|parts| parts.body_matches(bytes)))
        })
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        guarded(py, "MessageView", || {
            let Ok(other) = other.cast::<Self>() else {
                return Ok(None);
            };
            let other = other.get();
            let is_same =
                self.physical_offset == other.physical_offset && self.bytes(py) == other.bytes(py);
            Ok(Some(PyBool::new(py, is_same).to_owned().into_any()))
        })
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.record.bind(py).hash()
    }
}
