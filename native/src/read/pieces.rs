//! Many short pieces of one file, read in one call; see `reput.files.system.vectoredread`.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

use crate::shared::arrays::Column;
use crate::shared::border::{copied, guarded};
use crate::shared::bytes::{be_i32, be_i64};
use crate::shared::decline::{Arg, Decline, declined_unless};
use crate::shared::gil::GilCell;

pub const PLACE_SIZE: usize = 12;
const GAP_MAX: usize = 4 << 10; // bytes between two pieces that are read rather than skipped
const STRETCH_MAX: usize = 1 << 20; // bytes of one read, more only for one piece
const KEPT_MAX: usize = 4 << 20; // bytes of a buffer that is kept for another call
const KEPT_COUNT: usize = 4; // buffers that are kept, however many threads there are

static BUFFERS: GilCell<Vec<Vec<u8>>> = GilCell::new(vec![]);

/// See `reput.files.system.vectoredread.read_pieces`.
#[pyfunction]
#[pyo3(signature = (source, base, limit, places, stride, max_size, max_count, max_bytes, together = Arg::of(0)))]
#[allow(clippy::too_many_arguments)] // they are those of the Python function
pub fn read_pieces<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    base: Arg<i64>,
    limit: Arg<i64>,
    places: Arg<Bound<'py, PyBytes>>,
    stride: Arg<usize>,
    max_size: Arg<i64>,
    max_count: Arg<i64>,
    max_bytes: Arg<i64>,
    together: Arg<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "read_pieces", || {
        let (places, stride) = (places.get()?, stride.get()?);
        // Asked first, as an error of another type costs more than a short read.
        let is_number = source.is_instance_of::<PyInt>();
        let map = (!is_number).then(|| Column::<u8>::of(source)).transpose()?;
        let source = match &map {
            Some(map) => Source::Map(map.items()),
            None => Source::File(source.extract().map_err(|_| Decline::ToPython)?),
        };
        declined_unless(stride >= PLACE_SIZE && !matches!(source, Source::File(..0)))?;
        let bounds = Bounds {
            base: base.get()?,
            limit: limit.get()?,
            max_size: max_size.get()?,
            max_count: usize::try_from(max_count.get()?).unwrap_or(0),
            max_bytes: max_bytes.get()?,
        };
        let together = usize::try_from(together.get()?).unwrap_or(0);
        let gap_max = source.gap_max();
        let mut plan = Plan::of(places.as_bytes(), stride, &bounds, gap_max);
        let mut buffer = BUFFERS.borrow(py).pop().unwrap_or_default();
        // Always without the interpreter lock: a disk may take its time.
        let answer = py.detach(|| plan.read(source, &mut buffer)).map(|()| {
            let mut found = Vec::with_capacity(plan.pieces.len()); // before its large neighbours
            for chunk in plan.chunks(together) {
                found.push(copied(py, &buffer[chunk])?);
            }
            Ok::<_, PyErr>((found, plan.pieces.len()))
        });
        if buffer.capacity() <= KEPT_MAX {
            let mut buffers = BUFFERS.borrow(py);
            if buffers.len() < KEPT_COUNT {
                buffers.push(buffer);
            }
        }
        Ok(answer??)
    })
}

/// Where bytes are read from: a descriptor, or a map of which the caller has loaded what is wanted.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    File(i32),
    Map(&'a [u8]),
}

impl Source<'_> {
    /// Bytes between two pieces that are cheaper read than skipped.
    fn gap_max(self) -> usize {
        if matches!(self, Self::Map(_)) {
            0
        } else {
            GAP_MAX
        }
    }

    /// Fill the room as far as the file reaches; how many bytes that are.
    pub fn read(self, room: &mut [u8], position: u64) -> Result<usize, Error> {
        let descriptor = match self {
            Self::File(descriptor) => descriptor,
            Self::Map(mut rest) => {
                rest = &rest[rest.len().min(position as usize)..];
                return rest.read(room);
            }
        };
        read_some(&borrowed(descriptor), room, position)
    }
}

/// The file of a descriptor that is not negative.
pub fn borrowed(descriptor: i32) -> ManuallyDrop<File> {
    // SAFETY: the caller of the kernel keeps the descriptor open during the call, and what borrows
    // it here is never dropped, so it is not closed.
    ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) })
}

/// What may be read.
pub struct Bounds {
    pub base: i64,
    pub limit: i64,
    pub max_size: i64,
    pub max_count: usize,
    pub max_bytes: i64,
}

impl Bounds {
    /// Where a piece stands behind the base, and its size, which is added to that of the pieces
    /// before it; `None` where it leaves the bounds.
    #[inline]
    pub fn admit(&self, place: &[u8], total: &mut i64) -> Option<(u64, usize)> {
        let (offset, size) = (be_i64(place, 0), i64::from(be_i32(place, 8)));
        let end = offset.checked_add(size);
        let is_there = offset >= self.base && end.is_some_and(|end| end <= self.limit);
        if size <= 0 || size > self.max_size || !is_there {
            return None;
        }
        let sum = *total + size; // 2**31 pieces of 2**31 bytes are less than 2**63
        if sum > self.max_bytes && *total > 0 {
            return None;
        }
        *total = sum;
        // Not below 0, as the offset is not below the base.
        Some((offset.wrapping_sub(self.base) as u64, size as usize))
    }
}

/// Neighbours that are read together, to `start` of the buffer.
struct Stretch {
    position: u64,
    start: usize,
    size: usize,
}

/// What is read, and where in the buffer each piece stands then.
struct Plan {
    stretches: Vec<Stretch>,
    pieces: Vec<Range<usize>>,
    size: usize,
}

impl Plan {
    /// A plan for the first places, up to one that leaves the bounds.
    fn of(places: &[u8], stride: usize, bounds: &Bounds, gap_max: usize) -> Self {
        let count = bounds.max_count.min(places.len() / stride);
        let mut plan = Self {
            stretches: Vec::with_capacity(count),
            pieces: Vec::with_capacity(count),
            size: 0,
        };
        let mut total = 0;
        for place in places.chunks_exact(stride).take(count) {
            let Some((position, size)) = bounds.admit(place, &mut total) else {
                break;
            };
            plan.add(position, size, gap_max);
        }
        plan
    }

    fn add(&mut self, position: u64, size: usize, gap_max: usize) {
        let start = match self.stretches.last_mut() {
            Some(last) if last.is_near(position, size, gap_max) => {
                let at = (position - last.position) as usize;
                last.size = at + size;
                last.start + at
            }
            _ => {
                self.stretches.push(Stretch {
                    position,
                    start: self.size,
                    size,
                });
                self.size
            }
        };
        self.size = start + size;
        self.pieces.push(start..start + size);
    }

    /// Read all stretches, and place the pieces one behind the other; the plan ends at the first
    /// piece that the file does not hold whole.
    fn read(&mut self, source: Source<'_>, buffer: &mut Vec<u8>) -> Result<(), Decline> {
        if buffer.len() < self.size {
            buffer.try_reserve_exact(self.size - buffer.len())?;
            buffer.resize(self.size, 0);
        }
        for stretch in &self.stretches {
            let room = &mut buffer[stretch.start..stretch.start + stretch.size];
            // Python meets the same error, and says it in its words.
            let filled = source
                .read(room, stretch.position)
                .map_err(|_| Decline::ToPython)?;
            if filled < stretch.size {
                let end = stretch.start + filled;
                let whole = self.pieces.iter().take_while(|piece| piece.end <= end);
                self.pieces.truncate(whole.count());
                break;
            }
        }
        let mut end = 0;
        for piece in &mut self.pieces {
            if piece.start > end {
                buffer.copy_within(piece.clone(), end);
            }
            *piece = end..end + piece.len();
            end = piece.end;
        }
        Ok(())
    }

    /// Neighbours that have so many bytes together at most, or one piece.
    fn chunks(&self, together: usize) -> impl Iterator<Item = Range<usize>> {
        let mut rest = self.pieces.as_slice();
        std::iter::from_fn(move || {
            let start = rest.first()?.start;
            let count = rest
                .partition_point(|piece| piece.end - start <= together)
                .max(1);
            let (chunk, after) = rest.split_at(count);
            rest = after;
            Some(start..chunk.last()?.end)
        })
    }
}

impl Stretch {
    /// Whether a piece stands so close behind that it is worth reading along.
    fn is_near(&self, position: u64, size: usize, gap_max: usize) -> bool {
        let end = self.position + self.size as u64;
        position >= end
            && position - end <= gap_max as u64
            && (position - self.position) as usize + size <= STRETCH_MAX
    }
}

/// Fill the room as far as the file reaches; how many bytes that are.
fn read_some(file: &File, room: &mut [u8], position: u64) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read_at(&mut room[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
