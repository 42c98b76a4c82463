//! A message becomes the bytes of a record.

pub mod limits;
pub mod message;
pub mod propertytext;
pub mod record;
