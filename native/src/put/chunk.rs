//! Rows are written, a chunk at a time; see `reput.log.writer.appender.append_rows`.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use crate::put::appender::Appender;
use crate::put::end::Active;
use crate::put::refusal::Refusal;
use crate::put::rows::Rows;
use crate::put::table::Chunk;
use crate::put::target::call_stores;
use crate::shared::border::{guarded, unlocked};
use crate::shared::decline::Arg;

const SCRATCH_MAX: usize = 2 << 20; // bytes that are kept for the next chunk

/// See `reput.log.writer.appender.append_rows`.
#[pyfunction]
pub fn append_rows<'py>(
    py: Python<'py>,
    appender: &Bound<'py, Appender>,
    prepared: Arg<Bound<'py, Rows>>,
    first: usize,
    queue_offsets: PyReadonlyArray1<'py, i64>,
    mut physical_offsets: PyReadwriteArray1<'py, i64>,
    store_timestamp: i64,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "append_rows", || {
        let (appender, prepared) = (appender.get(), prepared.get()?);
        let table = &prepared.get().table;
        let queue_offsets = queue_offsets.as_slice()?;
        if queue_offsets.len() != table.rows.len() {
            return Err(Refusal::NoRoom.into());
        }
        let chunk = Chunk::cut(table, &appender.end(py), first)?;
        let places = first..chunk.stop();
        // All that may fail is done before the rows are published.
        let places = physical_offsets.as_slice_mut()?.get_mut(places);
        let places = places.ok_or(Refusal::NoRoom)?;
        let stop = chunk.stop().into_pyobject(py)?;
        let encode = |data: &mut _| chunk.encode(table, queue_offsets, store_timestamp, data);
        let write = |data: &mut _| write(py, appender, &chunk, encode, data);
        appender.scratch.lend(py, SCRATCH_MAX, write)?;
        chunk.count(table, queue_offsets, &mut appender.end(py));
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
    let (Active { file, region }, position) = appender.target(py, chunk.start)?;
    unlocked(py, chunk.size, || {
        encode(data)?;
        let (Some(region), Some((word, rest))) = (&region, data.split_first_chunk()) else {
            return Ok(());
        };
        region.write_records(position, *word, rest)
    })?;
    match (region, data.split_first_chunk()) {
        (None, Some((word, rest))) => call_stores(
            file.bind(py),
            position,
            *word,
            rest,
            chunk.offsets.len() == 1,
        ),
        _ => Ok(()),
    }
}
