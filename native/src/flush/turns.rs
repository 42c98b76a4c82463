//! Threads that wait for the disk, one of which flushes for all: `FlushLeader` of
//! `core/src/reput/log/writer/flushleader.py`, whose threads sleep and wake without the interpreter lock.
//!
//! A thread sleeps at a place of its own, so that only those wake who have something to do: one that
//! flushes next, and all whose bytes are on disk. Of these the first wakes the second and so on,
//! each before it waits for the interpreter lock: woken at once, they would all queue for that lock,
//! and the thread that wakes them would hold it meanwhile. Nobody wakes a thread under the lock of
//! this list, which is what a woken thread needs first: it would fall asleep again.
//!
//! Where the disk is a plain one, the thread whose turn it is flushes without the interpreter lock,
//! too: between two flushes nobody waits for that lock.
//!
//! The thread whose turn it is waits a moment before it flushes here: those whose bytes the flush
//! before has covered are about to append again, and one flush for all of them takes as long as one
//! for half of them. It waits for no longer than a part of that flush, and not for so many that to
//! wake them takes as long as the flush.
//!
//! Signal handlers run on the main thread, and only after it has left the list of sleepers: a turn
//! is never given to a thread that is in a handler, which may take long or wait for other threads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::shared::border::guarded;

/// The longest sleep of the main thread, which is to hear signals.
const HEARS_SIGNALS: Duration = Duration::from_millis(50);
/// The longest sleep of any other thread; then it checks again.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A flush waits for other threads this part of the flush before it,
const GATHER_PART: u32 = 2;
/// and no longer than this,
const GATHER_LONGEST: Duration = Duration::from_millis(if cfg!(test) { 3_600_000 } else { 1 });
/// and not for threads that take this long each, to wake and to append, and together as long as it.
const GATHER_EACH: Duration = Duration::from_micros(25);
/// Most flushes that wait for nobody after flushes to which nobody came.
const GATHER_REST: u32 = 64;

#[pyclass(frozen, module = "reput_native")]
pub struct FlushLeader {
    flushed: AtomicI64,
    /// Never held while a thread waits for the interpreter lock.
    waiting: Mutex<Waiting>,
    /// Told when nobody is away any more.
    gathered: Condvar,
}

#[derive(Default)]
struct Waiting {
    failed: bool,
    /// The thread whose turn it is, and how many turns it has: a signal handler that interrupted a
    /// flush on its thread cannot wait for it.
    turn: Option<(ThreadId, usize)>,
    /// The number of the next one that sleeps.
    number: u64,
    asleep: Sleepers,
    /// Asleep too, but their bytes are on disk.
    covered: Sleepers,
    /// How many threads, whose bytes the last flush here has covered, have not appended again.
    away: usize,
    /// How long that flush took, and when it ended.
    took: Duration,
    ended: Option<Instant>,
    /// How many flushes wait for nobody, and how many do so after the next one to which nobody came.
    rest: u32,
    next_rest: u32,
    /// The only file with bytes that are not on disk; `None` if Python has to flush.
    file: Option<Arc<Flushed>>,
}

/// By the offset that each waits for, and then by number: a flush covers the first ones.
type Sleepers = BTreeMap<(i64, u64), Arc<Sleeper>>;

/// A file of the log that is flushed here.
struct Flushed {
    file: File,
    base_offset: i64,
    size: u64,
}

impl Flushed {
    fn end_offset(&self) -> i64 {
        self.base_offset.saturating_add_unsigned(self.size)
    }

    /// Whether it still has a name, without which it is lost, and its size.
    fn is_whole(&self) -> bool {
        let found = self.file.metadata();
        found.is_ok_and(|found| found.nlink() > 0 && found.len() >= self.size)
    }
}

struct Sleeper {
    thread: ThreadId,
    awake: Condvar,
}

/// Why a thread does not sleep, or sleeps no longer.
pub(super) enum Awake<'a> {
    OnDisk,
    Failed,
    /// Its turn to flush, or after a flush that failed here, with the system's error.
    ItsTurn(Turn<'a>, Option<i32>),
    /// It has slept as long as it may.
    Slept,
}

#[pymethods]
impl FlushLeader {
    #[new]
    fn new(flushed_offset: i64) -> Self {
        Self {
            flushed: AtomicI64::new(flushed_offset),
            waiting: Mutex::default(),
            gathered: Condvar::new(),
        }
    }

    #[getter]
    fn flushed_offset(&self) -> i64 {
        self.flushed.load(Ordering::Acquire)
    }

    fn use_file(&self, descriptor: i32, base_offset: i64, size: u64) {
        // SAFETY: it is no -1, and the caller keeps the file open during this call. It is
        // duplicated, so that no flush meets another file that has got its number.
        let file = (descriptor >= 0).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) });
        // If no number is free for it, the caller flushes, which needs none.
        let file = file.and_then(|file| file.try_clone_to_owned().ok());
        let flushed = file.map(|file| Flushed {
            file: file.into(),
            base_offset,
            size,
        });
        self.exchange(flushed.map(Arc::new));
    }

    fn use_calls(&self) {
        self.exchange(None);
    }

    fn reached(&self, flushed_offset: i64) {
        let mut waiting = self.lock();
        if flushed_offset > self.flushed_offset() {
            self.flushed.store(flushed_offset, Ordering::Release);
            waiting.cover(flushed_offset);
        }
    }

    fn fail(&self) {
        let mut waiting = self.lock();
        waiting.failed = true;
        let asleep = std::mem::take(&mut waiting.asleep);
        drop(waiting);
        wake(asleep.into_values());
    }

    fn wait<'py>(
        &self,
        py: Python<'py>,
        physical_offset: i64,
        timeout: Option<f64>,
        flush: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(py, "FlushLeader.wait", || {
            Ok(self.wait_in_turn(py, physical_offset, timeout, flush)?)
        })
    }
}

impl FlushLeader {
    fn exchange(&self, file: Option<Arc<Flushed>>) {
        let old = {
            let mut waiting = self.lock();
            waiting.away = 0;
            self.gathered.notify_one();
            std::mem::replace(&mut waiting.file, file)
        };
        drop(old); // which may close a file, not under the lock
    }

    fn wait_in_turn(
        &self,
        py: Python<'_>,
        physical_offset: i64,
        timeout: Option<f64>,
        flush: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        // None also if it is so long that no clock counts to its end.
        let deadline = timeout.and_then(|seconds| {
            let seconds = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
            Instant::now().checked_add(seconds)
        });
        let mut longest = HEARS_SIGNALS;
        loop {
            if self.flushed_offset() >= physical_offset {
                return Ok(true);
            }
            match py.detach(|| self.flush_or_sleep(physical_offset, deadline, longest)) {
                Awake::OnDisk => return Ok(true),
                Awake::Failed => return Ok(false),
                Awake::ItsTurn(turn, error) => {
                    flush.call1(PyTuple::new(py, error)?)?;
                    drop(turn);
                }
                Awake::Slept => {
                    py.check_signals()?;
                    if !is_main_thread(py)? {
                        longest = LONGEST_WAIT;
                    }
                }
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(self.flushed_offset() >= physical_offset);
            }
        }
    }

    /// Wait, and flush here where that can be; needs no interpreter lock.
    pub(super) fn flush_or_sleep(
        &self,
        physical_offset: i64,
        deadline: Option<Instant>,
        longest: Duration,
    ) -> Awake<'_> {
        loop {
            let turn = match self.sleep(physical_offset, deadline, longest) {
                Awake::ItsTurn(turn, _) => turn,
                awake => return awake,
            };
            self.gather();
            match self.flush_here(physical_offset) {
                Ok(false) => return Awake::ItsTurn(turn, None),
                Ok(true) => drop(turn),
                Err(error) => return Awake::ItsTurn(turn, error.raw_os_error().or(Some(0))),
            }
        }
    }

    /// Wait a moment, on this thread's turn, for those who append again.
    fn gather(&self) {
        let mut waiting = self.lock();
        let count = u32::try_from(waiting.away).unwrap_or(u32::MAX);
        // Those who have been away for as long as a flush are not about to append.
        let is_recent = |ended: Instant| ended.elapsed() < waiting.took;
        if count == 0
            || waiting.took < GATHER_EACH.saturating_mul(count)
            || !waiting.ended.is_some_and(is_recent)
        {
            return;
        }
        if waiting.rest > 0 {
            waiting.rest -= 1;
            return;
        }
        let away = waiting.away;
        let longest = (waiting.took / GATHER_PART).min(GATHER_LONGEST);
        (waiting, _) = self
            .gathered
            .wait_timeout_while(waiting, longest, |waiting| waiting.away > 0)
            .unwrap_or_else(PoisonError::into_inner);
        let is_vain = waiting.away == away;
        waiting.next_rest = if is_vain {
            (2 * waiting.next_rest + 1).min(GATHER_REST)
        } else {
            0
        };
        waiting.rest = waiting.next_rest;
    }

    /// Note that a thread begins to wait. One that woke by itself and waits again counts, too: a flush
    /// then waits a little less.
    fn come_back(&self, waiting: &mut Waiting) {
        if waiting.away > 0 {
            waiting.away -= 1;
            if waiting.away == 0 {
                self.gathered.notify_one();
            }
        }
    }

    /// Flush on this thread's turn, for itself and all that sleep; false if Python has to.
    fn flush_here(&self, physical_offset: i64) -> io::Result<bool> {
        let (file, target) = {
            let waiting = self.lock();
            let Some(file) = &waiting.file else {
                return Ok(false);
            };
            let last = waiting.asleep.last_key_value();
            let target = last.map_or(i64::MIN, |(&(offset, _), _)| offset);
            (Arc::clone(file), target.max(physical_offset))
        };
        // What is in the next file is not flushed with this one.
        if !(file.base_offset..=file.end_offset()).contains(&physical_offset) {
            return Ok(false);
        }
        let began = Instant::now();
        file.file.sync_data()?;
        if !file.is_whole() {
            return Ok(false); // Python says what is wrong
        }
        self.reached(target.min(file.end_offset()));
        let mut waiting = self.lock();
        let ended = Instant::now();
        waiting.took = ended - began;
        waiting.ended = Some(ended);
        waiting.away = waiting.covered.len() + 1;
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread finds without sleeping; `None` if it has to.
    fn poll(&self, waiting: &mut Waiting, physical_offset: i64) -> Option<Awake<'_>> {
        if self.flushed_offset() >= physical_offset {
            return Some(Awake::OnDisk);
        }
        if waiting.failed {
            return Some(Awake::Failed);
        }
        let me = thread::current().id();
        let turns = match waiting.turn {
            None => 0,
            Some((thread, turns)) if thread == me => turns,
            Some(_) => return None,
        };
        waiting.turn = Some((me, turns + 1));
        Some(Awake::ItsTurn(Turn(self), None))
    }

    /// Sleep until there is something to do, if there is nothing yet; at most until `deadline` and no longer than `longest`.
    fn sleep(
        &self,
        physical_offset: i64,
        deadline: Option<Instant>,
        longest: Duration,
    ) -> Awake<'_> {
        let mut waiting = self.lock();
        if self.flushed_offset() < physical_offset {
            self.come_back(&mut waiting);
        }
        if let Some(awake) = self.poll(&mut waiting, physical_offset) {
            return awake;
        }
        let until = Instant::now() + longest;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        let me = Arc::new(Sleeper {
            thread: thread::current().id(),
            awake: Condvar::new(),
        });
        let place = (physical_offset, waiting.number);
        waiting.number += 1;
        waiting.asleep.insert(place, Arc::clone(&me));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            (waiting, _) = me
                .awake
                .wait_timeout(waiting, left)
                .unwrap_or_else(PoisonError::into_inner);
            #[cfg(test)]
            tests::WOKEN.set(tests::WOKEN.get() + 1);
            if waiting.asleep.contains_key(&place) {
                if Instant::now() >= until {
                    waiting.asleep.remove(&place);
                    return Awake::Slept;
                }
            } else if waiting.turn.is_some_and(|(thread, _)| thread == me.thread) {
                return Awake::ItsTurn(Turn(self), None);
            } else if self.flushed_offset() >= physical_offset {
                // It may have woken by itself, before it was woken.
                waiting.covered.remove(&place);
                let next = waiting.next_covered();
                drop(waiting);
                wake(next);
                return Awake::OnDisk;
            } else {
                return Awake::Failed;
            }
        }
    }
}

impl Waiting {
    /// Take those off the list of sleepers who wait for nothing at or above `flushed_offset`.
    fn cover(&mut self, flushed_offset: i64) {
        while let Some(first) = self.asleep.first_entry()
            && first.key().0 <= flushed_offset
        {
            let (place, sleeper) = first.remove_entry();
            self.covered.insert(place, sleeper);
        }
    }

    /// Take one of those off their list whose bytes are on disk; it takes the next when it is woken.
    fn next_covered(&mut self) -> Option<Arc<Sleeper>> {
        self.covered.pop_first().map(|(_, sleeper)| sleeper)
    }

    /// End the turn; return whom to wake: the thread that flushes next, and one that is covered.
    fn end_turn(&mut self) -> [Option<Arc<Sleeper>>; 2] {
        let mut next = None;
        self.turn = match self.turn {
            Some((thread, turns)) if turns > 1 => Some((thread, turns - 1)),
            _ => {
                next = self.asleep.pop_first().map(|(_, sleeper)| sleeper);
                next.as_ref().map(|sleeper| (sleeper.thread, 1))
            }
        };
        [next, self.next_covered()]
    }
}

/// Wake threads that are on no list any more; not under the lock, which each of them needs.
fn wake(sleepers: impl IntoIterator<Item = Arc<Sleeper>>) {
    for sleeper in sleepers {
        sleeper.awake.notify_one();
    }
}

/// A turn to flush, until it is dropped; then it is another thread's turn.
pub(super) struct Turn<'a>(&'a FlushLeader);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let woken = self.0.lock().end_turn();
        // First the one that flushes, as the disk does nothing until then.
        wake(woken.into_iter().flatten());
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

#[cfg(test)]
mod tests;
