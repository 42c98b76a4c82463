//! Messages of records as queues list them; see `reput_consumequeue.reading._sound`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::derive::window::{Parts, is_record};
use crate::read::pieces::PLACE_SIZE;
use crate::read::view::MessageView;
use crate::shared::border::{guarded, unlocked};
use crate::shared::bytes::{be_i32, be_i64};
use crate::shared::decline::{Arg, Decline, declined_unless};

/// See `reput_consumequeue.reading._sound.sound_messages`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // they are those of the Python function
pub fn sound_messages<'py>(
    py: Python<'py>,
    records: Arg<Bound<'py, PyList>>,
    places: Arg<Bound<'py, PyBytes>>,
    stride: Arg<usize>,
    topic: Arg<Bound<'py, PyBytes>>,
    queue_id: Arg<i64>,
    queue_offset: Arg<i64>,
    is_light: Arg<bool>,
    after: Arg<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "sound_messages", || {
        let (records, stride, after) = (records.get()?, stride.get()?, after.get()?);
        let (places, topic) = (places.get()?, topic.get()?);
        let (places, topic) = (places.as_bytes(), topic.as_bytes());
        declined_unless(stride >= PLACE_SIZE && records.len() <= places.len() / stride)?;
        // Held here: what a list holds, others may exchange.
        let mut held = Vec::with_capacity(records.len());
        for record in records.iter() {
            let record = record.cast_into::<PyBytes>();
            held.push(record.map_err(|_| Decline::ToPython)?);
        }
        let bytes: Vec<&[u8]> = held.iter().map(|record| record.as_bytes()).collect();
        let queue = Queue {
            topic,
            queue_id: queue_id.get()?,
            queue_offset: queue_offset.get()?,
            is_light: is_light.get()?,
        };
        let size = bytes.iter().map(|record| record.len()).sum();
        let found = unlocked(py, size, || queue.sound(&bytes, places, stride, after));
        let mut messages = Vec::with_capacity(found.len());
        for (record, (offset, parts)) in held.into_iter().zip(found) {
            let view = MessageView::made(record.unbind(), offset, Some(parts));
            messages.push(Bound::new(py, view)?);
        }
        Ok(messages)
    })
}

struct Queue<'a> {
    topic: &'a [u8],
    queue_id: i64,
    queue_offset: i64,
    is_light: bool,
}

impl Queue<'_> {
    /// Physical offset and parts of each record, up to the first one that is in doubt.
    fn sound(
        &self,
        records: &[&[u8]],
        places: &[u8],
        stride: usize,
        mut after: i64,
    ) -> Vec<(i64, Parts)> {
        let mut found = Vec::with_capacity(records.len());
        found.extend(records.iter().enumerate().map_while(|(row, record)| {
            let place = &places[row * stride..row * stride + PLACE_SIZE];
            let following = places.get((row + 1) * stride..(row + 2) * stride);
            let offset = be_i64(place, 0);
            let is_there = is_record(record)
                && offset > after
                && i64::from(be_i32(place, 8)) == record.len() as i64
                && be_i64(record, 28) == offset
                && self.is_listed(record, row, place, following);
            let parts = is_there.then(|| Parts::of(record)).flatten()?;
            let name = &record[parts.topic..parts.topic + parts.topic_size];
            let is_sound = (self.is_light || name == self.topic) && parts.body_matches(record);
            after = offset;
            is_sound.then_some((offset, parts))
        }));
        found
    }

    /// Whether a record states the place at which the queue lists it, as far as it has to.
    fn is_listed(&self, record: &[u8], row: usize, place: &[u8], next: Option<&[u8]>) -> bool {
        let is_at_its_place = be_i64(record, 20) == self.queue_offset.wrapping_add(row as i64);
        if !self.is_light {
            return is_at_its_place && i64::from(be_i32(record, 12)) == self.queue_id;
        }
        // The unit of a message that is missing repeats the unit behind it.
        let is_other = |next: &[u8]| be_i64(next, 0) >= 0 && next[..PLACE_SIZE] != *place;
        is_at_its_place || next.is_some_and(is_other)
    }
}
