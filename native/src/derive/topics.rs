//! Dictionary-encodes topics; see `reput.record.text.topicdictionary`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::derive::text::java_text;
use crate::shared::arrays::{Column, Stretches, array};
use crate::shared::border::{guarded, unlocked};
use crate::shared::folding::Folding;

const NAMES_MAX: usize = 1 << 16; // a hostile log may hold a new topic in every record
const NAMES_SIZE_MAX: usize = 1 << 24; // bytes of all names; likewise

/// Names seen so far, in order of appearance; a code is a position among them.
///
/// Threads may share one. Nobody calls Python, or waits for its lock, while this one is locked.
#[pyclass(frozen, module = "reput_native")]
pub struct TopicTable(Mutex<Names>);

struct Names {
    /// Those of `known` that have been needed so far.
    texts: Py<PyList>,
    known: Vec<Arc<[u8]>>,
    size: usize,
    code_of: HashMap<Arc<[u8]>, i32, Folding>,
}

impl TopicTable {
    fn lock(&self) -> MutexGuard<'_, Names> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Give each code below `count` its text in the list that they belong to.
    fn list(&self, texts: &Bound<'_, PyList>, count: usize) -> PyResult<()> {
        loop {
            let code = texts.len();
            if code >= count {
                return Ok(());
            }
            let name = {
                let names = self.lock();
                match names.known.get(code) {
                    Some(name) if names.texts.is(texts) => Arc::clone(name),
                    _ => return Ok(()), // started over meanwhile: no code is of that list
                }
            };
            let text = PyString::new(texts.py(), &java_text(&name));
            // To make a text may run a finalizer, which lets others in.
            if texts.len() == code {
                texts.append(text)?;
            }
        }
    }
}

impl Names {
    fn new(py: Python<'_>) -> Self {
        Self {
            texts: PyList::empty(py).unbind(),
            known: vec![],
            size: 0,
            code_of: HashMap::with_hasher(Folding::new()),
        }
    }

    /// Codes of all rows.
    fn encode(&mut self, names: Stretches<'_>) -> Vec<i32> {
        let mut codes = Vec::with_capacity(names.len());
        for row in 0..names.len() {
            let name = names.row(row);
            let code = match self.code_of.get(name) {
                Some(&code) => code,
                None => {
                    // Fewer than 2**31: a window is no larger, and a table is emptied before that.
                    let (code, name) = (self.known.len() as i32, Arc::<[u8]>::from(name));
                    self.size += name.len();
                    self.known.push(Arc::clone(&name));
                    self.code_of.insert(name, code);
                    code
                }
            };
            codes.push(code);
        }
        codes
    }
}

#[pymethods]
impl TopicTable {
    /// Names by code.
    #[getter]
    fn names(&self, py: Python<'_>) -> Py<PyList> {
        self.lock().texts.clone_ref(py)
    }

    /// See `reput.record.text.topicdictionary.TopicDictionary.encode`.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        window: &Bound<'py, PyAny>,
        starts: &Bound<'py, PyAny>,
        sizes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(py, "TopicTable.encode", || {
            let (Ok(window), Ok(starts), Ok(sizes)) =
                (Column::of(window), Column::of(starts), Column::of(sizes))
            else {
                let expected = "a window of uint8, starts and sizes of int64, all contiguous";
                return Err(PyTypeError::new_err(format!("{expected}, are expected")).into());
            };
            let names = Stretches::of(window.items(), starts.items(), sizes.items())
                .map_err(|_| PyIndexError::new_err("a name leaves its window"))?;
            let is_full =
                |names: &Names| names.known.len() > NAMES_MAX || names.size > NAMES_SIZE_MAX;
            if is_full(&self.lock()) {
                let mut fresh = Names::new(py);
                let mut old = self.lock();
                if is_full(&old) {
                    std::mem::swap(&mut *old, &mut fresh);
                }
                drop(old); // before what was in it
            }
            let (codes, count) = unlocked(py, 32 * names.len(), || {
                let mut known = self.lock();
                (known.encode(names), known.known.len())
            });
            let texts = self.names(py);
            self.list(texts.bind(py), count)?;
            Ok(array(py, codes))
        })
    }
}

/// See `reput.record.text.topicdictionary.topic_table`.
#[pyfunction]
pub fn topic_table(py: Python<'_>) -> TopicTable {
    TopicTable(Mutex::new(Names::new(py)))
}
