//! Messages are appended to the log. `end`, `queues`, `region` and `table` know no Python.

pub mod appender;
mod body;
pub mod chunk;
mod columns;
mod end;
pub mod interest;
mod putter;
mod queues;
mod receipt;
mod refusal;
mod region;
pub mod rows;
mod shared;
mod table;
mod target;
#[cfg(test)]
mod tests;
