//! The growing end of the log; see `reput.log.writing.appender`, whose words are not repeated here.
//!
//! Between what a method does to the log and to its counts no Python code runs, and the interpreter
//! lock is held: what Python's `Appender` calls one step is one step here.

use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyString, PyTuple, PyType};

use crate::border::{Answer, guarded};
use crate::interest::{is_among, is_one_among};
use crate::limits::Limits;
use crate::message::{Fields, bytes, integer, text};
use crate::propertytext::PropertyText;
use crate::queues::Queues;
use crate::record::{BLANK_MAGIC, BLANK_MIN_SIZE, Place, Record, body_crc, takes_queue_offset};
use crate::target::{Target, call_stores};

const BODY_MAX: usize = 64 << 10; // larger ones are copied without the interpreter lock, by rows

#[pyclass(module = "reput_native")]
pub struct Appender {
    #[pyo3(get)]
    pub end_offset: i64,
    #[pyo3(get)]
    pub last_record_offset: i64,
    #[pyo3(get)]
    base_offset: i64,
    #[pyo3(get)]
    pub file_limit: i64,
    #[pyo3(get)]
    record_limit: i64,
    #[pyo3(get, set)]
    is_appending: bool,
    #[pyo3(get)]
    file: Option<Py<PyAny>>,
    pub target: Option<Target>,
    file_size: i64,
    is_refused: bool,
    wake: Option<Py<PyAny>>,
    pub queues: Queues,
    /// What messages that are put at once are encoded with; `None` where none is.
    at_once: Option<Limits>,
    pub scratch: Vec<u8>,
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
                Some(Target::Mapped(mapped, _)) => {
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

    fn call_wake(slf: &Bound<'_, Self>) -> PyResult<()> {
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
            let (key, next): (Bound<'_, PyTuple>, i64) = item?.extract()?;
            let (name, queue_id) = key_of(&key)?;
            let number = queues.number(&name);
            queues.set(number, queue_id, next);
        }
        slf.try_borrow_mut()?.queues = queues;
        Ok(())
    }

    fn next_queue_offset(slf: &Bound<'_, Self>, key: &Bound<'_, PyTuple>) -> PyResult<i64> {
        let (name, queue_id) = key_of(key)?;
        Ok(slf.try_borrow()?.queues.next_of(&name, queue_id))
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
                Ok((name, queue_id, next.extract::<i64>()?))
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
            Some(Target::Mapped(mapped, _)) => {
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

/// Puts messages of one store in one step; see `PutAtOnce` of Python's module.
#[pyclass(module = "reput_native", frozen)]
struct Putter {
    appender: Py<Appender>,
    log: Py<PyAny>,
    topics: Py<PyFrozenSet>,
    properties: Py<PyFrozenSet>,
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
        let Some(Target::Mapped(mapped, _)) = &this.target else {
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
            this.queues.next(number, queue_id)
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
            this.queues.set(number, queue_id, queue_offset + 1);
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
