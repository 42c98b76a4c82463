//! Rows are written, a chunk at a time; see `reput.log.writing.rows.append_rows`.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use super::appender::{Appender, let_go_of, out_of_room};
use super::rows::{Row, Rows};
use super::target::Target;
use crate::encode::record::{Place, takes_queue_offset};
use crate::shared::border::{guarded, unlocked};

const CHUNK_SIZE: usize = 1 << 20; // bytes that are written at a time

/// See `reput.log.writing.rows.append_rows`.
#[pyfunction]
pub fn append_rows<'py>(
    py: Python<'py>,
    appender: &Bound<'py, PyAny>,
    prepared: &Bound<'py, PyAny>,
    first: usize,
    queue_offsets: PyReadonlyArray1<'py, i64>,
    mut physical_offsets: PyReadwriteArray1<'py, i64>,
    store_timestamp: i64,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "append_rows", || {
        let Ok(prepared) = prepared.cast_exact::<Rows>() else {
            return Ok(None);
        };
        let rows = prepared.get();
        let appender = appender.cast_exact::<Appender>()?;
        let queue_offsets = queue_offsets.as_slice()?;
        let chunk = Chunk::cut(rows, appender, first, queue_offsets, store_timestamp)?;
        chunk.append(rows, appender, queue_offsets)?;
        let end = first + chunk.offsets.len();
        physical_offsets.as_slice_mut()?[first..end].copy_from_slice(&chunk.offsets);
        Ok(Some(end.into_pyobject(py)?.into_any()))
    })
}

/// Some rows, with their places.
struct Chunk<'a> {
    rows: &'a [Row],
    first: usize,
    start: i64,
    offsets: Vec<i64>,
    size: usize,
    store_timestamp: i64,
}

impl<'a> Chunk<'a> {
    /// Rows from `first` on: as many as the file has room for, up to about a megabyte.
    fn cut(
        rows: &'a Rows,
        appender: &Bound<'_, Appender>,
        first: usize,
        queue_offsets: &[i64],
        store_timestamp: i64,
    ) -> PyResult<Self> {
        let appender = appender.try_borrow()?;
        let start = appender.end_offset;
        let room = usize::try_from(appender.file_limit - start).unwrap_or(0);
        let left = rows.rows.get(first..).unwrap_or_default();
        let (mut offsets, mut size) = (vec![], 0);
        for row in left {
            let end = size + row.record(rows).size();
            if end > room || !offsets.is_empty() && end > CHUNK_SIZE {
                break;
            }
            offsets.push(start + size as i64);
            size = end;
        }
        if offsets.is_empty() || queue_offsets.len() != rows.rows.len() {
            return Err(out_of_room());
        }
        Ok(Self {
            rows: &left[..offsets.len()],
            first,
            start,
            offsets,
            size,
            store_timestamp,
        })
    }

    /// Write the rows, and count them.
    fn append(
        &self,
        rows: &Rows,
        appender: &Bound<'_, Appender>,
        queue_offsets: &[i64],
    ) -> PyResult<()> {
        let py = appender.py();
        let (mapped, mut data) = {
            let mut appender = appender.try_borrow_mut()?;
            let mapped = match &appender.target {
                None => return Err(let_go_of()),
                Some(Target::Mapped { mapped, .. }) => Some((*mapped, appender.position())),
                Some(Target::Called(_)) => None,
            };
            (mapped, std::mem::take(&mut appender.scratch))
        };
        data.clear();
        let is_written = unlocked(py, self.size, || {
            self.encode(rows, queue_offsets, &mut data);
            mapped.is_none_or(|(mapped, position)| mapped.write_records(position, &data))
        });
        if !is_written {
            return Err(out_of_room());
        }
        if mapped.is_none() {
            let is_alone = self.rows.len() == 1;
            Appender::store(appender, self.start, &data[..4], &data[4..], is_alone)?;
        }
        let mut appender = appender.try_borrow_mut()?;
        for (row, queue_offset) in self.rows.iter().zip(&queue_offsets[self.first..]) {
            if takes_queue_offset(row.numbers.sys_flag) {
                let queue = &rows.queues[row.queue as usize];
                let number = appender.queues.number(&queue.name);
                appender
                    .queues
                    .set(number, queue.queue_id, *queue_offset as u64 + 1);
            }
        }
        appender.end_offset = self.start + self.size as i64;
        appender.last_record_offset = self.offsets.last().copied().unwrap_or(self.start);
        appender.scratch = data;
        Ok(())
    }

    fn encode(&self, rows: &Rows, queue_offsets: &[i64], data: &mut Vec<u8>) {
        data.reserve(self.size);
        let places = self.offsets.iter().zip(&queue_offsets[self.first..]);
        for (row, (&physical_offset, &queue_offset)) in self.rows.iter().zip(places) {
            let place = Place {
                physical_offset,
                queue_offset,
                store_timestamp: self.store_timestamp,
                store_host: rows.store_host,
            };
            row.record(rows).write(&place, data);
        }
    }
}
