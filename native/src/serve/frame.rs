//! Where frames begin and end; see `reput_client.remoting.framing.frames`.

use crate::shared::bytes::{be_i32, be_u32};

const LENGTH_SIZE: usize = 4;
const START_SIZE: usize = 8; // the length, the header's kind and length
const KIND_SHIFT: u32 = 24;

/// One whole frame.
pub struct Frame<'a> {
    /// Bytes of all of it.
    pub size: usize,
    pub is_binary: bool,
    pub header: &'a [u8],
    pub body: &'a [u8],
}

/// The frame with which `bytes` begin; `None` if it is not whole, not valid, or longer than that.
#[inline]
pub fn first_frame(bytes: &[u8], frame_max: usize, header_max: usize) -> Option<Frame<'_>> {
    if bytes.len() < START_SIZE {
        return None;
    }
    let size = usize::try_from(be_i32(bytes, 0)).ok()? + LENGTH_SIZE;
    let word = be_u32(bytes, LENGTH_SIZE);
    let kind = word >> KIND_SHIFT;
    let header_size = (word & ((1 << KIND_SHIFT) - 1)) as usize;
    if kind > 1 || size > frame_max || header_size > header_max {
        return None;
    }
    let (header, body) = bytes.get(START_SIZE..size)?.split_at_checked(header_size)?;
    Some(Frame {
        size,
        is_binary: kind == 1,
        header,
        body,
    })
}
