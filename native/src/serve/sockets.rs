//! Sockets that Python owns: read and written once each, without waiting.

use std::io::{ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{FromRawFd, RawFd};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::shared::border::guarded;

/// A socket that stays Python's, and does not block.
pub struct Socket(ManuallyDrop<TcpStream>);

impl Socket {
    /// # Safety
    ///
    /// The descriptor stays open as long as this value is used.
    pub unsafe fn borrowed(descriptor: RawFd) -> Option<Self> {
        if descriptor < 0 {
            return None;
        }
        // SAFETY: see above; it is never dropped, and so never closed.
        let stream = unsafe { TcpStream::from_raw_fd(descriptor) };
        Some(Self(ManuallyDrop::new(stream)))
    }

    /// Read what has come: None if that is nothing, 0 bytes if nothing will come any more.
    pub fn read(&mut self, into: &mut [u8]) -> Option<usize> {
        match self.0.read(into) {
            Ok(size) => Some(size),
            Err(error) if is_passing(error.kind()) => None,
            Err(_) => Some(0),
        }
    }

    /// Write as much as the system takes now, and return how much that is.
    ///
    /// An error is left to whoever writes the rest.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        self.0.write(bytes).unwrap_or(0)
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// See `reput_server.wire.sockets.write_sockets`. The interpreter lock is kept, as to take it again
/// for each socket costs more.
#[pyfunction]
pub fn write_sockets<'py>(
    py: Python<'py>,
    answers: Vec<(RawFd, Bound<'py, PyBytes>)>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "write_sockets", || {
        let written = answers.iter().map(|(descriptor, bytes)| {
            // SAFETY: the caller owns the sockets, and closes none of them meanwhile, as the
            // interpreter lock is held.
            let socket = unsafe { Socket::borrowed(*descriptor) };
            socket.map_or(0, |mut socket| socket.write(bytes.as_bytes()))
        });
        Ok(written.collect::<Vec<_>>())
    })
}
