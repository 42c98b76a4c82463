//! Dictionary-encodes topics; see `reput.record.text.topics`.

use std::collections::HashMap;

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::derive::text::java_text;
use crate::shared::arrays::{Column, Stretches, array};
use crate::shared::border::{guarded, unlocked};
use crate::shared::folding::Folding;

const NAMES_MAX: usize = 1 << 16; // a hostile log may hold a new topic in every record
const NAMES_SIZE_MAX: usize = 1 << 24; // bytes of all names; likewise

/// Names seen so far, in order of appearance; a code is a position among them.
#[pyclass(module = "reput_native")]
pub struct TopicTable {
    names: Py<PyList>,
    names_size: usize,
    code_of: HashMap<Box<[u8]>, i32, Folding>,
}

impl TopicTable {
    fn new(py: Python<'_>) -> Self {
        let names = PyList::empty(py).unbind();
        Self {
            names,
            names_size: 0,
            code_of: HashMap::with_hasher(Folding::new()),
        }
    }
}

#[pymethods]
impl TopicTable {
    /// Names by code.
    #[getter]
    fn names(&self, py: Python<'_>) -> Py<PyList> {
        self.names.clone_ref(py)
    }

    /// See `reput.record.text.topics.TopicTable.encode`.
    fn encode<'py>(
        &mut self,
        py: Python<'py>,
        window: &Bound<'py, PyAny>,
        starts: &Bound<'py, PyAny>,
        sizes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(py, "TopicTable.encode", || {
            let (Some(window), Some(starts), Some(sizes)) =
                (Column::of(window), Column::of(starts), Column::of(sizes))
            else {
                return Err(PyTypeError::new_err(
                    "a window of uint8, starts and sizes of int64, all contiguous, are expected",
                ));
            };
            let Some(names) = Stretches::of(window.items(), starts.items(), sizes.items()) else {
                return Err(PyIndexError::new_err("a name leaves its window"));
            };
            if self.code_of.len() > NAMES_MAX || self.names_size > NAMES_SIZE_MAX {
                *self = Self::new(py);
            }
            let code_of = &mut self.code_of;
            let (codes, fresh) = unlocked(py, 32 * names.len(), || encode(code_of, names));
            for row in fresh {
                let name = names.row(row);
                self.names_size += name.len();
                self.names.bind(py).append(java_text(name))?;
            }
            Ok(Some(array(py, codes).into_any()))
        })
    }
}

/// See `reput.record.text.topics.topic_table`.
#[pyfunction]
pub fn topic_table(py: Python<'_>) -> TopicTable {
    TopicTable::new(py)
}

/// Codes of all rows, and the rows in which a name appeared for the first time.
fn encode(
    code_of: &mut HashMap<Box<[u8]>, i32, Folding>,
    names: Stretches<'_>,
) -> (Vec<i32>, Vec<usize>) {
    let mut codes = Vec::with_capacity(names.len());
    let mut fresh = vec![];
    for row in 0..names.len() {
        let name = names.row(row);
        let code = match code_of.get(name) {
            Some(&code) => code,
            None => {
                // Fewer than 2**31: a window is no larger, and a table is emptied before that.
                let code = code_of.len() as i32;
                code_of.insert(name.into(), code);
                fresh.push(row);
                code
            }
        };
        codes.push(code);
    }
    (codes, fresh)
}
