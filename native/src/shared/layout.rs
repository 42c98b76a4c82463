//! Numbers of the format, each once; a test compares them with `reput.record.layout`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

macro_rules! layout {
    ($($name:ident: $kind:ty = $value:expr;)*) => {
        $(pub const $name: $kind = $value;)*

        /// The numbers and texts of this module by their names.
        #[pyfunction]
        pub fn layout(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
            let found = PyDict::new(py);
            $(found.set_item(stringify!($name), $name)?;)*
            Ok(found)
        }
    };
}

layout! {
    MAGIC_V1: u32 = 0xDAA3_20A7;
    MAGIC_V2: u32 = 0xDAA3_20AB;
    BLANK_MAGIC: u32 = 0xCBD4_3194;
    BLANK_MIN_SIZE: i64 = 8;
    HEADER_SIZE: usize = 88;
    HOST_SIZE: usize = 8;
    HOST_EXTRA_V6: usize = 12;
    RECORD_MIN_SIZE: usize = 91;
    TOPIC_SIZE_V1_MAX: usize = 127;
    TOPIC_SIZE_MAX: usize = 255;
    PROPERTIES_SIZE_MAX: usize = 32_767;
    RETRY_PREFIX: &[u8] = b"%RETRY%";
    DEAD_LETTER_PREFIX: &[u8] = b"%DLQ%";
    TRANSACTION_MASK: i32 = 0xC;
    TRANSACTION_COMMIT: i32 = 0x8;
    BORN_HOST_V6: i32 = 0x10;
    STORE_HOST_V6: i32 = 0x20;
    NAME_END: u8 = 1;
    VALUE_END: u8 = 2;
    SECTOR_SIZE: usize = 512;
    PROPERTY_KEYS: &str = "KEYS";
    PROPERTY_TAGS: &str = "TAGS";
    PROPERTY_UNIQ_KEY: &str = "UNIQ_KEY";
    PROPERTY_CRC: &str = "__CRC32#";
    CRC_PROPERTY_SIZE: usize = 20;
    PROPERTY_LIGHT_QUEUES: &str = "INNER_MULTI_DISPATCH";
    PROPERTY_INNER_NUM: &str = "INNER_NUM";
}

pub const KEY_SEPARATOR: u8 = b' ';
pub const SIZE_SIZE: usize = 4; // the first field of `SIZE_AND_MAGIC`
pub const SIZE_AND_MAGIC_SIZE: usize = 8;
