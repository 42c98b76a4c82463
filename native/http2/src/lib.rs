//! The server's side of HTTP/2 connections, without sockets: bytes go in, events and bytes come out.
//!
//! The protocol is the crate `h2`'s; `pipe` is what it reads and writes instead of a socket, `wakes`
//! says which streams it has news of, `stream` is one stream, and `connection` brings them together.
//! `python` shows a connection to Python: see `reput_server.grpc.transport.http2`, whose words are not
//! repeated here.

mod connection;
mod pipe;
mod python;
mod stream;
#[cfg(test)]
mod tests;
mod wakes;

pub use python::Http2Connection;
