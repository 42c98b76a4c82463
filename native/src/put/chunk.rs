//! Rows are written, a chunk at a time; see `reput.log.writing.appender.append_rows`.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use crate::put::appender::Appender;
use crate::put::refusal::Refusal;
use crate::put::rows::Rows;
use crate::put::table::Chunk;
use crate::shared::border::{guarded, unlocked};
use crate::shared::decline::Decline;

const SCRATCH_MAX: usize = 2 << 20; // bytes that are kept for the next chunk

/// See `reput.log.writing.appender.append_rows`.
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
        let rows = prepared.cast_exact::<Rows>();
        let table = &rows.map_err(|_| Decline::ToPython)?.get().table;
        let appender = appender.cast_exact::<Appender>()?.get();
        let queue_offsets = queue_offsets.as_slice()?;
        if queue_offsets.len() != table.rows.len() {
            return Err(Refusal::NoRoom.into());
        }
        let chunk = Chunk::cut(table, &appender.end(), first)?;
        let places = first..chunk.stop();
        // All that may fail is done before the rows are published.
        let places = physical_offsets.as_slice_mut()?.get_mut(places);
        let places = places.ok_or(Refusal::NoRoom)?;
        let stop = chunk.stop().into_pyobject(py)?;
        let mut data = appender.scratch.take(py);
        let encode = |data: &mut _| chunk.encode(table, queue_offsets, store_timestamp, data);
        let written = write(py, appender, &chunk, encode, &mut data);
        appender.scratch.keep(py, data, SCRATCH_MAX);
        written?;
        chunk.count(table, queue_offsets, &mut appender.end());
        places.copy_from_slice(&chunk.offsets);
        Ok(stop)
    })
}

fn write(
    py: Python<'_>,
    appender: &Appender,
    chunk: &Chunk,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal> + Send,
    data: &mut Vec<u8>,
) -> PyResult<()> {
    let region = appender.region()?;
    let position = appender.end().position_of(chunk.start)?;
    unlocked(py, chunk.size, || {
        encode(data)?;
        let (Some(region), Some((word, rest))) = (&region, data.split_first_chunk()) else {
            return Ok(());
        };
        region.write_records(position, *word, rest)
    })?;
    match (region, data.split_first_chunk()) {
        (None, Some((word, rest))) => {
            appender.store(py, chunk.start, *word, rest, chunk.offsets.len() == 1)
        }
        _ => Ok(()),
    }
}
