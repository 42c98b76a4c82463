//! Messages of records as queues list them; see `reput_consumequeue.reader.fastpath`.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::derive::window::{Cuts, Parts, is_record};
use crate::read::pieces::PLACE_SIZE;
use crate::read::view::MessageView;
use crate::shared::arrays::array;
use crate::shared::border::{guarded, unlocked};
use crate::shared::bytes::{be_i32, be_i64};
use crate::shared::decline::{Arg, Decline, declined_unless};

/// See `reput_consumequeue.reader.fastpath.sound_messages`.
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
        let chunks = chunks.get()?;
        // Held here: what a list holds, others may exchange.
        let mut held = Vec::with_capacity(chunks.len());
        for chunk in chunks.iter() {
            let chunk = chunk.cast_into::<PyBytes>();
            held.push(chunk.map_err(|_| Decline::ToPython)?);
        }
        let mut found = Vec::new();
        listed.each_sound(py, &held, |chunk, record, offset, _, _| {
            found.push((chunk, record, offset));
        })?;
        let made = found.into_iter().map(|(chunk, record, offset)| {
            MessageView::untracked(py, held[chunk].clone().unbind(), record, offset)
        });
        Ok(made.collect::<PyResult<Vec<_>>>()?)
    })
}

/// See `reput_consumequeue.reader.fastpath.sound_columns`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // they are those of the Python function
pub fn sound_columns<'py>(
    py: Python<'py>,
    records: Arg<Bound<'py, PyBytes>>,
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
    guarded(py, "sound_columns", || {
        let records = [records.get()?];
        let room = listed.count();
        let (mut cuts, mut offsets) = (Cuts::with_capacity(room), Vec::with_capacity(room));
        listed.each_sound(py, &records, |_, place, offset, record, parts| {
            cuts.add(place.start, record, parts);
            offsets.push(offset);
        })?;
        let [places, header] = cuts.matrices(py)?;
        Ok((places, header, array(py, offsets)))
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

impl<'py> Listed<'py> {
    /// How many places there are.
    fn count(&self) -> usize {
        let size = self.0.peek().map_or(0, |places| places.as_bytes().len());
        self.1
            .peek()
            .and_then(|stride| size.checked_div(*stride))
            .unwrap_or(0)
    }

    /// Call `add` with each record up to the first one that is in doubt: its chunk, where it is in
    /// there, its physical offset, its bytes and its parts.
    fn each_sound(
        self,
        py: Python<'py>,
        chunks: &[Bound<'py, PyBytes>],
        add: impl FnMut(usize, Range<usize>, i64, &[u8], &Parts) + Send,
    ) -> Result<(), Decline> {
        let Self(places, stride, topic, queue_id, queue_offset, is_light, after) = self;
        let (places, stride, topic) = (places.get()?, stride.get()?, topic.get()?);
        declined_unless(stride >= PLACE_SIZE)?;
        let bytes: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
        let queue = Queue {
            topic: topic.as_bytes(),
            queue_id: queue_id.get()?,
            queue_offset: queue_offset.get()?,
            is_light: is_light.get()?,
        };
        let (places, after) = (places.as_bytes(), after.get()?);
        let size = bytes.iter().map(|chunk| chunk.len()).sum();
        unlocked(py, size, || {
            queue.each_sound(&bytes, places, stride, after, add);
        });
        Ok(())
    }
}

pub struct Queue<'a> {
    pub topic: &'a [u8],
    pub queue_id: i64,
    pub queue_offset: i64,
    pub is_light: bool,
}

impl Queue<'_> {
    /// See `Listed::each_sound`.
    pub fn each_sound(
        &self,
        chunks: &[&[u8]],
        places: &[u8],
        stride: usize,
        mut after: i64,
        mut add: impl FnMut(usize, Range<usize>, i64, &[u8], &Parts),
    ) {
        let (mut chunk, mut at) = (0, 0);
        for (row, place) in places.chunks_exact(stride).enumerate() {
            while chunks.get(chunk).is_some_and(|bytes| at == bytes.len()) {
                (chunk, at) = (chunk + 1, 0);
            }
            let size = usize::try_from(be_i32(place, 8));
            let Ok(stretch) = size.map(|size| at..at + size) else {
                break;
            };
            let bytes = chunks
                .get(chunk)
                .and_then(|bytes| bytes.get(stretch.clone()));
            let Some(record) = bytes else { break };
            let Some(parts) = self.parts(record, row, &places[row * stride..], stride, after)
            else {
                break;
            };
            (at, after) = (stretch.end, be_i64(place, 0));
            add(chunk, stretch, after, record, &parts);
        }
    }

    /// The parts of a record; `None` where it is in doubt that it is the one that `places` list
    /// first, `row` places behind the queue offset.
    #[inline]
    pub fn parts(
        &self,
        record: &[u8],
        row: usize,
        places: &[u8],
        stride: usize,
        after: i64,
    ) -> Option<Parts> {
        let offset = be_i64(places, 0);
        let is_there = is_record(record)
            && offset > after
            && be_i64(record, 28) == offset
            && self.is_listed(
                record,
                row,
                &places[..PLACE_SIZE],
                places.get(stride..2 * stride),
            );
        let parts = if is_there { Parts::of(record) } else { None };
        parts.filter(|parts| self.is_own(record, parts))
    }

    /// Whether topic and body of a record are those that belong to it.
    fn is_own(&self, record: &[u8], parts: &Parts) -> bool {
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
