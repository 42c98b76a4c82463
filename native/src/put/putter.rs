//! Puts a message in one step; see `PutAtOnce` of `reput.log.writer.appender`.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyFrozenSet;

use crate::encode::limits::Limits;
use crate::encode::message::{Fields, bytes, text};
use crate::encode::propertytext::PropertyText;
use crate::put::end::Unplaced;
use crate::put::interest::{Others, is_among, is_one_among};
use crate::put::receipt::receipt;
use crate::put::shared::{SharedEnd, call_wake};
use crate::shared::border::guarded;
use crate::shared::decline::{Decline, Stop, declined_unless};
use crate::shared::gil::GilCell;

const BODY_MAX: usize = 64 << 10; // larger ones are copied without the interpreter lock, by rows
const SCRATCH_MAX: usize = 64 << 10; // bytes that are kept for the next text

/// Puts messages of one store in one step; see `PutAtOnce` of Python's module.
#[pyclass(module = "reput_native", frozen)]
pub struct Putter {
    pub end: Arc<SharedEnd>,
    pub limits: Limits,
    /// The `Appender`, which shows `end` to the collector.
    pub(super) owner: Py<PyAny>,
    pub(super) log: Py<PyAny>,
    pub(super) topics: Py<PyFrozenSet>,
    pub(super) properties: Py<PyFrozenSet>,
    /// Memory for a property text.
    pub(super) scratch: GilCell<Vec<u8>>,
}

#[pymethods]
impl Putter {
    #[allow(clippy::needless_pass_by_value)] // what the collector hands over
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.log)
    }

    fn put<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = message.py();
        guarded(py, "put_at_once", || {
            let receipt = |text: &mut _| self.receipt_of(message, text);
            self.scratch.lend(py, SCRATCH_MAX, receipt)
        })
    }
}

impl Putter {
    fn receipt_of<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        scratch: &mut Vec<u8>,
    ) -> Result<Bound<'py, PyAny>, Stop> {
        let py = message.py();
        // No Python code runs before the message is stored, so that nobody changes it meanwhile.
        let fields = Fields::of(message)?;
        let unplaced = self.checked(py, &fields, scratch)?;
        let timestamp = now().ok_or(Decline::ToPython)?;
        let (place, size, queue, wake) = {
            let mut end = self.end.borrow(py);
            let (place, size, queue) = end.put(&unplaced, timestamp, self.limits.store_host)?;
            (place, size, queue, end.wake.take())
        };
        // Held: what follows may run Python code, which may change the message.
        let topic = fields.topic.to_owned();
        let queue_id = if fields.queue_id.is_none() {
            queue
                .into_pyobject(py)
                .map(Bound::into_any)
                .map_err(PyErr::from)?
        } else {
            fields.queue_id.to_owned()
        };
        if let Some(wake) = wake {
            call_wake(&self.end, py, wake)?;
        }
        Ok(receipt(self.log.bind(py), topic, queue_id, &place, size)?)
    }

    /// The message, if nothing has to be done first.
    #[inline]
    fn checked<'a>(
        &self,
        py: Python<'_>,
        fields: &Fields<'a, '_>,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Unplaced<'a>, Decline> {
        let topic = text(fields.topic)?;
        let concerns_any = is_among(self.topics.bind(py), fields.topic)?
            || is_one_among(
                self.properties.bind(py),
                fields.properties,
                &mut Others::default(),
            )?;
        let body = bytes(fields.body)?;
        declined_unless(!concerns_any && body.len() <= self.limits.body_max.min(BODY_MAX))?;
        let numbers = fields.numbers()?;
        scratch.clear();
        let mut property_text = PropertyText::begin(scratch);
        property_text.keys(fields.keys)?;
        property_text.tags(fields.tags)?;
        property_text.properties(fields.properties)?;
        property_text.end()?;
        Ok(Unplaced {
            numbers,
            topic: topic.as_bytes(),
            body,
            properties: scratch,
        })
    }
}

/// ms since the epoch, as `time.time_ns() // 1_000_000`.
#[inline]
pub fn now() -> Option<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.ok()?.as_millis()).ok()
}
