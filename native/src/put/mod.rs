//! Messages are appended to the log. `end`, `queues`, `region` and `table` know no Python.

pub mod appender;
mod body;
pub mod chunk;
mod columns;
pub mod end;
pub mod interest;
pub mod pieces;
pub mod putter;
mod queues;
mod receipt;
mod refusal;
mod region;
pub mod rows;
pub mod shared;
mod table;
mod target;
#[cfg(test)]
pub mod tests;
