//! Flushes that one thread makes for others, which do not wait: `FlushRequests` of
//! `core/src/reput/log/writer/flushleader.py`.
//!
//! The thread needs the interpreter lock neither between two flushes nor to report them: it writes
//! to a descriptor, which an event loop watches. So the disk works while the loop appends.

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use super::turns::{Awake, FlushLeader, LONGEST_WAIT, Turn};
use crate::shared::border::guarded;

#[pyclass(frozen, module = "reput_native")]
pub struct FlushRequests {
    leader: Py<FlushLeader>,
    /// Takes the error of a flush that failed here.
    flush: Py<PyAny>,
    asked: Mutex<Asked>,
    came: Condvar,
}

#[derive(Default)]
struct Asked {
    /// The greatest offset of all requests.
    offset: i64,
    /// Whether there was a request since the last flush began.
    is_new: bool,
}

/// Why the thread needs the interpreter lock.
enum Served<'a> {
    /// Nothing was asked for in time.
    Idle,
    /// This offset is to be waited for in Python.
    Ordinary(i64),
    /// The same, after a flush here that failed with this error of the system; its turn.
    Failed(i64, Turn<'a>, i32),
}

#[pymethods]
impl FlushRequests {
    #[new]
    fn new(leader: Py<FlushLeader>, flush: Py<PyAny>) -> Self {
        Self {
            leader,
            flush,
            asked: Mutex::default(),
            came: Condvar::new(),
        }
    }

    fn ask(&self, physical_offset: i64) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.offset = asked.offset.max(physical_offset);
        asked.is_new = true;
        self.came.notify_one();
    }

    #[getter]
    fn is_asked(&self) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_new
    }

    fn serve<'py>(
        &self,
        py: Python<'py>,
        descriptor: i32,
        seconds: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(py, "FlushRequests.serve", || {
            let longest = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST_WAIT);
            let leader = self.leader.get();
            match py.detach(|| self.serve_here(leader, descriptor, longest)) {
                Served::Idle => Ok(None),
                Served::Ordinary(offset) => Ok(Some(offset)),
                Served::Failed(offset, turn, error) => {
                    self.flush.call1(py, (error,))?;
                    drop(turn);
                    Ok(Some(offset))
                }
            }
        })
    }
}

impl FlushRequests {
    /// Wait for a request; `None` after `longest`.
    fn next(&self, longest: Duration) -> Option<i64> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut asked, _) = self
            .came
            .wait_timeout_while(asked, longest, |asked| !asked.is_new)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut asked.is_new).then_some(asked.offset)
    }

    /// Flush what is asked for, as long as Python has nothing to do.
    fn serve_here<'a>(
        &self,
        leader: &'a FlushLeader,
        descriptor: RawFd,
        longest: Duration,
    ) -> Served<'a> {
        loop {
            let Some(offset) = self.next(longest) else {
                return Served::Idle;
            };
            if descriptor < 0 {
                return Served::Ordinary(offset);
            }
            match leader.flush_or_sleep(offset, None, LONGEST_WAIT) {
                Awake::OnDisk => {
                    if !report(descriptor) {
                        return Served::Ordinary(offset);
                    }
                }
                Awake::ItsTurn(turn, Some(error)) => return Served::Failed(offset, turn, error),
                _ => return Served::Ordinary(offset),
            }
        }
    }
}

/// Make the descriptor readable, which the caller keeps open.
fn report(descriptor: RawFd) -> bool {
    // SAFETY: it is no -1, and the caller keeps it open during this call; it is not closed here.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    file.write_all(&1_u64.to_ne_bytes()).is_ok()
}
