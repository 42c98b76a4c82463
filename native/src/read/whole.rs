//! A whole read of a queue in one call; see `reput_consumequeue.reader.mappedread`.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::derive::window::{Cuts, Parts};
use crate::read::pieces::{Bounds, PLACE_SIZE, Plan};
use crate::read::sound::Queue;
use crate::read::view::MessageView;
use crate::shared::arrays::{Column, array};
use crate::shared::border::{guarded, unlocked};
use crate::shared::bytes::{be_i32, be_i64};
use crate::shared::decline::{Arg, Decline, declined_unless, room};

/// Bytes of the log, and the physical offset of the first.
type Mapped<'py> = (Bound<'py, PyAny>, i64);
/// Messages, bytes of records, bytes of one record, bytes that share memory; most of each.
type Limits = (usize, i64, i64, i64);
/// Topic, queue id, queue offset, and whether the queue is a light one.
type Place<'py> = (Bound<'py, PyBytes>, i64, i64, bool);

/// See `reput_consumequeue.reader.mappedread.whole_messages`.
#[pyfunction]
pub fn whole_messages<'py>(
    py: Python<'py>,
    mapped: Arg<Mapped<'py>>,
    places: Arg<Bound<'py, PyBytes>>,
    stride: Arg<usize>,
    limits: Arg<Limits>,
    place: Arg<Place<'py>>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "whole_messages", || {
        let asked = Asked::of(mapped, places, stride, limits, place)?;
        let Some(records) = asked.records() else {
            return Ok(None);
        };
        let mut chunks = Vec::new();
        for (rows, size) in records.chunks(asked.together()) {
            let fill = |target: &mut [u8]| {
                unlocked(py, size, || records.copy(rows, target));
                Ok(())
            };
            chunks.push(PyBytes::new_with(py, size, fill)?);
        }
        let bytes: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
        let mut found = room(records.count()).map_err(Decline::from)?;
        asked.each_sound(py, &bytes, records.size, |chunk, place, offset, _, _| {
            found.push((chunk, place, offset));
        });
        if found.len() < records.count() {
            return Ok(None);
        }
        let made = found.into_iter().map(|(chunk, place, offset)| {
            let shared = chunks[chunk].clone().unbind();
            MessageView::untracked(py, shared, place, offset)
        });
        Ok(Some(PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)?))
    })
}

/// See `reput_consumequeue.reader.mappedread.whole_columns`.
#[pyfunction]
pub fn whole_columns<'py>(
    py: Python<'py>,
    mapped: Arg<Mapped<'py>>,
    places: Arg<Bound<'py, PyBytes>>,
    stride: Arg<usize>,
    limits: Arg<Limits>,
    place: Arg<Place<'py>>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "whole_columns", || {
        let asked = Asked::of(mapped, places, stride, limits, place)?;
        let Some(records) = asked.records() else {
            return Ok(None);
        };
        let (count, size) = (records.count(), records.size);
        let mut window = room(size).map_err(Decline::from)?;
        unlocked(py, size, || {
            for record in &records.pieces {
                window.extend_from_slice(&records.data[record.clone()]);
            }
        });
        let mut offsets = room(count).map_err(Decline::from)?;
        let mut cuts = Cuts::with_capacity(count);
        asked.each_sound(py, &[&window], size, |_, place, offset, record, parts| {
            cuts.add(place.start, record, parts);
            offsets.push(offset);
        });
        if offsets.len() < count {
            return Ok(None);
        }
        let numbers = (0..count as i64).map(|row| asked.place.2.wrapping_add(row));
        let (places, header) = cuts.matrices(py)?;
        Ok(Some((
            array(py, window),
            places,
            header,
            array(py, offsets),
            array(py, vec![0i32; count]),
            array(py, numbers.collect()),
        )))
    })
}

/// The arguments of both kernels.
struct Asked<'py> {
    data: Column<'py, u8>,
    base: i64,
    places: Bound<'py, PyBytes>,
    stride: usize,
    limits: Limits,
    place: Place<'py>,
}

impl<'py> Asked<'py> {
    fn of(
        mapped: Arg<Mapped<'py>>,
        places: Arg<Bound<'py, PyBytes>>,
        stride: Arg<usize>,
        limits: Arg<Limits>,
        place: Arg<Place<'py>>,
    ) -> Result<Self, Decline> {
        let (data, base) = mapped.get()?;
        let stride = stride.get()?;
        declined_unless(stride >= PLACE_SIZE)?;
        Ok(Self {
            data: Column::of(&data)?,
            base,
            places: places.get()?,
            stride,
            limits: limits.get()?,
            place: place.get()?,
        })
    }

    fn together(&self) -> usize {
        usize::try_from(self.limits.3).unwrap_or(0)
    }

    /// The records of the read; `None` if a read of these ends at none of its limits.
    fn records(&self) -> Option<Records<'_>> {
        let (wanted, max_bytes, max_size, _) = self.limits;
        let data = self.data.items();
        let bounds = Bounds {
            base: self.base,
            limit: self.base.saturating_add(data.len() as i64),
            max_size,
            max_count: wanted,
            max_bytes,
        };
        let places = self.places.as_bytes();
        let plan = Plan::of(places, self.stride, &bounds, 0);
        let count = plan.pieces.len();
        let mut listed = places.chunks_exact(self.stride);
        let pieces = listed.by_ref().take(count).zip(plan.pieces);
        let pieces = pieces.map(|(place, piece)| {
            let start = (be_i64(place, 0) - self.base) as usize;
            start..start + piece.len()
        });
        let records = Records {
            data,
            pieces: pieces.collect(),
            size: plan.size,
        };
        let next = listed.next().map_or(0, |place| be_i32(place, 8));
        let is_full = count == wanted || plan.size as i64 + i64::from(next) > max_bytes;
        (count > 0 && is_full).then_some(records)
    }

    /// See `Queue::each_sound`.
    fn each_sound(
        &self,
        py: Python<'py>,
        chunks: &[&[u8]],
        size: usize,
        add: impl FnMut(usize, Range<usize>, i64, &[u8], &Parts) + Send,
    ) {
        let queue = Queue {
            topic: self.place.0.as_bytes(),
            queue_id: self.place.1,
            queue_offset: self.place.2,
            is_light: self.place.3,
        };
        let (places, stride) = (self.places.as_bytes(), self.stride);
        unlocked(py, size, || {
            queue.each_sound(chunks, places, stride, -1, add)
        });
    }
}

/// Where the records of a read are.
struct Records<'a> {
    data: &'a [u8],
    pieces: Vec<Range<usize>>,
    size: usize,
}

impl Records<'_> {
    fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Rows that have so many bytes together at most, or one row; and their bytes.
    fn chunks(&self, together: usize) -> Vec<(Range<usize>, usize)> {
        let mut found: Vec<(Range<usize>, usize)> = vec![];
        for (row, piece) in self.pieces.iter().enumerate() {
            match found.last_mut() {
                Some((rows, size)) if *size + piece.len() <= together => {
                    rows.end = row + 1;
                    *size += piece.len();
                }
                _ => found.push((row..row + 1, piece.len())),
            }
        }
        found
    }

    /// Copy some records one behind the other.
    fn copy(&self, rows: Range<usize>, mut target: &mut [u8]) {
        for piece in &self.pieces[rows] {
            let (place, rest) = target.split_at_mut(piece.len());
            place.copy_from_slice(&self.data[piece.clone()]);
            target = rest;
        }
    }
}
