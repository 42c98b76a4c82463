//! Many pieces of several files, written in one call; see `reput.files.system.disk.write_pieces`.

use pyo3::prelude::*;

use crate::put::region::write_through;
use crate::shared::arrays::Column;
use crate::shared::border::guarded;
use crate::shared::decline::{Decline, declined_unless};

/// See `reput.files.system.disk.write_pieces`.
#[pyfunction]
pub fn write_pieces<'py>(
    py: Python<'py>,
    pieces: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "write_pieces", || {
        let pieces: Vec<(i32, Bound<'py, PyAny>, i64)> =
            pieces.extract().map_err(|_| Decline::ToPython)?;
        let columns = pieces.iter().map(|(_, data, _)| Column::<u8>::of(data));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut writes = Vec::with_capacity(pieces.len());
        for ((descriptor, _, position), column) in pieces.iter().zip(&columns) {
            declined_unless(*descriptor >= 0)?;
            let position = usize::try_from(*position).map_err(|_| Decline::ToPython)?;
            writes.push((*descriptor, position, column.items()));
        }
        // Always without the interpreter lock: a disk may take its time. Python writes all pieces
        // again after an error, and says it in its words.
        let write = |(descriptor, position, bytes)| write_through(descriptor, position, bytes);
        py.detach(|| writes.into_iter().try_for_each(write))
            .map_err(|_| Decline::ToPython)?;
        Ok(())
    })
}
