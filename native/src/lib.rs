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

mod arrow;
mod derive;
mod encode;
mod flush;
mod put;
mod read;
mod serve;
mod shared;

/// Raised with every change of a kernel's arguments, answer or meaning; see `reput.engine`.
const INTERFACE: u32 = 25;

// Free-threaded builds are refused by `__init__.py`: kernels rely on the interpreter lock.
#[pyo3::pymodule(gil_used = true)]
mod _kernels {
    use pyo3::prelude::*;

    #[pymodule_export]
    use reput_http2::Http2Connection;

    #[pymodule_export]
    use crate::{
        arrow::texts::joined_texts,
        derive::hash::java_string_hash_column,
        derive::items::make_items,
        derive::keys::keys_of_texts,
        derive::maps::property_maps,
        derive::properties::property_places,
        derive::text::texts_of,
        derive::topics::topic_table,
        derive::units::units_by_queue,
        derive::window::cut_window,
        flush::requests::FlushRequests,
        flush::turns::FlushLeader,
        put::appender::Appender,
        put::chunk::append_rows,
        put::interest::{concerns_any, concerns_columns},
        put::pieces::write_pieces,
        put::rows::{queue_offsets_of_rows, rows_of_columns, rows_of_messages},
        read::mapsize::map_size,
        read::pieces::read_pieces,
        read::sound::{sound_columns, sound_messages},
        read::view::MessageView,
        read::whole::read_whole,
        serve::lane::send_lane,
        serve::sockets::write_sockets,
        serve::values::plain_values,
        shared::border::provoke_panic,
        shared::layout::layout,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::shared::arrays::load_numpy(module.py())?;
        module.add("INTERFACE", crate::INTERFACE)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
