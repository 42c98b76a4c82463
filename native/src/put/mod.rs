//! Messages are appended to the log. `end`, `queues`, `region` and `table` know no Python.

pub mod appender;
mod body;
pub mod chunk;
mod columns;
mod end;
pub mod interest;
mod numbers;
mod putter;
mod queues;
mod receipt;
mod region;
pub mod rows;
mod scratch;
mod shared;
mod table;
mod target;
#[cfg(test)]
mod tests;
