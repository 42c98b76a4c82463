//! Puts a message in one step; see `PutAtOnce` of `reput.log.writing.appender`.

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFrozenSet, PyType};

use super::appender::Appender;
use super::interest::{is_among, is_one_among};
use super::target::Target;
use crate::encode::message::{Fields, bytes, text};
use crate::encode::propertytext::PropertyText;
use crate::encode::record::{Place, Record, body_crc, takes_queue_offset};
use crate::shared::border::{Answer, guarded};

const BODY_MAX: usize = 64 << 10; // larger ones are copied without the interpreter lock, by rows

/// Puts messages of one store in one step; see `PutAtOnce` of Python's module.
#[pyclass(module = "reput_native", frozen)]
pub struct Putter {
    pub(super) appender: Py<Appender>,
    pub(super) log: Py<PyAny>,
    pub(super) topics: Py<PyFrozenSet>,
    pub(super) properties: Py<PyFrozenSet>,
}

#[pymethods]
impl Putter {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.appender)?;
        visit.call(&self.log)
    }

    fn put<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = message.py();
        guarded(py, "put_at_once", || {
            let Some((fields, place, size)) = self.put_or_nothing(message) else {
                return Ok(None);
            };
            // Held: what follows may run Python code, which may change the message.
            let (topic, queue_id) = (fields.topic().to_owned(), fields.queue_id().to_owned());
            let appender = self.appender.bind(py);
            if appender.try_borrow()?.wake.is_some() {
                Appender::call_wake(appender)?;
            }
            receipt(self.log.bind(py), topic, queue_id, &place, size)
        })
    }
}

impl Putter {
    /// Put a message, or do nothing. No Python code runs in here.
    #[inline]
    fn put_or_nothing<'a, 'py>(
        &self,
        message: &'a Bound<'py, PyAny>,
    ) -> Option<(Fields<'a, 'py>, Place, usize)> {
        let py = message.py();
        let fields = Fields::of(message)?;
        let mut borrowed = self.appender.bind(py).try_borrow_mut().ok()?;
        let this = &mut *borrowed;
        if this.is_appending {
            return None;
        }
        let at_once = this.at_once?;
        let Some(Target::Mapped { mapped, .. }) = &this.target else {
            return None;
        };
        let topic = fields.topic();
        let name = text(topic)?;
        if is_among(self.topics.bind(py), topic)? {
            return None;
        }
        if is_one_among(self.properties.bind(py), fields.properties())? {
            return None;
        }
        let body = bytes(fields.body())?;
        if body.len() > at_once.body_max.min(BODY_MAX) {
            return None;
        }
        let numbers = fields.numbers()?;
        this.scratch.clear();
        let mut property_text = PropertyText::begin(&mut this.scratch);
        property_text.keys(fields.keys())?;
        property_text.tags(fields.tags())?;
        property_text.properties(fields.properties())?;
        property_text.end()?;

        let number = this.queues.number(name.as_bytes());
        let record = Record {
            numbers,
            topic: this.queues.named(number)?,
            body,
            body_crc: body_crc(body),
            properties: &this.scratch,
        };
        let size = record.size();
        let (offset, queue_id) = (this.end_offset, i64::from(numbers.queue_id));
        if offset + size as i64 > this.record_limit {
            return None;
        }
        let counts = takes_queue_offset(numbers.sys_flag);
        let queue_offset = if counts {
            i64::try_from(this.queues.next(number, queue_id)).ok()?
        } else {
            0
        };
        let place = Place {
            physical_offset: offset,
            queue_offset,
            store_timestamp: now()?,
            store_host: at_once.store_host,
        };
        let position = usize::try_from(offset - this.base_offset).ok()?;
        mapped
            .write_record(position, &record, &place)
            .then_some(())?;
        if counts {
            this.queues.set(number, queue_id, queue_offset as u64 + 1);
        }
        this.end_offset = offset + size as i64;
        this.last_record_offset = offset;
        Some((fields, place, size))
    }
}

/// ms since the epoch, as `time.time_ns() // 1_000_000`.
#[inline]
pub fn now() -> Option<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.ok()?.as_millis()).ok()
}

static RECEIPT: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// A `reput.log.writing.receipts.Receipt`, made as `tuple.__new__` makes it.
fn receipt<'py>(
    log: &Bound<'py, PyAny>,
    topic: Bound<'py, PyAny>,
    queue_id: Bound<'py, PyAny>,
    place: &Place,
    size: usize,
) -> Answer<'py> {
    let py = log.py();
    let class = RECEIPT.import(py, "reput.log.writing.receipts", "Receipt")?;
    let number = |value: i64| value.into_pyobject(py).map(Bound::into_any);
    let items = [
        log.clone(),
        topic,
        queue_id,
        number(place.queue_offset)?,
        number(place.physical_offset)?,
        number(size as i64)?,
        number(place.store_timestamp)?,
    ];
    // SAFETY: the class is a named tuple of seven, so it has the layout of a tuple, and its object
    // is filled before anybody else sees it. `PyTuple_SetItem` takes the reference over.
    unsafe {
        let made = ffi::PyType_GenericAlloc(class.as_ptr().cast(), items.len() as ffi::Py_ssize_t);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        for (place, item) in (0..).zip(items) {
            if ffi::PyTuple_SetItem(made.as_ptr(), place, item.into_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(Some(made))
    }
}
