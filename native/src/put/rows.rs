//! Many messages at once; see `reput.log.writer.appender` and `reput.record.encoding.batchencoder`.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{Borrowed, ffi};

use crate::encode::limits::Limits;
use crate::encode::message::{Fields, NO_QUEUE, Numbers, NumbersBefore, item, list_of, text};
use crate::encode::propertytext::PropertyText;
use crate::put::appender::Appender;
use crate::put::body::Body;
use crate::put::columns::Columns;
use crate::put::queues::Turn;
use crate::put::region::MANY;
use crate::put::table::{Table, TableBuilder};
use crate::shared::arrays::array;
use crate::shared::border::guarded;
use crate::shared::decline::{Arg, Decline, Stop, declined_unless, room};

const TOPICS: usize = 16; // places for objects

/// Messages that passed all checks, encoded except for their positions in the log.
#[pyclass(module = "reput_native", frozen)]
pub struct Rows {
    pub(super) table: Table<Body>,
    #[pyo3(get, name = "topics")]
    names: Py<PyList>,
    #[pyo3(get)]
    queue_id: Py<PyArray1<i64>>,
    #[pyo3(get)]
    size: Py<PyArray1<i64>>,
    /// See `PreparedMany.largest`.
    #[pyo3(get)]
    largest: usize,
}

#[pymethods]
impl Rows {
    fn __len__(&self) -> usize {
        self.table.rows.len()
    }

    /// See `PreparedMany.size_from`.
    fn size_from(&self, first: usize) -> usize {
        let rows = self.table.rows.iter().skip(first);
        rows.map(|row| self.table.record(row).size()).sum()
    }

    /// See `PreparedMany.mapped_size`: many bytes are written through the file.
    fn mapped_size(&self, first: usize) -> usize {
        let rows = self.table.rows.iter().skip(first);
        let mut sizes = rows.map(|row| self.table.record(row).size());
        let size = sizes.try_fold(0, |sum, size| Some(sum + size).filter(|&sum| sum < MANY));
        size.unwrap_or(0)
    }
}

/// Rows that are being made, one after the other.
struct RowsBuilder<'py> {
    table: TableBuilder<Body>,
    names: Bound<'py, PyList>,
    /// Objects of topics, which `names` holds, each in one of few places, and their numbers.
    topics: [(*mut ffi::PyObject, u32); TOPICS],
    appender: Bound<'py, Appender>,
    /// By the number of the topic, for rows without a queue.
    turns: Vec<Option<Turns>>,
}

/// Whose turn it is, and how many rows have taken one.
struct Turns {
    next: Turn,
    taken: usize,
}

impl<'py> RowsBuilder<'py> {
    fn new(
        limits: &Limits,
        count: usize,
        appender: &Bound<'py, Appender>,
    ) -> Result<Self, Decline> {
        let py = appender.py();
        Ok(Self {
            table: TableBuilder::new(count, limits.body_max, limits.store_host)?,
            names: PyList::empty(py),
            topics: [(std::ptr::null_mut(), 0); TOPICS],
            appender: appender.clone(),
            turns: vec![],
        })
    }

    /// The queue whose turn it is to get a message of a topic.
    fn take_turn(&mut self, topic: u32, name: &[u8]) -> Result<i32, Decline> {
        let place = topic as usize;
        if place >= self.turns.len() {
            self.turns.try_reserve(place + 1 - self.turns.len())?;
            self.turns.resize_with(place + 1, || None);
        }
        let turns = self.turns[place].get_or_insert_with(|| {
            let end = self.appender.get().end(self.appender.py());
            let next = end.queues.turn(end.queues.find(name), name);
            Turns { next, taken: 0 }
        });
        let queue_id = turns.next.queue_id;
        turns.next = turns.next.after(1);
        turns.taken += 1;
        i32::try_from(queue_id).map_err(|_| Decline::ToPython)
    }

    #[inline]
    fn add(
        &mut self,
        topic: Borrowed<'_, 'py, PyAny>,
        body: Body,
        mut numbers: Numbers,
        write_text: impl FnOnce(&mut PropertyText<'_>) -> Result<(), Decline>,
    ) -> Result<(), Stop> {
        let object = topic.as_ptr();
        let known = &mut self.topics[((object as usize / 16) ^ (object as usize / 256)) % TOPICS];
        if object != known.0 {
            *known = (object, self.table.topic(text(topic)?.as_bytes())?);
        }
        let number = known.1;
        if numbers.queue_id == NO_QUEUE {
            numbers.queue_id = self.take_turn(number, text(topic)?.as_bytes())?;
        }
        // Held from here on, so that no other topic gets this one's place in memory.
        self.names.append(topic)?;
        Ok(self.table.add(number, body, numbers, write_text)?)
    }

    fn end(self) -> Result<Rows, Stop> {
        let py = self.names.py();
        for (number, turns) in (0..).zip(&self.turns) {
            if let Some(turns) = turns {
                let name = self.table.name(number);
                self.appender
                    .get()
                    .end(py)
                    .queues
                    .take_turns(name, turns.taken);
            }
        }
        let table = self.table.end();
        let mut queue_id = room(table.rows.len()).map_err(Decline::from)?;
        let (mut size, mut largest) = (room(table.rows.len()).map_err(Decline::from)?, 0);
        for row in &table.rows {
            let of_row = table.record(row).size();
            largest = of_row.max(largest);
            queue_id.push(i64::from(row.numbers.queue_id));
            size.push(of_row as i64);
        }
        Ok(Rows {
            table,
            names: self.names.unbind(),
            queue_id: array(py, queue_id).unbind(),
            size: array(py, size).unbind(),
            largest,
        })
    }
}

/// See `reput.log.writer.appender.rows_of_messages`.
#[pyfunction]
pub fn rows_of_messages<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    encoder: &Bound<'py, PyAny>,
    appender: Arg<Bound<'py, Appender>>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "rows_of_messages", || {
        let limits = Limits::of(encoder)?.ok_or(Decline::ToPython)?;
        let messages = list_of(messages)?;
        declined_unless(!messages.is_empty())?;
        let mut rows = RowsBuilder::new(&limits, messages.len(), &appender.get()?)?;
        let mut before = NumbersBefore::default();
        for place in 0..messages.len() {
            let message = item(&messages, place)?;
            let fields = Fields::of(&message)?;
            let (body, numbers) = (Body::whole(&fields.body)?, before.of(&fields)?);
            rows.add(fields.topic, body, numbers, |text| {
                text.keys(fields.keys)?;
                text.tags(fields.tags)?;
                text.properties(fields.properties)
            })?;
        }
        rows.end()
    })
}

/// See `reput.log.writer.appender.rows_of_columns`.
#[pyfunction]
pub fn rows_of_columns<'py>(
    py: Python<'py>,
    columns: &Bound<'py, PyAny>,
    encoder: &Bound<'py, PyAny>,
    appender: Arg<Bound<'py, Appender>>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "rows_of_columns", || {
        let limits = Limits::of(encoder)?.ok_or(Decline::ToPython)?;
        let columns = Columns::of(columns)?;
        let mut rows = RowsBuilder::new(&limits, columns.count, &appender.get()?)?;
        for row in 0..columns.count {
            let (topic, body) = (columns.topic(row)?, columns.body(row)?);
            rows.add(topic, body, columns.numbers(row)?, |text| {
                columns.write_text(row, text)
            })?;
        }
        rows.end()
    })
}

/// See `reput.log.writer.appender.queue_offsets_of_rows`.
#[pyfunction]
pub fn queue_offsets_of_rows<'py>(
    py: Python<'py>,
    appender: &Bound<'py, Appender>,
    prepared: Arg<Bound<'py, Rows>>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "queue_offsets_of_rows", || {
        let prepared = prepared.get()?;
        let offsets = prepared
            .get()
            .table
            .queue_offsets(&appender.get().end(py))?;
        Ok(array(py, offsets))
    })
}
