//! One stored message; see `reput.record.view`.
//!
//! The class has the members on the way of every message. The others it is given by
//! `reput.engine.compiled`, from the class in Python. What is wrong with a record, that class
//! says, too: it is asked for its error.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::derive::text::java_text;
use crate::derive::window::{
    BORN_HOST_V6, HEADER_SIZE, HOST_EXTRA_V6, Parts, STORE_HOST_V6, is_record,
};
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
    properties: PyOnceLock<Py<PyAny>>,
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
            properties: PyOnceLock::new(),
        }
    }

    fn bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.record.bind(py).as_bytes()
    }

    /// Bytes by which the hosts that a flag tells of are longer than those of IPv4.
    fn extra(&self, py: Python<'_>, bits: i32) -> usize {
        longer(be_i32(self.bytes(py), 36) & bits)
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

    fn part<'py>(&self, py: Python<'py>, start: u32, end: u32) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes(py)[start as usize..end as usize])
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

#[pymethods]
impl MessageView {
    #[new]
    #[pyo3(signature = (record, physical_offset = None))]
    fn new(
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        physical_offset: Option<i64>,
    ) -> PyResult<Self> {
        let record = match record.cast::<PyBytes>() {
            Ok(bytes) => bytes.clone(),
            Err(_) => py
                .get_type::<PyBytes>()
                .call1((record,))?
                .cast_into::<PyBytes>()?,
        };
        let bytes = record.as_bytes();
        if !is_record(bytes) || HEADER_SIZE + longer(be_i32(bytes, 36)) > bytes.len() {
            let answer = reference(py)?.call1((record, physical_offset));
            return Err(unexpected(answer));
        }
        let stated = be_i64(bytes, 28);
        let places = Parts::of(bytes).as_ref().map(Places::of);
        Ok(Self {
            record: record.unbind(),
            physical_offset: physical_offset.unwrap_or(stated),
            places,
            properties: PyOnceLock::new(),
        })
    }

    /// Like the constructor; for the kernel's Python function, whose caller may hold this class.
    #[staticmethod]
    fn _checked(
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        physical_offset: i64,
        _places: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        Self::new(py, record, Some(physical_offset))
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
    fn size(&self, py: Python<'_>) -> usize {
        self.bytes(py).len()
    }

    #[getter]
    fn body_crc(&self, py: Python<'_>) -> i32 {
        be_i32(self.bytes(py), 8)
    }

    #[getter]
    fn queue_id(&self, py: Python<'_>) -> i32 {
        be_i32(self.bytes(py), 12)
    }

    #[getter]
    fn flag(&self, py: Python<'_>) -> i32 {
        be_i32(self.bytes(py), 16)
    }

    #[getter]
    fn queue_offset(&self, py: Python<'_>) -> i64 {
        be_i64(self.bytes(py), 20)
    }

    #[getter]
    fn stated_offset(&self, py: Python<'_>) -> i64 {
        be_i64(self.bytes(py), 28)
    }

    #[getter]
    fn sys_flag(&self, py: Python<'_>) -> i32 {
        be_i32(self.bytes(py), 36)
    }

    #[getter]
    fn born_timestamp(&self, py: Python<'_>) -> i64 {
        be_i64(self.bytes(py), 40)
    }

    #[getter]
    fn store_timestamp(&self, py: Python<'_>) -> i64 {
        be_i64(self.bytes(py), 56 + self.extra(py, BORN_HOST_V6))
    }

    #[getter]
    fn reconsume_times(&self, py: Python<'_>) -> i32 {
        be_i32(self.bytes(py), 72 + self.extra(py, -1))
    }

    #[getter]
    fn prepared_transaction_offset(&self, py: Python<'_>) -> i64 {
        be_i64(self.bytes(py), 76 + self.extra(py, -1))
    }

    fn places<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let found = self.found(py)?;
        (found.body, found.topic, found.topic_end, found.properties).into_pyobject(py)
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let found = self.found(py)?;
        Ok(self.part(py, found.body, found.body_end))
    }

    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let found = self.found(py)?;
        let name = &self.bytes(py)[found.topic as usize..found.topic_end as usize];
        Ok(PyString::new(py, &java_text(name)))
    }

    #[getter]
    fn topic_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let found = self.found(py)?;
        Ok(self.part(py, found.topic, found.topic_end))
    }

    #[getter]
    fn properties_text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let found = self.found(py)?;
        let end = self.bytes(py).len() as u32;
        Ok(self.part(py, found.properties, end))
    }

    #[getter]
    fn properties(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let found = self.properties.get_or_try_init(py, || {
            let parse = PARSE.import(py, "reput.record.text.properties", "parse_properties")?;
            Ok::<_, PyErr>(parse.call1((self.properties_text(py)?,))?.unbind())
        })?;
        Ok(found.clone_ref(py))
    }

    fn body_matches(&self, py: Python<'_>) -> PyResult<bool> {
        self.found(py)?;
        let bytes = self.bytes(py);
        Ok(Parts::of(bytes).is_some_and(|parts| parts.body_matches(bytes)))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        let Ok(other) = other.cast::<Self>() else {
            return py.NotImplemented();
        };
        let other = other.get();
        let is_same =
            self.physical_offset == other.physical_offset && self.bytes(py) == other.bytes(py);
        pyo3::types::PyBool::new(py, is_same)
            .to_owned()
            .into_any()
            .unbind()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.record.bind(py).hash()
    }
}
