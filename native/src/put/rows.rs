//! Many messages at once; see `reput.log.writing.rows` and `reput.record.encoding.many`.

use std::collections::HashMap;

use numpy::PyArray1;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::encode::limits::Limits;
use crate::encode::message::{Fields, Numbers, bytes, text};
use crate::encode::propertytext::PropertyText;
use crate::encode::record::{NamedTopic, Record, body_crc, takes_queue_offset};
use crate::put::appender::Appender;
use crate::put::columns::Columns;
use crate::shared::arrays::array;
use crate::shared::border::{guarded, unlocked};
use crate::shared::folding::Folding;

/// Messages that passed all checks, encoded except for their positions in the log.
#[pyclass(module = "reput_native", frozen)]
pub struct Rows {
    pub(super) rows: Vec<Row>,
    topics: Vec<NamedTopic>,
    texts: Vec<u8>,
    pub(super) queues: Vec<Queue>,
    pub(super) store_host: [u8; 8],
    /// What the bodies of `rows` point into.
    _held: Held,
    #[pyo3(get, name = "topics")]
    names: Py<PyList>,
    #[pyo3(get)]
    queue_id: Py<PyArray1<i64>>,
    #[pyo3(get)]
    size: Py<PyArray1<i64>>,
}

pub struct Row {
    pub(super) numbers: Numbers,
    pub(super) topic: u32,
    pub(super) queue: u32,
    pub(super) text: usize,
    pub(super) text_size: usize,
    body: Body,
    pub(super) body_crc: u32,
}

/// Objects and buffers whose bytes must stay where they are.
#[derive(Default)]
pub struct Held {
    pub objects: Vec<Py<PyAny>>,
    pub buffers: Vec<PyBuffer<u8>>,
}

/// A queue of some of the rows.
pub struct Queue {
    pub(super) name: Box<[u8]>,
    pub(super) queue_id: i64,
}

/// Bytes of an object that is held as long as its `Rows`.
#[derive(Clone, Copy)]
struct Body {
    begin: *const u8,
    size: usize,
}

// SAFETY: the bytes are those of an object that cannot change, and that is held.
unsafe impl Send for Body {}
// SAFETY: likewise.
unsafe impl Sync for Body {}

impl Body {
    fn of(body: &[u8]) -> Self {
        let (begin, size) = (body.as_ptr(), body.len());
        Self { begin, size }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: see above.
        unsafe { std::slice::from_raw_parts(self.begin, self.size) }
    }
}

impl Row {
    #[inline]
    pub(super) fn record<'a>(&'a self, rows: &'a Rows) -> Record<'a> {
        Record {
            numbers: self.numbers,
            topic: &rows.topics[self.topic as usize],
            body: self.body.bytes(),
            body_crc: self.body_crc,
            properties: &rows.texts[self.text..self.text + self.text_size],
        }
    }
}

#[pymethods]
impl Rows {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    /// See `PreparedMany.mapped_size`: chunks are written through the file, mostly.
    fn mapped_size(&self, _first: usize) -> usize {
        0
    }
}

/// Rows that are being made, one after the other.
struct Making<'py> {
    body_max: usize,
    rows: Vec<Row>,
    topics: Vec<NamedTopic>,
    topic_of: HashMap<Box<[u8]>, u32, Folding>,
    texts: Vec<u8>,
    queues: Vec<Queue>,
    queue_of: HashMap<(u32, i32), u32, Folding>,
    names: Bound<'py, PyList>,
    /// The topic's object of the row before, which `names` holds, and that topic's number.
    last: (*mut ffi::PyObject, u32),
}

impl<'py> Making<'py> {
    fn begin(py: Python<'py>, body_max: usize, count: usize) -> Self {
        Self {
            body_max,
            rows: Vec::with_capacity(count),
            topics: vec![],
            topic_of: HashMap::with_hasher(Folding::new()),
            texts: Vec::with_capacity(count * 96),
            queues: vec![],
            queue_of: HashMap::with_hasher(Folding::new()),
            names: PyList::empty(py),
            last: (std::ptr::null_mut(), 0),
        }
    }

    /// Add a row; `None` where Python has to look at it.
    #[inline]
    fn add(
        &mut self,
        topic: &Bound<'py, PyAny>,
        body: &[u8],
        numbers: Numbers,
        write_text: impl FnOnce(&mut PropertyText<'_>) -> Option<()>,
    ) -> Option<()> {
        if body.len() > self.body_max {
            return None;
        }
        let topic_number = self.topic(topic)?;
        let queues = &mut self.queues;
        let topics = &self.topics;
        let queue_id = numbers.queue_id;
        let queue = *self
            .queue_of
            .entry((topic_number, queue_id))
            .or_insert_with(|| {
                let name = topics[topic_number as usize].name().into();
                queues.push(Queue {
                    name,
                    queue_id: queue_id.into(),
                });
                queues.len() as u32 - 1
            });
        let begin = self.texts.len();
        let mut property_text = PropertyText::begin(&mut self.texts);
        write_text(&mut property_text)?;
        let text_size = property_text.end()?;
        self.rows.push(Row {
            numbers,
            topic: topic_number,
            queue,
            text: begin,
            text_size,
            body: Body::of(body),
            body_crc: 0,
        });
        self.names.append(topic).ok()
    }

    #[inline]
    fn topic(&mut self, topic: &Bound<'py, PyAny>) -> Option<u32> {
        if topic.as_ptr() == self.last.0 {
            return Some(self.last.1);
        }
        let name = text(topic.as_borrowed())?.as_bytes();
        let number = match self.topic_of.get(name) {
            Some(&number) => number,
            None => {
                let number = u32::try_from(self.topics.len()).ok()?;
                self.topics.push(NamedTopic::of(name)?);
                self.topic_of.insert(name.into(), number);
                number
            }
        };
        self.last = (topic.as_ptr(), number);
        Some(number)
    }

    /// All rows, with what they point into.
    fn end(mut self, store_host: [u8; 8], held: Held) -> PyResult<Bound<'py, Rows>> {
        let py = self.names.py();
        let size_of_bodies = self.rows.iter().map(|row| row.body.size).sum();
        let rows = &mut self.rows;
        unlocked(py, size_of_bodies, || {
            for row in rows {
                row.body_crc = body_crc(row.body.bytes());
            }
        });
        let queue_id = self
            .rows
            .iter()
            .map(|row| row.numbers.queue_id.into())
            .collect();
        let mut made = Rows {
            rows: self.rows,
            topics: self.topics,
            texts: self.texts,
            queues: self.queues,
            store_host,
            _held: held,
            names: self.names.unbind(),
            queue_id: array(py, queue_id).unbind(),
            size: array(py, vec![]).unbind(),
        };
        let size = made
            .rows
            .iter()
            .map(|row| row.record(&made).size() as i64)
            .collect();
        made.size = array(py, size).unbind();
        Bound::new(py, made)
    }
}

/// See `reput.log.writing.rows.rows_of_messages`.
#[pyfunction]
pub fn rows_of_messages<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    encoder: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "rows_of_messages", || {
        let Some(limits) = Limits::of(encoder)? else {
            return Ok(None);
        };
        let Some((making, held)) = made_of_messages(py, messages, limits.body_max) else {
            return Ok(None);
        };
        Ok(Some(making.end(limits.store_host, held)?.into_any()))
    })
}

fn made_of_messages<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    body_max: usize,
) -> Option<(Making<'py>, Held)> {
    let messages = match messages.cast_exact::<PyList>() {
        Ok(messages) => messages.clone(),
        Err(_) => messages.cast_exact::<PyTuple>().ok()?.to_list(),
    };
    let mut making = Making::begin(py, body_max, messages.len());
    let mut held = Held::default();
    held.objects.reserve(messages.len());
    for message in messages.iter() {
        let fields = Fields::of(&message)?;
        let topic = fields.topic().to_owned();
        let body = fields.body();
        held.objects.push(body.to_owned().unbind());
        making.add(&topic, bytes(body)?, fields.numbers()?, |text| {
            text.keys(fields.keys())?;
            text.tags(fields.tags())?;
            text.properties(fields.properties())
        })?;
    }
    (!making.rows.is_empty()).then_some((making, held))
}

/// See `reput.log.writing.rows.rows_of_columns`.
#[pyfunction]
pub fn rows_of_columns<'py>(
    py: Python<'py>,
    columns: &Bound<'py, PyAny>,
    encoder: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "rows_of_columns", || {
        let Some(limits) = Limits::of(encoder)? else {
            return Ok(None);
        };
        let Some(columns) = Columns::of(columns)? else {
            return Ok(None);
        };
        let mut making = Making::begin(py, limits.body_max, columns.count);
        let mut held = Held::default();
        for row in 0..columns.count {
            let added = columns.row(row, &mut held, |topic, body, numbers, write_text| {
                making.add(topic, body, numbers, write_text)
            });
            if added.is_none() {
                return Ok(None);
            }
        }
        columns.into_held(&mut held);
        Ok(Some(making.end(limits.store_host, held)?.into_any()))
    })
}

/// See `reput.log.writing.rows.queue_offsets_of_rows`.
#[pyfunction]
pub fn queue_offsets_of_rows<'py>(
    py: Python<'py>,
    appender: &Bound<'py, PyAny>,
    prepared: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "queue_offsets_of_rows", || {
        let Ok(prepared) = prepared.cast_exact::<Rows>() else {
            return Ok(None);
        };
        let rows = prepared.get();
        let mut next: Vec<u64> = {
            let appender = appender.cast_exact::<Appender>()?.try_borrow()?;
            let next_of = |queue: &Queue| appender.queues.next_of(&queue.name, queue.queue_id);
            rows.queues.iter().map(next_of).collect()
        };
        let offsets = rows.rows.iter().map(|row| {
            if !takes_queue_offset(row.numbers.sys_flag) {
                return Ok(0);
            }
            let next = &mut next[row.queue as usize];
            let offset = i64::try_from(*next).map_err(|_| too_large())?;
            *next += 1;
            Ok(offset)
        });
        let offsets = offsets.collect::<PyResult<Vec<i64>>>()?;
        Ok(Some(array(py, offsets).into_any()))
    })
}

/// What numpy raises for a number that a column cannot hold.
fn too_large() -> PyErr {
    PyOverflowError::new_err("Python int too large to convert to C long")
}
