//! Threads wait for the disk.

pub mod requests;
pub mod turns;
