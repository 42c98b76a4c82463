//! A message becomes the bytes of a record.

pub mod decline;
pub mod layout;
pub mod limits;
pub mod message;
pub mod propertytext;
pub mod record;
