//! See `reput_server.broker.sending.lane`, whose words are not repeated here.

use std::sync::Arc;

use pyo3::exceptions::PyMemoryError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};

use crate::encode::message::packed_host;
use crate::put::putter::{Putter, now};
use crate::put::shared::{SharedEnd, call_wake};
use crate::serve::answer::Answers;
use crate::serve::room::{Origin, Room, Sizes, Taken};
use crate::serve::unusual::Unusual;
use crate::shared::border::{guarded, shielded};
use crate::shared::decline::{Decline, Stop};
use crate::shared::gil::GilCell;
use crate::shared::layout::HOST_SIZE;

#[pyclass(module = "reput_native", frozen)]
pub struct SendLane {
    room: GilCell<Room>,
    end: Arc<SharedEnd>,
    store_host: [u8; HOST_SIZE],
    /// Shows `end` to the collector.
    owner: Py<PyAny>,
}

type Answer = (Py<PyBytes>, usize, usize, Option<Py<PyString>>);

#[pymethods]
impl SendLane {
    #[allow(clippy::needless_pass_by_value)] // what the collector hands over
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    fn allow(&self, py: Python<'_>, topic: &str, queue_count: i32) -> PyResult<()> {
        shielded(py, "SendLane.allow", || {
            let allowed = self.room.borrow(py).allow(topic.as_bytes(), queue_count);
            allowed.map_err(|_| PyMemoryError::new_err(()))
        })
    }

    fn take(
        &self,
        data: &Bound<'_, PyAny>,
        begin: usize,
        address: &Bound<'_, PyAny>,
    ) -> PyResult<Answer> {
        let py = data.py();
        shielded(py, "SendLane.take", || {
            let (taken, wake) = match self.taken(data, begin, address) {
                Ok(taken) => taken,
                Err(_) => (Taken::nothing(begin), None),
            };
            if let Some(Err(error)) = wake.map(|wake| call_wake(&self.end, py, wake)) {
                // What is stored has to be answered; the next append calls it again.
                error.write_unraisable(py, None);
            }
            let unknown = taken
                .unknown
                .map(|topic| PyString::from_bytes(py, &topic).map(Bound::unbind));
            let answers = PyBytes::new(py, &taken.answers).unbind();
            Ok((answers, taken.end, taken.count, unknown.transpose()?))
        })
    }
}

impl SendLane {
    /// What is taken, and whom to wake then. No Python code runs here.
    fn taken(
        &self,
        data: &Bound<'_, PyAny>,
        begin: usize,
        address: &Bound<'_, PyAny>,
    ) -> Result<(Taken, Option<Py<PyAny>>), Decline> {
        let py = data.py();
        let origin = Origin {
            store_timestamp: now().ok_or(Decline::ToPython)?,
            store_host: self.store_host,
            born_host: packed_host(address.as_borrowed())?,
        };
        let bytes = bytes_of(data)?;
        let (mut room, mut end) = (self.room.borrow(py), self.end.borrow(py));
        let taken = room.take(&mut end, bytes, begin, origin);
        let wake = end.wake.take_if(|_| taken.count > 0);
        Ok((taken, wake))
    }
}

/// The bytes of a connection. No Python code may run as long as they are used.
pub fn bytes_of<'a>(data: &'a Bound<'_, PyAny>) -> Result<&'a [u8], Decline> {
    if let Ok(data) = data.cast_exact::<PyBytes>() {
        return Ok(data.as_bytes());
    }
    let data = data.cast_exact::<PyByteArray>();
    let data = data.map_err(|_| Decline::ToPython)?;
    // SAFETY: the interpreter lock is held as long as these bytes are used, and no Python code runs
    // meanwhile, as the callers see to, so that nobody changes the array.
    Ok(unsafe { data.as_bytes() })
}

/// See `reput_server.broker.sending.lane.send_lane`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // what sends of a broker have in common
pub fn send_lane<'py>(
    py: Python<'py>,
    puts: &Bound<'py, PyAny>,
    added: Vec<u8>,
    unusual: Vec<Vec<u8>>,
    pieces: Vec<Vec<u8>>,
    message_host: Vec<u8>,
    sizes: (usize, usize, usize),
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "send_lane", || {
        let put = puts.getattr("put_at_once")?;
        if put.is_none() {
            return Err(Stop::Decline(Decline::ToPython));
        }
        let owner = put.getattr("__self__")?;
        let putter = owner.cast_exact::<Putter>();
        let putter = putter.map_err(|_| Decline::ToPython)?.get();
        let (frame_max, header_max, body_max) = sizes;
        let sizes = Sizes {
            frame_max,
            header_max,
            body_max: body_max.min(putter.limits.body_max),
        };
        let boxed = |parts: Vec<Vec<u8>>| parts.into_iter().map(Vec::into_boxed_slice).collect();
        let unusual = Unusual::of(boxed(unusual)).ok_or(Decline::ToPython)?;
        let answers = Answers::new(boxed(pieces), message_host.into_boxed_slice());
        let answers = answers.ok_or(Decline::ToPython)?;
        let room = Room::new(sizes, added.into_boxed_slice(), unusual, answers);
        let lane = SendLane {
            room: GilCell::new(room),
            end: Arc::clone(&putter.end),
            store_host: putter.limits.store_host,
            owner: owner.clone().unbind(),
        };
        Ok(Bound::new(py, lane)?)
    })
}
