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

mod appender;
mod arrays;
mod border;
mod bytes;
mod columns;
mod folding;
mod hash;
mod interest;
mod items;
mod keys;
mod limits;
mod message;
mod pieces;
mod properties;
mod propertytext;
mod queues;
mod record;
mod rows;
mod sound;
mod target;
mod text;
mod topics;
mod turns;
mod units;
mod view;
mod window;

use pyo3::prelude::*;

/// Raised with every change of a kernel's arguments, answer or meaning; see `reput.engine`.
const INTERFACE: u32 = 6;

#[pymodule]
fn _kernels(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<appender::Appender>()?;
    module.add_class::<turns::FlushTurns>()?;
    module.add_function(wrap_pyfunction!(border::provoke_panic, module)?)?;
    module.add_function(wrap_pyfunction!(hash::java_string_hash_column, module)?)?;
    module.add_function(wrap_pyfunction!(interest::concerns_any, module)?)?;
    module.add_function(wrap_pyfunction!(items::make_items, module)?)?;
    module.add_function(wrap_pyfunction!(keys::keys_of_texts, module)?)?;
    module.add_function(wrap_pyfunction!(pieces::read_pieces, module)?)?;
    module.add_function(wrap_pyfunction!(properties::property_places, module)?)?;
    module.add_function(wrap_pyfunction!(rows::append_rows, module)?)?;
    module.add_function(wrap_pyfunction!(rows::queue_offsets_of_rows, module)?)?;
    module.add_function(wrap_pyfunction!(rows::rows_of_columns, module)?)?;
    module.add_function(wrap_pyfunction!(rows::rows_of_messages, module)?)?;
    module.add_function(wrap_pyfunction!(sound::sound_messages, module)?)?;
    module.add_function(wrap_pyfunction!(topics::topic_table, module)?)?;
    module.add_function(wrap_pyfunction!(units::units_by_queue, module)?)?;
    module.add_class::<view::MessageView>()?;
    module.add_function(wrap_pyfunction!(window::cut_window, module)?)
}
