//! The growing end of the log; see `reput.log.writing.appender`, whose words are not repeated here.
//!
//! What happens is in `end`. Between what a method does to the log and to its counts no Python code
//! runs, and the interpreter lock is held: what Python's `Appender` calls one step is one step here.

use std::sync::{Arc, MutexGuard};

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyString, PyTuple};

use crate::encode::limits::Limits;
use crate::encode::message::bytes;
use crate::put::end::{Active, LogEnd, end_of};
use crate::put::putter::Putter;
use crate::put::queues::{ELSEWHERE, Queues};
use crate::put::receipt::ReceiptClass;
use crate::put::refusal::Refusal;
use crate::put::region::{Region, SizeWord};
use crate::put::scratch::Scratch;
use crate::put::shared::SharedEnd;
use crate::put::target::{call_stores, region_of};
use crate::shared::border::shielded;

#[pyclass(module = "reput_native", frozen)]
pub struct Appender {
    end: Arc<SharedEnd>,
    /// Next queue offsets that `end` cannot keep: of queues, or with numbers, of no record.
    others: Py<PyDict>,
    /// What messages that are put at once are encoded with; `None` where none is.
    at_once: Option<Limits>,
    /// Memory for the bytes of a chunk.
    pub(super) scratch: Scratch,
}

#[pymethods]
impl Appender {
    #[new]
    fn new(
        encoder: &Bound<'_, PyAny>,
        end_offset: i64,
        last_record_offset: i64,
        clock: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        shielded(encoder.py(), "Appender", || {
            Ok(Self {
                end: Arc::new(SharedEnd::new(LogEnd::new(end_offset, last_record_offset))),
                others: PyDict::new(encoder.py()).unbind(),
                // A clock of the caller's is Python code, which cannot run in one step.
                at_once: match clock {
                    Some(_) => None,
                    None => Limits::of(encoder)?,
                },
                scratch: Scratch::default(),
            })
        })
    }

    #[allow(clippy::needless_pass_by_value)] // what the collector hands over
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.others)?;
        self.end.traverse(&visit)
    }

    fn __clear__(&self) {
        let mut end = self.end();
        let old = (end.let_go(), end.wake.take());
        drop(end);
        drop(old);
    }

    #[getter]
    fn end_offset(&self) -> i64 {
        self.end().end_offset
    }

    #[getter]
    fn last_record_offset(&self) -> i64 {
        self.end().last_record_offset
    }

    #[getter]
    fn base_offset(&self) -> i64 {
        self.end().base_offset()
    }

    #[getter]
    fn file_limit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let limit = self.end().file_limit();
        int_of_limit(py, limit)
    }

    #[getter]
    fn record_limit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let limit = self.end().record_limit();
        int_of_limit(py, limit)
    }

    #[getter]
    fn is_appending(&self) -> bool {
        self.end().is_appending
    }

    #[setter]
    fn set_is_appending(&self, is_appending: bool) {
        self.end().is_appending = is_appending;
    }

    #[getter]
    fn file(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.end().active().map(|active| active.file.clone_ref(py))
    }

    // ------------------------------------------------------------------ the active file

    fn begin_file(&self, file: &Bound<'_, PyAny>, end_offset: i64) -> PyResult<()> {
        let py = file.py();
        shielded(py, "Appender.begin_file", || {
            let base_offset: i64 = file.getattr("base_offset")?.extract()?;
            let size: i64 = file.getattr("size")?.extract()?;
            let active = Active {
                region: region_of(file)?.map(Arc::new),
                file: file.clone().unbind(),
            };
            let (old, (position, [a, b, c, d, magic @ ..])) = {
                let end = self.end();
                let called = end.active().filter(|active| active.region.is_none());
                (called.map(|active| active.file.clone_ref(py)), end.blank()?)
            };
            if let Some(old) = old {
                call_stores(old.bind(py), position, [a, b, c, d], &magic, true)?;
            }
            let old = self
                .end()
                .begin_file(active, base_offset, size, end_offset)?;
            drop(old); // whose destructors may ask for what was locked above
            Ok(())
        })
    }

    fn allow(&self) {
        self.end().allow();
    }

    fn refuse(&self) {
        self.end().refuse();
    }

    fn move_record_limit(&self, limit: i128) {
        self.end().move_record_limit(limit);
    }

    fn let_go(&self) {
        let old = self.end().let_go();
        drop(old);
    }

    // ------------------------------------------------------------------ the reader

    fn move_end(&self, end_offset: i64) {
        self.end().end_offset = end_offset;
    }

    fn ask_to_wake(&self, wake: Py<PyAny>) {
        let old = self.end().wake.replace(wake);
        drop(old);
    }

    fn call_wake(&self, py: Python<'_>) -> PyResult<()> {
        shielded(py, "Appender.call_wake", || {
            let wake = self.end().wake.take();
            wake.map_or(Ok(()), |wake| self.end.call(py, wake))
        })
    }

    // ------------------------------------------------------------------ queue offsets

    fn start_queues(&self, queue_offsets: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = queue_offsets.py();
        shielded(py, "Appender.start_queues", || {
            let others = self.others.bind(py);
            let mut entries = vec![];
            for item in queue_offsets.call_method0("items")?.try_iter()? {
                let (key, next) = item?.extract::<(Bound<'_, PyTuple>, Bound<'_, PyAny>)>()?;
                entries.push(Entry::of(key, next)?);
            }
            let old = std::mem::replace(&mut self.end().queues, Queues::new());
            drop(old);
            others.clear();
            entries.into_iter().try_for_each(|entry| self.set(entry))
        })
    }

    fn next_queue_offset<'py>(&self, key: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        shielded(py, "Appender.next_queue_offset", || {
            let next = match queue_of(key)? {
                Some((name, queue_id)) => {
                    let name = name.to_str()?;
                    self.end().queues.next_of(name.as_bytes(), queue_id)
                }
                None => ELSEWHERE,
            };
            if next != ELSEWHERE {
                return Ok(next.into_pyobject(py)?.into_any());
            }
            let found = self.others.bind(py).get_item(key)?;
            found.map_or_else(|| Ok(0_u64.into_pyobject(py)?.into_any()), Ok)
        })
    }

    fn queue_offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        shielded(py, "Appender.queue_offsets", || {
            let copied: Vec<_> = {
                let end = self.end();
                let copy = |(name, queue_id, next): (&[u8], _, _)| (name.to_vec(), queue_id, next);
                end.queues.all().map(copy).collect()
            };
            let found = PyDict::new(py);
            for (name, queue_id, next) in copied {
                found.set_item((PyString::from_bytes(py, &name)?, queue_id), next)?;
            }
            found.update(self.others.bind(py).as_mapping())?;
            Ok(found)
        })
    }

    // ------------------------------------------------------------------ records

    fn put_at_once<'py>(
        slf: &Bound<'py, Self>,
        log: &Bound<'py, PyAny>,
        topics: &Bound<'py, PyAny>,
        properties: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        shielded(slf.py(), "Appender.put_at_once", || {
            let this = slf.get();
            let Some(limits) = this.at_once else {
                return Ok(None);
            };
            ReceiptClass::load(slf.py())?;
            let putter = Putter {
                end: Arc::clone(&this.end),
                limits,
                owner: slf.clone().into_any().unbind(),
                log: log.clone().unbind(),
                topics: topics.cast_exact::<PyFrozenSet>()?.clone().unbind(),
                properties: properties.cast_exact::<PyFrozenSet>()?.clone().unbind(),
                scratch: Scratch::default(),
            };
            Bound::new(slf.py(), putter)?.getattr("put").map(Some)
        })
    }

    fn publish(
        &self,
        offset: i64,
        word: &Bound<'_, PyAny>,
        rest: &Bound<'_, PyAny>,
        last_record_offset: i64,
        following: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let py = word.py();
        shielded(py, "Appender.publish", || {
            let rest = match rest.cast_exact::<PyBytes>() {
                Ok(rest) => rest.clone(),
                Err(_) => rest.call_method0("tobytes")?.cast_into()?,
            };
            let Some(word) = bytes(word.as_borrowed())
                .ok()
                .and_then(|word| SizeWord::try_from(word).ok())
            else {
                return Err(PyTypeError::new_err("a word of four bytes expected"));
            };
            let rest = rest.as_bytes();
            let end_offset = end_of(offset, word.len() + rest.len())?;
            let following = following.iter();
            let following = following.map(|(key, next)| Entry::of(key.cast_into()?, next));
            let following = following.collect::<PyResult<Vec<_>>>()?;
            let is_alone = last_record_offset == offset;
            match self.region()? {
                None => self.store(py, offset, word, rest, is_alone)?,
                Some(region) => {
                    let position = self.end().position_of(offset)?;
                    region.write_records(position, word, rest)?;
                }
            }
            self.end().count(end_offset, last_record_offset);
            following.into_iter().try_for_each(|entry| self.set(entry))
        })
    }
}

impl Appender {
    /// The state, locked. Python objects are neither made nor dropped before it is released.
    #[inline]
    pub fn end(&self) -> MutexGuard<'_, LogEnd<Py<PyAny>>> {
        self.end.lock()
    }

    /// Set the next queue offset of a queue.
    fn set(&self, entry: Entry<'_>) -> PyResult<()> {
        let others = self.others.bind(entry.key.py());
        let Some((name, queue_id)) = entry.queue else {
            return others.set_item(entry.key, entry.next);
        };
        let before = {
            let mut end = self.end();
            let before = end.queues.next_of(&name, queue_id);
            end.queues.set_of(&name, queue_id, entry.number);
            before
        };
        if entry.number == ELSEWHERE {
            others.set_item(entry.key, entry.next)
        } else if before == ELSEWHERE {
            others.del_item(entry.key)
        } else {
            Ok(())
        }
    }

    /// The bytes of the active file; `None` where `store` has to be called.
    pub fn region(&self) -> Result<Option<Arc<Region>>, Refusal> {
        let end = self.end();
        let active = end.active().ok_or(Refusal::NoFile)?;
        Ok(active.region.clone())
    }

    /// Write whole records by setting items of the map, without counting them.
    ///
    /// This runs Python code, so the log's lock has to be held.
    pub fn store(
        &self,
        py: Python<'_>,
        offset: i64,
        word: SizeWord,
        rest: &[u8],
        is_alone: bool,
    ) -> PyResult<()> {
        let (file, position) = {
            let end = self.end();
            let active = end.active().ok_or(Refusal::NoFile)?;
            (active.file.clone_ref(py), end.position_of(offset)?)
        };
        call_stores(file.bind(py), position, word, rest, is_alone)
    }
}

/// Most limits take the short way.
fn int_of_limit(py: Python<'_>, limit: i128) -> PyResult<Bound<'_, PyAny>> {
    match i64::try_from(limit) {
        Ok(limit) => Ok(limit.into_pyobject(py)?.into_any()),
        Err(_) => Ok(limit.into_pyobject(py)?.into_any()),
    }
}

/// A queue and its next queue offset, as they are given, and as `Queues` keeps them.
struct Entry<'py> {
    key: Bound<'py, PyTuple>,
    next: Bound<'py, PyAny>,
    queue: Option<(Vec<u8>, i32)>,
    /// `ELSEWHERE` for what only Python can keep.
    number: u64,
}

impl<'py> Entry<'py> {
    fn of(key: Bound<'py, PyTuple>, next: Bound<'py, PyAny>) -> PyResult<Self> {
        let queue = match queue_of(&key)? {
            Some((name, queue_id)) => Some((name.to_str()?.as_bytes().to_vec(), queue_id)),
            None => None,
        };
        let number = narrow::<u64>(&next)?.filter(|&number| number < ELSEWHERE);
        Ok(Self {
            key,
            next,
            queue,
            number: number.unwrap_or(ELSEWHERE),
        })
    }
}

/// Topic and queue id of a key, if records can have them.
fn queue_of<'py>(key: &Bound<'py, PyTuple>) -> PyResult<Option<(Bound<'py, PyString>, i32)>> {
    let (name, queue_id) = key.extract::<(Bound<'py, PyString>, Bound<'py, PyAny>)>()?;
    let queue_id = narrow::<i32>(&queue_id)?;
    Ok(queue_id
        .filter(|_| name.to_str().is_ok())
        .map(|queue_id| (name, queue_id)))
}

/// A number; `None` where it does not fit.
fn narrow<'py, T>(number: &Bound<'py, PyAny>) -> PyResult<Option<T>>
where
    for<'a> T: FromPyObject<'a, 'py, Error = PyErr>,
{
    match number.extract::<T>() {
        Err(error) if !error.is_instance_of::<PyOverflowError>(number.py()) => Err(error),
        found => Ok(found.ok()),
    }
}
