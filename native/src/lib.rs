//! Compiled kernels of reput: each is a Python function of reput's, which says what it does.
//!
//! A kernel is handed arrays and answers with arrays. It knows bytes and numbers only: no file, no
//! store, no plugin. What it is not made for (an array of another type, a row that leaves its
//! window) it answers with `NotImplemented`, and `reput.engine` calls the Python function instead:
//! so errors have the same types and texts, whichever engine runs.
//!
//! While a kernel runs, nobody may write to the arrays that it was handed. Their owners see to that:
//! the reader of a window uses its buffer again after the batch is done with, and an index holds a
//! lock around its slots.

mod derive;
mod encode;
mod flush;
mod put;
mod read;
mod shared;

use pyo3::prelude::*;

/// Raised with every change of a kernel's arguments, answer or meaning; see `reput.engine`.
const INTERFACE: u32 = 7;

// Free-threaded builds are refused by `__init__.py`: kernels rely on the interpreter lock.
#[pymodule(gil_used = true)]
fn _kernels(module: &Bound<'_, PyModule>) -> PyResult<()> {
    shared::arrays::load_numpy(module.py())?;
    module.add("INTERFACE", INTERFACE)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<put::appender::Appender>()?;
    module.add_class::<flush::turns::FlushTurns>()?;
    module.add_function(wrap_pyfunction!(shared::border::provoke_panic, module)?)?;
    module.add_function(wrap_pyfunction!(
        derive::hash::java_string_hash_column,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(encode::layout::layout, module)?)?;
    module.add_function(wrap_pyfunction!(put::interest::concerns_any, module)?)?;
    module.add_function(wrap_pyfunction!(derive::items::make_items, module)?)?;
    module.add_function(wrap_pyfunction!(derive::keys::keys_of_texts, module)?)?;
    module.add_function(wrap_pyfunction!(read::pieces::read_pieces, module)?)?;
    module.add_function(wrap_pyfunction!(
        derive::properties::property_places,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(put::chunk::append_rows, module)?)?;
    module.add_function(wrap_pyfunction!(put::rows::queue_offsets_of_rows, module)?)?;
    module.add_function(wrap_pyfunction!(put::rows::rows_of_columns, module)?)?;
    module.add_function(wrap_pyfunction!(put::rows::rows_of_messages, module)?)?;
    module.add_function(wrap_pyfunction!(read::sound::sound_messages, module)?)?;
    module.add_function(wrap_pyfunction!(derive::topics::topic_table, module)?)?;
    module.add_function(wrap_pyfunction!(derive::units::units_by_queue, module)?)?;
    module.add_class::<read::view::MessageView>()?;
    module.add_function(wrap_pyfunction!(derive::window::cut_window, module)?)
}
