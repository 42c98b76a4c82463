//! A whole read of a queue in one call; see `reput_consumequeue.reader.mappedread`.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::derive::window::{PLACES, Parts};
use crate::read::mapsize::MapSize;
use crate::read::pieces::{Bounds, PLACE_SIZE, Source};
use crate::read::sound::Queue;
use crate::read::view::MessageView;
use crate::shared::arrays::{Column, Columns, array, frozen};
use crate::shared::border::{guarded, unlocked};
use crate::shared::bytes::{be_i32, be_i64};
use crate::shared::decline::{Arg, Decline, Stop, declined_unless, room};

/// End of the log; parts of it that are mapped.
type Log<'py> = (i64, Bound<'py, PyTuple>);
/// Bytes, physical offset of the first, bytes of the file, and what returns these once more.
type Part<'py> = (Bound<'py, PyAny>, i64, u64, Bound<'py, PyAny>);
/// Messages, bytes of records, bytes of one record, bytes that share memory; most of each.
type Limits = (usize, i64, i64, i64);
/// Topic, queue id, queue offset, and whether the queue is a light one.
type Place<'py> = (Bound<'py, PyBytes>, i64, i64, bool);

/// See `reput_consumequeue.reader.mappedread.read_whole`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // they are those of the Python function
pub fn read_whole<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    position: Arg<u64>,
    size: Arg<usize>,
    stride: Arg<usize>,
    log: Arg<Log<'py>>,
    limits: Arg<Limits>,
    place: Arg<Place<'py>>,
    as_columns: Arg<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "read_whole", || {
        let (stride, limits, place) = (stride.get()?, limits.get()?, place.get()?);
        declined_unless(stride >= PLACE_SIZE)?;
        let as_columns = as_columns.get()?;
        let places = places_of(py, source, position.get()?, size.get()?)?;
        let Some(first) = places.get(..PLACE_SIZE) else {
            return Ok(None);
        };
        let (end, parts) = log.get()?;
        let Some((data, base)) = part_of(&parts, be_i64(first, 0))? else {
            return Ok(None);
        };
        let data = data.items();
        let (wanted, max_bytes, max_size, together) = limits;
        let bounds = Bounds {
            base,
            limit: base.saturating_add(data.len() as i64).min(end),
            max_size,
            max_count: wanted.min(places.len() / stride),
            max_bytes,
        };
        let Some(pieces) = pieces_of(&places, stride, &bounds)? else {
            return Ok(None);
        };
        // What comes before the first copy takes as long as these loads.
        for piece in pieces.iter().take(AHEAD) {
            fetch(&data[piece.clone()]);
        }
        let queue = Queue {
            topic: place.0.as_bytes(),
            queue_id: place.1,
            queue_offset: place.2,
            is_light: place.3,
        };
        let records = Records {
            data,
            pieces,
            places: &places,
            stride,
            queue,
        };
        if as_columns {
            records.columns(py)
        } else {
            records.messages(py, usize::try_from(together).unwrap_or(0))
        }
    })
}

/// The wanted places, none if the file does not hold all of them.
fn places_of(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    position: u64,
    size: usize,
) -> Result<Vec<u8>, Decline> {
    let mut places = room(size)?;
    if let Ok(bytes) = source.cast::<PyBytes>() {
        let known = usize::try_from(position)
            .ok()
            .and_then(|position| bytes.as_bytes().get(position..)?.get(..size));
        places.extend_from_slice(known.unwrap_or_default());
        return Ok(places);
    }
    let source = Source::File(source.extract().map_err(|_| Decline::ToPython)?);
    declined_unless(!matches!(source, Source::File(..0)))?;
    places.resize(size, 0);
    // Without the interpreter lock: a disk may take its time.
    let filled = py.detach(|| source.read(&mut places, position));
    // Python meets the same error, and says it in its words.
    if filled.map_err(|_| Decline::ToPython)? < size {
        places.clear();
    }
    Ok(places)
}

/// The part of the log in which a record begins, unless its file is shorter than it was.
fn part_of<'py>(
    parts: &Bound<'py, PyTuple>,
    offset: i64,
) -> Result<Option<(Column<'py, u8>, i64)>, Stop> {
    for part in parts.iter_borrowed() {
        let found: Result<Part<'_>, _> = part.extract();
        let (data, base, whole_size, size) = found.map_err(|_| Decline::ToPython)?;
        let at = usize::try_from(offset.wrapping_sub(base));
        if offset < base || !at.is_ok_and(|at| data.len().is_ok_and(|size| at < size)) {
            continue;
        }
        let size_now = match size.cast::<MapSize>() {
            Ok(known) => known.get().now().map_err(|_| Decline::ToPython)?,
            Err(_) => size.call0()?.extract::<u64>()?,
        };
        let is_whole = size_now >= whole_size;
        let data = Column::of(&data)?;
        return Ok(is_whole.then_some((data, base)));
    }
    Ok(None)
}

/// Where the records of a read are in a map; `None` if a read of these ends at none of its limits.
fn pieces_of(
    places: &[u8],
    stride: usize,
    bounds: &Bounds,
) -> Result<Option<Vec<Range<usize>>>, Decline> {
    let mut pieces: Vec<Range<usize>> = room(bounds.max_count)?;
    let (mut listed, mut total, mut next) = (places.chunks_exact(stride), 0, 0);
    for place in listed.by_ref() {
        let admitted = (pieces.len() < bounds.max_count)
            .then(|| bounds.admit(place, &mut total))
            .flatten();
        let Some((start, size)) = admitted else {
            next = i64::from(be_i32(place, 8));
            break;
        };
        pieces.push(start as usize..start as usize + size);
    }
    let is_full = pieces.len() == bounds.max_count || total + next > bounds.max_bytes;
    Ok((total > 0 && is_full).then_some(pieces))
}

/// Rows of so many that are copied before one of them is looked at: the processor waits for the
/// bytes of several records at once then, and what it has copied is still near it.
fn groups(count: usize) -> impl Iterator<Item = Range<usize>> {
    const GROUP: usize = 64;
    let first = (0..count).step_by(GROUP);
    first.map(move |first| first..(first + GROUP).min(count))
}

/// Have the processor load bytes that will be read soon.
#[inline]
fn fetch(bytes: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction, which changes nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = bytes;
}

/// Records between the one that is copied and the one that is fetched meanwhile.
const AHEAD: usize = 12;

/// The records of a read, in a map. Its file may change, so a record is copied before it is looked
/// at.
struct Records<'a> {
    data: &'a [u8],
    pieces: Vec<Range<usize>>,
    places: &'a [u8],
    stride: usize,
    queue: Queue<'a>,
}

impl Records<'_> {
    fn columns<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyTuple>>, Stop> {
        let count = self.pieces.len();
        let size = self.pieces.iter().map(Range::len).sum();
        let mut window = room(size).map_err(Decline::from)?;
        let mut rows = Columns::<{ PLACES + 1 }>::with_capacity(count);
        let is_sound = unlocked(py, size, || {
            groups(count).all(|group| self.add(group, &mut window, &mut rows))
        });
        if !is_sound {
            return Ok(None);
        }
        let end = self.offset(count - 1) + self.pieces[count - 1].len() as i64;
        let made = (frozen(array(py, window)), rows.matrix(py)?, end);
        Ok(Some(made.into_pyobject(py)?))
    }

    /// Copy some records, and note where they and their parts are; whether all are beyond doubt.
    fn add(
        &self,
        group: Range<usize>,
        window: &mut Vec<u8>,
        rows: &mut Columns<{ PLACES + 1 }>,
    ) -> bool {
        let mut at = window.len();
        for row in group.clone() {
            window.extend_from_slice(self.piece(row));
        }
        for row in group {
            let record = &window[at..at + self.pieces[row].len()];
            let Some(parts) = self.parts(record, row) else {
                return false;
            };
            let [a, b, c, d, e, f, g, h] = parts.places(at, record.len());
            rows.push([a, b, c, d, e, f, g, h, self.offset(row)]);
            at += record.len();
        }
        true
    }

    fn messages<'py>(
        &self,
        py: Python<'py>,
        together: usize,
    ) -> Result<Option<Bound<'py, PyTuple>>, Stop> {
        let mut found = room(self.pieces.len()).map_err(Decline::from)?;
        let mut first = 0;
        while first < self.pieces.len() {
            let (stop, size) = self.chunk(first, together);
            let mut is_sound = false;
            let chunk = PyBytes::new_with(py, size, |target| {
                is_sound = unlocked(py, size, || self.copy(first..stop, target));
                Ok(())
            })?;
            if !is_sound {
                return Ok(None);
            }
            let mut at = 0;
            for row in first..stop {
                let end = at + self.pieces[row].len();
                let shared = chunk.clone().unbind();
                found.push(MessageView::untracked(
                    py,
                    shared,
                    at..end,
                    self.offset(row),
                )?);
                at = end;
            }
            first = stop;
        }
        Ok(Some(PyTuple::new(py, found)?))
    }

    /// The end of the rows from `first` on that have so many bytes together at most, or of one row;
    /// and their bytes.
    fn chunk(&self, first: usize, together: usize) -> (usize, usize) {
        let mut size = self.pieces[first].len();
        let mut stop = first + 1;
        for piece in &self.pieces[stop..] {
            if size + piece.len() > together {
                break;
            }
            size += piece.len();
            stop += 1;
        }
        (stop, size)
    }

    /// Copy some records one behind the other; whether all are beyond doubt.
    fn copy(&self, rows: Range<usize>, target: &mut [u8]) -> bool {
        let mut rest = &mut *target;
        for row in rows.clone() {
            let piece = self.piece(row);
            let (record, behind) = rest.split_at_mut(piece.len());
            record.copy_from_slice(piece);
            rest = behind;
        }
        let mut rest = &*target;
        rows.into_iter().all(|row| {
            let (record, behind) = rest.split_at(self.pieces[row].len());
            rest = behind;
            self.parts(record, row).is_some()
        })
    }

    /// A record in the map; one further on is fetched into the processor's cache meanwhile, as the
    /// records of a queue stand far from each other.
    #[inline]
    fn piece(&self, row: usize) -> &[u8] {
        if let Some(next) = self.pieces.get(row + AHEAD) {
            fetch(&self.data[next.clone()]);
        }
        &self.data[self.pieces[row].clone()]
    }

    fn offset(&self, row: usize) -> i64 {
        be_i64(self.places, row * self.stride)
    }

    /// See `Queue::parts`.
    #[inline]
    fn parts(&self, record: &[u8], row: usize) -> Option<Parts> {
        let after = row.checked_sub(1).map_or(-1, |before| self.offset(before));
        let places = &self.places[row * self.stride..];
        self.queue.parts(record, row, places, self.stride, after)
    }
}
