//! Records become messages again.

pub mod mapsize;
pub mod pieces;
pub mod sound;
pub mod view;
pub mod whole;
