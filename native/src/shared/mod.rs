//! What all rooms use: the border to Python, arrays, numbers, hashing.

pub mod arrays;
pub mod border;
pub mod bytes;
pub mod decline;
pub mod folding;
pub mod layout;
