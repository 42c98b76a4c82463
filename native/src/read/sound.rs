//! Messages of records as queues list them; see `reput_consumequeue.reading._sound`.

use std::ops::Range;

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
    chunks: Arg<Bound<'py, PyList>>,
    places: Arg<Bound<'py, PyBytes>>,
    stride: Arg<usize>,
    topic: Arg<Bound<'py, PyBytes>>,
    queue_id: Arg<i64>,
    queue_offset: Arg<i64>,
    is_light: Arg<bool>,
    after: Arg<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let listed = Listed(
        places,
        stride,
        topic,
        queue_id,
        queue_offset,
        is_light,
        after,
    );
    guarded(py, "sound_messages", || {
        let (held, found) = listed.sound(py, &chunks.get()?)?;
        let made = found.into_iter().map(|(chunk, record, offset)| {
            Bound::new(
                py,
                MessageView::made(held[chunk].clone().unbind(), record, offset),
            )
        });
        Ok(made.collect::<PyResult<Vec<_>>>()?)
    })
}

/// See `reput_consumequeue.reading._sound.sound_count`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // they are those of the Python function
pub fn sound_count<'py>(
    py: Python<'py>,
    chunks: Arg<Bound<'py, PyList>>,
    places: Arg<Bound<'py, PyBytes>>,
    stride: Arg<usize>,
    topic: Arg<Bound<'py, PyBytes>>,
    queue_id: Arg<i64>,
    queue_offset: Arg<i64>,
    is_light: Arg<bool>,
    after: Arg<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let listed = Listed(
        places,
        stride,
        topic,
        queue_id,
        queue_offset,
        is_light,
        after,
    );
    guarded(py, "sound_count", || {
        Ok(listed.sound(py, &chunks.get()?)?.1.len())
    })
}

/// Arguments of both kernels: places, stride, topic, queue id, queue offset, whether the queue is a
/// light one, and the physical offset before the first message.
struct Listed<'py>(
    Arg<Bound<'py, PyBytes>>,
    Arg<usize>,
    Arg<Bound<'py, PyBytes>>,
    Arg<i64>,
    Arg<i64>,
    Arg<bool>,
    Arg<i64>,
);

/// Which chunk a record is in, where, and its physical offset.
type Found = (usize, Range<usize>, i64);

impl<'py> Listed<'py> {
    /// The chunks, and the records up to the first one that is in doubt.
    fn sound(
        self,
        py: Python<'py>,
        chunks: &Bound<'py, PyList>,
    ) -> Result<(Vec<Bound<'py, PyBytes>>, Vec<Found>), Decline> {
        let Self(places, stride, topic, queue_id, queue_offset, is_light, after) = self;
        let (places, stride, topic) = (places.get()?, stride.get()?, topic.get()?);
        declined_unless(stride >= PLACE_SIZE)?;
        // Held here: what a list holds, others may exchange.
        let mut held = Vec::with_capacity(chunks.len());
        for chunk in chunks.iter() {
            let chunk = chunk.cast_into::<PyBytes>();
            held.push(chunk.map_err(|_| Decline::ToPython)?);
        }
        let bytes: Vec<&[u8]> = held.iter().map(|chunk| chunk.as_bytes()).collect();
        let queue = Queue {
            topic: topic.as_bytes(),
            queue_id: queue_id.get()?,
            queue_offset: queue_offset.get()?,
            is_light: is_light.get()?,
        };
        let (places, after) = (places.as_bytes(), after.get()?);
        let size = bytes.iter().map(|chunk| chunk.len()).sum();
        let found = unlocked(py, size, || queue.sound(&bytes, places, stride, after));
        Ok((held, found))
    }
}

struct Queue<'a> {
    topic: &'a [u8],
    queue_id: i64,
    queue_offset: i64,
    is_light: bool,
}

impl Queue<'_> {
    /// The records, up to the first one that is in doubt.
    fn sound(&self, chunks: &[&[u8]], places: &[u8], stride: usize, mut after: i64) -> Vec<Found> {
        let mut found = Vec::with_capacity(places.len() / stride);
        let (mut chunk, mut at) = (0, 0);
        for (row, place) in places.chunks_exact(stride).enumerate() {
            while chunks.get(chunk).is_some_and(|bytes| at == bytes.len()) {
                (chunk, at) = (chunk + 1, 0);
            }
            let (offset, size) = (be_i64(place, 0), be_i32(place, 8));
            let record = usize::try_from(size).map(|size| at..at + size);
            let Ok(stretch) = record else { break };
            let bytes = chunks
                .get(chunk)
                .and_then(|bytes| bytes.get(stretch.clone()));
            let following = places.get((row + 1) * stride..(row + 2) * stride);
            let is_sound = bytes.is_some_and(|record| {
                let is_there = is_record(record)
                    && offset > after
                    && be_i64(record, 28) == offset
                    && self.is_listed(record, row, &place[..PLACE_SIZE], following);
                is_there && Parts::of(record).is_some_and(|parts| self.is_own(record, parts))
            });
            if !is_sound {
                break;
            }
            (at, after) = (stretch.end, offset);
            found.push((chunk, stretch, offset));
        }
        found
    }

    /// Whether topic and body of a record are those that belong to it.
    fn is_own(&self, record: &[u8], parts: Parts) -> bool {
        let name = &record[parts.topic..parts.topic + parts.topic_size];
        (self.is_light || name == self.topic) && parts.body_matches(record)
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
