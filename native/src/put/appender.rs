//! The growing end of the log; see `reput.log.writer.appender`, whose words are not repeated here.
//!
//! What happens is in `end`. Between what a method does to the log and to its counts no Python code
//! runs, and the interpreter lock is held: what Python's `Appender` calls one step is one step here.

use std::cell::RefMut;
use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyString, PyTuple};

use crate::encode::limits::Limits;
use crate::encode::message::bytes;
use crate::put::end::{Active, LogEnd, end_of};
use crate::put::putter::Putter;
use crate::put::queues::ELSEWHERE;
use crate::put::receipt::ReceiptClass;
use crate::put::refusal::Refusal;
use crate::put::region::SizeWord;
use crate::put::shared::{SharedEnd, call_wake};
use crate::put::target::{call_stores, region_of};
use crate::shared::border::shielded;
use crate::shared::gil::GilCell;

#[pyclass(module = "reput_native", frozen)]
pub struct Appender {
    end: Arc<SharedEnd>,
    /// Next queue offsets that `end` cannot keep: of queues, or with numbers, of no record.
    others: Py<PyDict>,
    /// What messages that are put at once are encoded with; `None` where none is.
    at_once: Option<Limits>,
    /// Memory for the bytes of a chunk.
    pub(super) scratch: GilCell<Vec<u8>>,
}

#[pymethods]
impl Appender {
    #[new]
    #[pyo3(signature = (encoder, end_offset, last_record_offset, clock, queue_count=1))]
    fn new(
        encoder: &Bound<'_, PyAny>,
        end_offset: i64,
        last_record_offset: i64,
        clock: Option<&Bound<'_, PyAny>>,
        queue_count: u32,
    ) -> PyResult<Self> {
        shielded(encoder.py(), "Appender", || {
            Ok(Self {
                end: Arc::new(SharedEnd::new(LogEnd::new(
                    end_offset,
                    last_record_offset,
                    queue_count,
                ))),
                others: PyDict::new(encoder.py()).unbind(),
                // A clock of the caller's is Python code, which cannot run in one step.
                at_once: match clock {
                    Some(_) => None,
                    None => Limits::of(encoder)?,
                },
                scratch: GilCell::default(),
            })
        })
    }

    #[allow(clippy::needless_pass_by_value)] // what the collector hands over
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.others)?;
        let Some(end) = self.end.visited(&visit) else {
            return Ok(());
        };
        visit.call(&end.wake)?;
        end.active
            .as_ref()
            .map_or(Ok(()), |active| visit.call(&active.file))
    }

    fn __clear__(&self, py: Python<'_>) {
        let mut end = self.end(py);
        let old = (end.active.take(), end.wake.take());
        drop(end);
        drop(old);
    }

    #[getter]
    fn end_offset(&self, py: Python<'_>) -> i64 {
        self.end(py).end_offset
    }

    #[getter]
    fn last_record_offset(&self, py: Python<'_>) -> i64 {
        self.end(py).last_record_offset
    }

    #[getter]
    fn base_offset(&self, py: Python<'_>) -> i64 {
        self.end(py).base_offset
    }

    #[getter]
    fn file_limit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let limit = self.end(py).file_limit;
        int_of_limit(py, limit)
    }

    #[getter]
    fn record_limit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let limit = self.end(py).record_limit;
        int_of_limit(py, limit)
    }

    #[getter]
    fn is_appending(&self, py: Python<'_>) -> bool {
        self.end(py).is_appending
    }

    #[setter]
    fn set_is_appending(&self, py: Python<'_>, is_appending: bool) {
        self.end(py).is_appending = is_appending;
    }

    #[getter]
    fn file(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.end(py)
            .active
            .as_ref()
            .map(|active| active.file.clone_ref(py))
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
            let (old, (position, word, magic)) = {
                let end = self.end(py);
                let called = end.active.as_ref().filter(|active| active.region.is_none());
                (called.map(|active| active.file.clone_ref(py)), end.blank()?)
            };
            if let Some(old) = old {
                call_stores(old.bind(py), position, word, &magic, true)?;
            }
            let mut end = self.end(py);
            let old = end.begin_file(active, base_offset, size, end_offset)?;
            drop(end);
            drop(old); // whose destructors may ask for what was locked above
            Ok(())
        })
    }

    fn allow(&self, py: Python<'_>) {
        self.end(py).allow();
    }

    fn refuse(&self, py: Python<'_>) {
        self.end(py).refuse();
    }

    fn move_record_limit(&self, py: Python<'_>, limit: i128) {
        self.end(py).move_record_limit(limit);
    }

    fn let_go(&self, py: Python<'_>) {
        let old = self.end(py).active.take();
        drop(old);
    }

    // ------------------------------------------------------------------ the reader

    fn ask_to_wake(&self, py: Python<'_>, wake: Py<PyAny>) {
        let old = self.end(py).wake.replace(wake);
        drop(old);
    }

    fn call_wake(&self, py: Python<'_>) -> PyResult<()> {
        shielded(py, "Appender.call_wake", || {
            let wake = self.end(py).wake.take();
            wake.map_or(Ok(()), |wake| call_wake(&self.end, py, wake))
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
                entries.push(Entry::of(key, next));
            }
            self.end(py).queues.clear();
            others.clear();
            entries.into_iter().try_for_each(|entry| self.set(entry))
        })
    }

    fn set_queue_counts(&self, counts: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = counts.py();
        shielded(py, "Appender.set_queue_counts", || {
            let mut found: Vec<(Box<[u8]>, u32)> = vec![];
            for (name, count) in counts.iter() {
                let name: PyBackedStr = name.extract()?;
                found.push((name.as_bytes().into(), count.extract()?));
            }
            self.end(py).queues.set_counts(found);
            Ok(())
        })
    }

    fn queue_count(&self, py: Python<'_>, topic: &str) -> u32 {
        self.end(py).queues.count_of(topic.as_bytes())
    }

    fn take_turns(&self, py: Python<'_>, topic: &str, count: usize) -> (u32, u32) {
        let turn = self.end(py).queues.take_turns(topic.as_bytes(), count);
        (turn.queue_id, turn.count)
    }

    fn next_queue_offset<'py>(&self, key: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        shielded(py, "Appender.next_queue_offset", || {
            let next = queue_of(key).map_or(ELSEWHERE, |(name, queue_id)| {
                self.end(py).queues.next_of(name.as_bytes(), queue_id)
            });
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
                let end = self.end(py);
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
                scratch: GilCell::default(),
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
            let mut entries = vec![];
            for (key, next) in following.iter() {
                entries.push(Entry::of(key.cast_into()?, next));
            }
            let is_alone = last_record_offset == offset;
            let (Active { file, region }, position) = self.target(py, offset)?;
            match region {
                None => call_stores(file.bind(py), position, word, rest, is_alone)?,
                Some(region) => region.write_records(position, word, rest)?,
            }
            {
                let mut end = self.end(py);
                (end.end_offset, end.last_record_offset) = (end_offset, last_record_offset);
            }
            entries.into_iter().try_for_each(|entry| self.set(entry))
        })
    }
}

impl Appender {
    /// The state, borrowed. Python objects are neither made nor dropped before that ends.
    #[inline]
    pub fn end<'a>(&'a self, py: Python<'a>) -> RefMut<'a, LogEnd<Py<PyAny>>> {
        self.end.borrow(py)
    }

    /// Set the next queue offset of a queue.
    fn set(&self, entry: Entry<'_>) -> PyResult<()> {
        let py = entry.key.py();
        let others = self.others.bind(py);
        let Some((name, queue_id)) = entry.queue else {
            return others.set_item(entry.key, entry.next);
        };
        let before = {
            let mut end = self.end(py);
            let before = end.queues.next_of(name.as_bytes(), queue_id);
            end.queues.set_of(name.as_bytes(), queue_id, entry.number);
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

    /// Where in the active file an offset is.
    pub fn target(
        &self,
        py: Python<'_>,
        offset: i64,
    ) -> Result<(Active<Py<PyAny>>, usize), Refusal> {
        let end = self.end(py);
        let active = end.active.as_ref().ok_or(Refusal::NoFile)?;
        let active = Active {
            file: active.file.clone_ref(py),
            region: active.region.clone(),
        };
        Ok((active, end.position_of(offset)?))
    }
}

/// Most limits take the short way.
fn int_of_limit(py: Python<'_>, limit: i128) -> PyResult<Bound<'_, PyAny>> {
    i64::try_from(limit).map_or_else(
        |_| limit.into_bound_py_any(py),
        |short| short.into_bound_py_any(py),
    )
}

/// A queue and its next queue offset, as they are given, and as `Queues` keeps them.
struct Entry<'py> {
    key: Bound<'py, PyTuple>,
    next: Bound<'py, PyAny>,
    queue: Option<(PyBackedStr, i32)>,
    /// `ELSEWHERE` for what only Python can keep.
    number: u64,
}

impl<'py> Entry<'py> {
    fn of(key: Bound<'py, PyTuple>, next: Bound<'py, PyAny>) -> Self {
        let number = next.extract().ok().filter(|&number| number < ELSEWHERE);
        Self {
            queue: queue_of(&key),
            number: number.unwrap_or(ELSEWHERE),
            key,
            next,
        }
    }
}

/// Topic and queue id of a key, if records can have them.
fn queue_of(key: &Bound<'_, PyTuple>) -> Option<(PyBackedStr, i32)> {
    key.extract().ok()
}
