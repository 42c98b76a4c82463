//! Which parts of a connection `h2` has news of.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Streams to be polled again.
#[derive(Clone, Default)]
pub struct Ready(Arc<Mutex<Vec<u32>>>);

impl Ready {
    /// One of them; none if all have been polled.
    pub fn next(&self) -> Option<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// What notes a stream here when it is woken.
    pub fn waker_of(&self, stream: u32) -> Waker {
        let wakes = StreamWake {
            stream,
            ready: self.clone(),
            is_noted: AtomicBool::new(false),
        };
        Waker::from(Arc::new(wakes))
    }
}

struct StreamWake {
    stream: u32,
    ready: Ready,
    is_noted: AtomicBool,
}

impl Wake for StreamWake {
    fn wake(self: Arc<Self>) {
        // Once: a waker serves until the stream is polled, which brings another one.
        if !self.is_noted.swap(true, Ordering::Relaxed) {
            let mut ready = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner);
            ready.push(self.stream);
        }
    }
}

/// Whether the connection is to be polled again.
#[derive(Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Whether it was woken since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
