//! Sends of producers are taken from the bytes of their connections, stored and answered, in one
//! call. `frame`, `header`, `json`, `binary`, `send`, `unusual`, `answer` and `room` know no Python;
//! `lane` shows them to Python. `values` reads other requests, which Python answers.

mod answer;
mod binary;
mod frame;
mod header;
mod json;
pub mod lane;
mod room;
mod send;
pub mod sockets;
#[cfg(test)]
mod tests;
mod unusual;
pub mod values;
