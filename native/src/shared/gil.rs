//! State that the interpreter lock guards.

use std::cell::{Ref, RefCell, RefMut};

use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// A value that whoever has the interpreter lock may borrow.
///
/// It is never borrowed while Python code may run, nor while Python allocates or frees, which may
/// run destructors: these put messages, too. What is taken out is dropped after the borrow.
#[derive(Default)]
pub struct GilCell<T>(RefCell<T>);

// SAFETY: whoever borrows shows a token of the interpreter lock, or is called by the collector,
// which has it. So one thread at a time asks whether the value is borrowed, and marks it. A borrow
// ends on its thread while that has the lock, as it is bound to the token and cannot be sent. Were
// the lock given up in between, other threads would find the mark, and panic. Builds of Python
// without the lock, and interpreters with a lock of their own, are refused.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    #[inline]
    pub fn borrow<'a>(&'a self, _py: Python<'a>) -> RefMut<'a, T> {
        self.0.borrow_mut()
    }

    /// For the collector, beside which nobody has borrowed it.
    pub fn visited<'a>(&'a self, _visit: &PyVisit<'a>) -> Option<Ref<'a, T>> {
        self.0.try_borrow().ok()
    }
}

impl GilCell<Vec<u8>> {
    /// Lend the vector, empty or not. Who asks meanwhile gets an empty one. It is kept for the next
    /// one who asks, unless it has become larger than `size_max`.
    #[inline]
    pub fn lend<T>(
        &self,
        py: Python<'_>,
        size_max: usize,
        work: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        let mut vector = std::mem::take(&mut *self.borrow(py));
        let answer = work(&mut vector);
        if vector.capacity() <= size_max {
            *self.borrow(py) = vector;
        }
        answer
    }
}
