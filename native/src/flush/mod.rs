//! Threads wait for the disk.

pub mod turns;
