//! A window of the log becomes columns, and columns become units, keys and items.

pub mod hash;
pub mod items;
pub mod keys;
pub mod maps;
pub mod properties;
pub mod text;
pub mod topics;
pub mod units;
pub mod window;

#[cfg(test)]
mod tests;
