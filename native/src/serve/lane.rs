//! See `reput_server.broker.send.fastpath`, whose words are not repeated here.

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
use crate::serve::sockets::Socket;
use crate::serve::unusual::Unusual;
use crate::shared::border::{copied, guarded, shielded};
use crate::shared::decline::{Decline, Stop};
use crate::shared::gil::GilCell;
use crate::shared::layout::HOST_SIZE;

#[pyclass(module = "reput_native", frozen)]
pub struct SendFastPath {
    room: GilCell<Room>,
    /// For the bytes of one connection at a time.
    scratch: GilCell<Vec<u8>>,
    end: Arc<SharedEnd>,
    store_host: [u8; HOST_SIZE],
    /// Shows `end` to the collector.
    owner: Py<PyAny>,
}

type Answer = (Py<PyBytes>, usize, usize, Option<Py<PyString>>);
/// Of the connection with this number: what was read and not taken, and what was not written.
type Rest<T> = (usize, T, T);
/// Of that connection: how many sends were taken, the size of their frames, and their answers.
type Kept<T> = (usize, usize, usize, T);
/// As Python gets it.
type TakenOfSockets = (usize, Vec<Rest<Py<PyBytes>>>, Vec<Kept<Py<PyBytes>>>);

/// What was taken of several connections, and what is left of them.
#[derive(Default)]
struct FromSockets {
    count: usize,
    rests: Vec<Rest<Vec<u8>>>,
    kept: Vec<Kept<Vec<u8>>>,
}

/// Bytes that are read of a connection in one turn, and after which a turn ends.
const READ_SIZE: usize = 256 << 10;

#[pymethods]
impl SendFastPath {
    #[allow(clippy::needless_pass_by_value)] // what the collector hands over
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    fn allow(&self, py: Python<'_>, topic: &str, queue_count: i32) -> PyResult<()> {
        shielded(py, "SendFastPath.allow", || {
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
        shielded(py, "SendFastPath.take", || {
            let taken = match self.taken(data, begin, address) {
                Ok(taken) => taken,
                Err(_) => Taken::nothing(begin),
            };
            self.wake_after(py, taken.count);
            let unknown = taken
                .unknown
                .map(|topic| PyString::from_bytes(py, &topic).map(Bound::unbind));
            let answers = copied(py, &taken.answers)?.unbind();
            Ok((answers, taken.end, taken.count, unknown.transpose()?))
        })
    }

    fn take_sockets(
        &self,
        py: Python<'_>,
        connections: Vec<(i32, Bound<'_, PyAny>)>,
        answers: bool,
    ) -> PyResult<TakenOfSockets> {
        shielded(py, "SendFastPath.take_sockets", || {
            let found = self.scratch.lend(py, READ_SIZE, |scratch| {
                scratch.resize(READ_SIZE, 0);
                self.taken_of_sockets(py, &connections, answers, scratch)
            });
            self.wake_after(py, found.count);
            let bytes = |part: Vec<u8>| copied(py, &part).map(Bound::unbind);
            let rests = found.rests.into_iter();
            let rests = rests.map(|(number, data, rest)| Ok((number, bytes(data)?, bytes(rest)?)));
            let kept = found.kept.into_iter();
            let kept =
                kept.map(|(number, count, size, all)| Ok((number, count, size, bytes(all)?)));
            let (rests, kept) = (
                rests.collect::<PyResult<_>>()?,
                kept.collect::<PyResult<_>>()?,
            );
            Ok((found.count, rests, kept))
        })
    }
}

impl SendFastPath {
    /// What is taken. No Python code runs here.
    fn taken(
        &self,
        data: &Bound<'_, PyAny>,
        begin: usize,
        address: &Bound<'_, PyAny>,
    ) -> Result<Taken, Decline> {
        let born_host = packed_host(address.as_borrowed())?;
        self.taken_of(data.py(), bytes_of(data)?, begin, born_host)
    }

    fn taken_of(
        &self,
        py: Python<'_>,
        data: &[u8],
        begin: usize,
        born_host: [u8; HOST_SIZE],
    ) -> Result<Taken, Decline> {
        let origin = Origin {
            store_timestamp: now().ok_or(Decline::ToPython)?,
            store_host: self.store_host,
            born_host,
        };
        let (mut room, mut end) = (self.room.borrow(py), self.end.borrow(py));
        Ok(room.take(&mut end, data, begin, origin))
    }

    /// Each connection is read, served and, if `answers` is set, answered before the next one: its
    /// client goes on meanwhile. The interpreter lock is kept, as to take it again for each of them
    /// costs more.
    fn taken_of_sockets(
        &self,
        py: Python<'_>,
        connections: &[(i32, Bound<'_, PyAny>)],
        answers: bool,
        scratch: &mut [u8],
    ) -> FromSockets {
        let (mut found, mut total) = (FromSockets::default(), 0);
        for (number, (descriptor, address)) in connections.iter().enumerate() {
            // SAFETY: the caller owns the connections, and closes none of them meanwhile, as the
            // interpreter lock is held.
            let socket = unsafe { Socket::borrowed(*descriptor) };
            let Some(mut socket) = socket else {
                found.rests.push((number, vec![], vec![]));
                continue;
            };
            let Some(size) = socket.read(scratch) else {
                continue;
            };
            let data = &scratch[..size];
            let taken = packed_host(address.as_borrowed())
                .and_then(|born_host| self.taken_of(py, data, 0, born_host));
            let taken = taken.unwrap_or_else(|_| Taken::nothing(0));
            found.count += taken.count;
            let mut unwritten = vec![];
            if answers {
                let written = socket.write(&taken.answers);
                unwritten = taken.answers[written..].to_vec();
            } else if taken.count > 0 {
                let kept = (number, taken.count, taken.end, taken.answers);
                found.kept.push(kept);
            }
            if size == 0 || taken.end < size || !unwritten.is_empty() {
                let rest = (number, data[taken.end..].to_vec(), unwritten);
                found.rests.push(rest);
            }
            total += size;
            if taken.end < size || total >= READ_SIZE {
                break;
            }
        }
        found
    }

    /// Wake who waits for appends, if there were any.
    fn wake_after(&self, py: Python<'_>, count: usize) {
        if count == 0 {
            return;
        }
        let wake = self.end.borrow(py).wake.take();
        if let Some(Err(error)) = wake.map(|wake| call_wake(&self.end, py, wake)) {
            // What is stored has to be answered; the next append calls it again.
            error.write_unraisable(py, None);
        }
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

/// See `reput_server.broker.send.fastpath.send_lane`.
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
        let lane = SendFastPath {
            room: GilCell::new(room),
            scratch: GilCell::default(),
            end: Arc::clone(&putter.end),
            store_host: putter.limits.store_host,
            owner: owner.clone().unbind(),
        };
        Ok(Bound::new(py, lane)?)
    })
}
