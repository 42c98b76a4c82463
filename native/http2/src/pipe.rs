//! What `h2` reads and writes instead of a socket.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Default)]
struct Bytes {
    read: Vec<u8>,
    read_to: usize,
    written: Vec<u8>,
    is_ended: bool,
}

/// One end is `h2`'s, the other one is ours.
#[derive(Clone, Default)]
pub struct Pipe(Arc<Mutex<Bytes>>);

impl Pipe {
    fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Have `h2` read `data` after what it has not read yet.
    pub fn feed(&self, data: &[u8]) {
        let mut bytes = self.bytes();
        let read_to = std::mem::take(&mut bytes.read_to);
        bytes.read.drain(..read_to);
        bytes.read.extend_from_slice(data);
    }

    /// Nothing follows what was fed.
    pub fn end(&self) {
        self.bytes().is_ended = true;
    }

    /// What `h2` has written since the last call. It is never told to wait: the streams' windows
    /// bound what it writes.
    pub fn take_written(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes().written)
    }
}

impl AsyncRead for Pipe {
    // Nobody is woken: whoever feeds bytes polls, too.
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = self.bytes();
        let left = bytes.read.len() - bytes.read_to;
        if left == 0 && !bytes.is_ended {
            return Poll::Pending;
        }
        let count = left.min(buffer.remaining());
        buffer.put_slice(&bytes.read[bytes.read_to..bytes.read_to + count]);
        bytes.read_to += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.bytes().written.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
