//! Memory that is used again and again, by whoever has the interpreter lock.

use std::cell::Cell;

use pyo3::prelude::*;

/// A vector that is taken while it is used; who comes meanwhile finds an empty one.
#[derive(Default)]
pub struct Scratch(Cell<Vec<u8>>);

// SAFETY: each use takes a token of the interpreter lock, ends while that lock is held, and runs no
// Python code. Builds of Python without the lock are refused.
unsafe impl Sync for Scratch {}

impl Scratch {
    #[inline]
    pub fn take(&self, _py: Python<'_>) -> Vec<u8> {
        self.0.take()
    }

    /// Keep a vector for the next use, unless it is larger than `size_max`.
    #[inline]
    pub fn keep(&self, _py: Python<'_>, vector: Vec<u8>, size_max: usize) {
        if vector.capacity() <= size_max {
            self.0.set(vector);
        }
    }
}
