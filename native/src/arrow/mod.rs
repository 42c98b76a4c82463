//! Columns of Arrow become parts of messages. `joining` knows no Python.

mod arrays;
mod joining;
pub mod texts;

#[cfg(test)]
mod tests;
