//! What all rooms use: the border to Python, arrays, numbers, hashing.

pub mod arrays;
pub mod border;
pub mod bytes;
pub mod decline;
pub mod folding;
pub mod gil;
pub mod layout;

/// How many cases a test of any values tries; what fails is printed, and noted in no file.
#[cfg(test)]
pub fn any_case() -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases: if cfg!(miri) { 3 } else { 500 },
        failure_persistence: None,
        ..Default::default()
    }
}
