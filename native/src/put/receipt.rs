//! Receipts of single messages.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use crate::encode::record::Place;

/// `reput.log.writer.receipts.Receipt`, and how its objects are made.
pub struct ReceiptClass {
    class: Py<PyType>,
    /// Whether an object that is allocated, and then filled, is like one that `tuple.__new__` made.
    /// It is not where a tuple keeps its hash (CPython 3.14), which the allocator sets to zero.
    is_filled: bool,
}

static RECEIPT: PyOnceLock<ReceiptClass> = PyOnceLock::new();

type Items<'py> = [Bound<'py, PyAny>; 7];

impl ReceiptClass {
    /// Find the class before a message is stored: it is Python code that finds it, which may raise.
    pub fn load(py: Python<'_>) -> PyResult<&'static Self> {
        RECEIPT.get_or_try_init(py, || Self::find(py))
    }

    fn find(py: Python<'_>) -> PyResult<Self> {
        let class = py
            .import("reput.log.writer.receipts")?
            .getattr("Receipt")?
            .cast_into::<PyType>()?;
        let items: Items<'_> = std::array::from_fn(|_| py.None().into_bound(py));
        let expected = PyTuple::new(py, &items)?.hash()?;
        let is_filled = filled(&class, items)?.hash()? == expected;
        let class = class.unbind();
        Ok(Self { class, is_filled })
    }
}

/// A receipt, made as `tuple.__new__` makes it.
pub fn receipt<'py>(
    log: &Bound<'py, PyAny>,
    topic: Bound<'py, PyAny>,
    queue_id: Bound<'py, PyAny>,
    place: &Place,
    size: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = log.py();
    let known = ReceiptClass::load(py)?;
    let class = known.class.bind(py);
    let number = |value: i64| value.into_pyobject(py).map(Bound::into_any);
    let items = [
        log.clone(),
        topic,
        queue_id,
        number(place.queue_offset)?,
        number(place.physical_offset)?,
        number(size as i64)?,
        number(place.store_timestamp)?,
    ];
    if known.is_filled {
        return filled(class, items);
    }
    let new = py.get_type::<PyTuple>().getattr("__new__")?;
    new.call1((class, PyTuple::new(py, items)?))
}

#[inline(always)] // the array would be copied
fn filled<'py>(class: &Bound<'py, PyType>, items: Items<'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: the class is a named tuple of seven, so it has the layout of a tuple, and its object
    // is filled before anybody else sees it. `PyTuple_SetItem` takes the reference over.
    unsafe {
        let made = ffi::PyType_GenericAlloc(class.as_ptr().cast(), items.len() as ffi::Py_ssize_t);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        for (place, item) in (0..).zip(items) {
            if ffi::PyTuple_SetItem(made.as_ptr(), place, item.into_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(made)
    }
}
