//! What records hold of their store's configuration.

use pyo3::prelude::*;

use crate::encode::message::load_class;
use crate::shared::layout::HOST_SIZE;

/// Host and limits of a `reput.record.encoding.encoder.Encoder`.
#[derive(Clone, Copy)]
pub struct Limits {
    pub store_host: [u8; HOST_SIZE],
    /// Bytes of a body.
    pub body_max: usize,
}

impl Limits {
    /// `None` for a store whose records hold more: an IPv6 host, or a record checksum.
    ///
    /// Whoever encodes asks for them first, so this is where Python code runs that may raise.
    pub fn of(encoder: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        load_class(encoder.py())?;
        let has_crc: bool = encoder.getattr("record_crc")?.extract()?;
        let host: Vec<u8> = encoder.getattr("store_host")?.extract()?;
        let body_max: usize = encoder.getattr("max_message_size")?.extract()?;
        let (Ok(store_host), false) = (host.try_into(), has_crc) else {
            return Ok(None);
        };
        // The size of a record is an int32.
        let body_max = body_max.min(1 << 30);
        Ok(Some(Self {
            store_host,
            body_max,
        }))
    }
}
