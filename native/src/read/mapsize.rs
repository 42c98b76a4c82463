//! The size of a file that is mapped; see `reput.files.readmap.map_size`.

use std::fs::File;
use std::io::{Error, Seek, SeekFrom};

use pyo3::prelude::*;

use crate::read::pieces::borrowed;
use crate::shared::border::{guarded, shielded};
use crate::shared::decline::{Arg, Decline, declined_unless};

/// A descriptor of its own, which is closed with the last use of the map.
#[pyclass(module = "reput_native", frozen)]
pub struct MapSize(File);

impl MapSize {
    /// The bytes that the file has now. To move to its end takes a third of the time of asking for
    /// its state, and nothing that has the file open reads or writes where it stands.
    pub fn now(&self) -> Result<u64, Error> {
        (&self.0).seek(SeekFrom::End(0))
    }
}

#[pymethods]
impl MapSize {
    fn __call__(&self, py: Python<'_>) -> PyResult<u64> {
        shielded(py, "MapSize", || Ok(self.now()?))
    }
}

/// See `reput.files.readmap.map_size`.
#[pyfunction]
pub fn map_size<'py>(
    py: Python<'py>,
    _map: &Bound<'py, PyAny>,
    descriptor: Arg<i32>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "map_size", || {
        let descriptor = descriptor.get()?;
        declined_unless(descriptor >= 0)?;
        // Without one more descriptor, the map is asked, which has one.
        let own = borrowed(descriptor).try_clone();
        Ok(MapSize(own.map_err(|_| Decline::ToPython)?))
    })
}
