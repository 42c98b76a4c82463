//! The growing end of the log; see `reput.log.writing.appender`, whose words are not repeated here.
//!
//! Between what a method does to the log and to its counts no Python code runs, and the interpreter
//! lock is held: what Python's `Appender` calls one step is one step here.

use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyString, PyTuple};

use crate::encode::limits::Limits;
use crate::encode::message::{bytes, integer, text};
use crate::encode::record::{BLANK_MAGIC, BLANK_MIN_SIZE};
use crate::put::putter::Putter;
use crate::put::queues::Queues;
use crate::put::target::{Target, call_stores};

#[pyclass(module = "reput_native")]
pub struct Appender {
    #[pyo3(get)]
    pub(super) end_offset: i64,
    #[pyo3(get)]
    pub(super) last_record_offset: i64,
    #[pyo3(get)]
    pub(super) base_offset: i64,
    #[pyo3(get)]
    pub(super) file_limit: i64,
    #[pyo3(get)]
    pub(super) record_limit: i64,
    #[pyo3(get, set)]
    pub(super) is_appending: bool,
    #[pyo3(get)]
    pub(super) file: Option<Py<PyAny>>,
    pub(super) target: Option<Target>,
    pub(super) file_size: i64,
    pub(super) is_refused: bool,
    pub(super) wake: Option<Py<PyAny>>,
    pub(super) queues: Queues,
    /// What messages that are put at once are encoded with; `None` where none is.
    pub(super) at_once: Option<Limits>,
    pub(super) scratch: Vec<u8>,
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
        Ok(Self {
            end_offset,
            last_record_offset,
            base_offset: 0,
            file_limit: -1,
            record_limit: -1,
            is_appending: false,
            file: None,
            target: None,
            file_size: 0,
            is_refused: true,
            wake: None,
            queues: Queues::new(),
            // A clock of the caller's is Python code, which cannot run in one step.
            at_once: if clock.is_some() {
                None
            } else {
                Limits::of(encoder)?
            },
            scratch: vec![],
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.file)?;
        visit.call(&self.wake)
    }

    fn __clear__(&mut self) {
        self.target = None;
        self.file = None;
        self.wake = None;
    }

    // ------------------------------------------------------------------ the active file

    fn begin_file(slf: &Bound<'_, Self>, file: &Bound<'_, PyAny>, end_offset: i64) -> PyResult<()> {
        let base_offset: i64 = file.getattr("base_offset")?.extract()?;
        let size: i64 = file.getattr("size")?.extract()?;
        let target = Target::of(file)?;
        let called = {
            let this = slf.try_borrow()?;
            if this.is_refused {
                return Err(PyValueError::new_err("appends are refused"));
            }
            let position = this.end_offset - this.base_offset;
            let mut head = [0; 8];
            let left = i32::try_from((this.file_size - position).max(0)).unwrap_or(i32::MAX);
            head[..4].copy_from_slice(&left.to_be_bytes());
            head[4..].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
            match &this.target {
                Some(Target::Mapped { mapped, .. }) => {
                    mapped.write_blank(usize::try_from(position)?, &head);
                    None
                }
                Some(Target::Called(map)) => Some((map.clone_ref(slf.py()), position, head)),
                None => None,
            }
        };
        if let Some((map, position, head)) = called {
            let map = map.bind(slf.py());
            call_stores(
                map,
                usize::try_from(position)?,
                &head[..4],
                &head[4..],
                true,
            )?;
        }
        let mut this = slf.try_borrow_mut()?;
        let old = (
            this.target.replace(target),
            this.file.replace(file.clone().unbind()),
        );
        this.base_offset = base_offset;
        this.file_size = size;
        this.file_limit = base_offset + size - BLANK_MIN_SIZE;
        this.record_limit = -1;
        this.end_offset = end_offset;
        drop(this);
        drop(old); // whose destructors may ask for what is borrowed above
        Ok(())
    }

    fn allow(&mut self) {
        self.is_refused = false;
    }

    fn refuse(&mut self) {
        self.is_refused = true;
        self.record_limit = -1;
        self.file_limit = -1;
    }

    fn move_record_limit(&mut self, limit: i64) {
        if !self.is_refused {
            self.record_limit = limit;
        }
    }

    fn let_go(slf: &Bound<'_, Self>) -> PyResult<()> {
        let mut this = slf.try_borrow_mut()?;
        let old = (this.target.take(), this.file.take());
        drop(this);
        drop(old);
        Ok(())
    }

    // ------------------------------------------------------------------ the reader

    fn move_end(&mut self, end_offset: i64) {
        self.end_offset = end_offset;
    }

    fn ask_to_wake(slf: &Bound<'_, Self>, wake: Py<PyAny>) -> PyResult<()> {
        let old = slf.try_borrow_mut()?.wake.replace(wake);
        drop(old);
        Ok(())
    }

    pub(super) fn call_wake(slf: &Bound<'_, Self>) -> PyResult<()> {
        let wake = slf.try_borrow_mut()?.wake.take();
        let Some(wake) = wake else { return Ok(()) };
        match wake.bind(slf.py()).call0() {
            Ok(_) => Ok(()),
            Err(error) => {
                slf.try_borrow_mut()?.wake = Some(wake);
                Err(error)
            }
        }
    }

    // ------------------------------------------------------------------ queue offsets

    fn start_queues(slf: &Bound<'_, Self>, queue_offsets: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut queues = Queues::new();
        for item in queue_offsets.call_method0("items")?.try_iter()? {
            let (key, next): (Bound<'_, PyTuple>, u64) = item?.extract()?;
            let (name, queue_id) = key_of(&key)?;
            let number = queues.number(&name);
            queues.set(number, queue_id, next);
        }
        slf.try_borrow_mut()?.queues = queues;
        Ok(())
    }

    fn next_queue_offset(slf: &Bound<'_, Self>, key: &Bound<'_, PyTuple>) -> PyResult<u64> {
        match key_of(key) {
            Ok((name, queue_id)) => Ok(slf.try_borrow()?.queues.next_of(&name, queue_id)),
            // No queue has such a number; who encodes the message says so.
            Err(error) if error.is_instance_of::<PyOverflowError>(slf.py()) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn queue_offsets<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(slf.py());
        let this = slf.try_borrow()?;
        for (name, queue_id, next) in this.queues.all() {
            found.set_item((name_of(slf.py(), name)?, queue_id), next)?;
        }
        Ok(found)
    }

    // ------------------------------------------------------------------ records

    fn put_at_once<'py>(
        slf: &Bound<'py, Self>,
        log: &Bound<'py, PyAny>,
        topics: &Bound<'py, PyAny>,
        properties: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if slf.try_borrow()?.at_once.is_none() {
            return Ok(None);
        }
        let putter = Putter {
            appender: slf.clone().unbind(),
            log: log.clone().unbind(),
            topics: topics.cast_exact::<PyFrozenSet>()?.clone().unbind(),
            properties: properties.cast_exact::<PyFrozenSet>()?.clone().unbind(),
        };
        Bound::new(slf.py(), putter)?.getattr("put").map(Some)
    }

    fn publish(
        slf: &Bound<'_, Self>,
        offset: i64,
        word: &Bound<'_, PyAny>,
        rest: &Bound<'_, PyAny>,
        last_record_offset: i64,
        following: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let rest = match rest.cast_exact::<PyBytes>() {
            Ok(rest) => rest.clone(),
            Err(_) => rest.call_method0("tobytes")?.cast_into()?,
        };
        let Some(word) = bytes(word.as_borrowed()) else {
            return Err(PyTypeError::new_err("a word of four bytes expected"));
        };
        let rest = rest.as_bytes();
        let following = following
            .iter()
            .map(|(key, next)| {
                let (name, queue_id) = key_of(key.cast::<PyTuple>()?)?;
                Ok((name, queue_id, next.extract::<u64>()?))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let is_alone = last_record_offset == offset;
        Self::store(slf, offset, word, rest, is_alone)?;
        let mut this = slf.try_borrow_mut()?;
        this.end_offset = offset + (word.len() + rest.len()) as i64;
        this.last_record_offset = last_record_offset;
        for (name, queue_id, next) in following {
            let number = this.queues.number(&name);
            this.queues.set(number, queue_id, next);
        }
        Ok(())
    }
}

impl Appender {
    /// Write whole records, without counting them.
    ///
    /// A called map is Python code, so the log's lock has to be held.
    pub fn store(
        slf: &Bound<'_, Self>,
        offset: i64,
        word: &[u8],
        rest: &[u8],
        is_alone: bool,
    ) -> PyResult<()> {
        let this = slf.try_borrow()?;
        let position = usize::try_from(offset - this.base_offset)?;
        match &this.target {
            None => Err(let_go_of()),
            Some(Target::Mapped { mapped, .. }) => {
                let whole = [word, rest].concat();
                mapped
                    .write_records(position, &whole)
                    .then_some(())
                    .ok_or_else(out_of_room)
            }
            Some(Target::Called(map)) => {
                let map = map.clone_ref(slf.py());
                drop(this);
                call_stores(map.bind(slf.py()), position, word, rest, is_alone)
            }
        }
    }

    /// The position in the active file where the log ends.
    pub fn position(&self) -> usize {
        usize::try_from(self.end_offset - self.base_offset).unwrap_or(usize::MAX)
    }
}

/// Topic and queue id of a key. Names of directories may hold what is no UTF-8.
fn key_of(key: &Bound<'_, PyTuple>) -> PyResult<(Vec<u8>, i64)> {
    let (name, queue_id) = (key.get_item(0)?, key.get_item(1)?);
    let queue_id = match integer(queue_id.as_borrowed()) {
        Some(found) => found,
        None => queue_id.extract()?,
    };
    if let Some(name) = text(name.as_borrowed()) {
        return Ok((name.as_bytes().to_vec(), queue_id));
    }
    let encoded = name.call_method1("encode", ("utf-8", "surrogatepass"))?;
    Ok((encoded.extract()?, queue_id))
}

fn name_of<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(name) {
        Ok(name) => Ok(PyString::new(py, name).into_any()),
        Err(_) => PyBytes::new(py, name).call_method1("decode", ("utf-8", "surrogatepass")),
    }
}

pub fn let_go_of() -> PyErr {
    PyAttributeError::new_err("there is no active file")
}

pub fn out_of_room() -> PyErr {
    PyValueError::new_err("records do not fit into the active file")
}
