//! Messages are appended to the log.

pub mod appender;
pub mod chunk;
pub mod columns;
pub mod interest;
mod putter;
pub mod queues;
pub mod rows;
pub mod target;
