//! Answers to sends; see `reput_client.remoting.framing.answerframes`.

use std::io::Write;

use crate::encode::record::Place;
use crate::shared::decline::Decline;

const PIECES: usize = 6;
const START_SIZE: usize = 8; // of a frame: its length, and that of its header
const LENGTH_SIZE: usize = 4;
const NUMBERS_SIZE: usize = 80; // more than the numbers in an answer take

/// What all answers have in common.
pub struct Answers {
    /// The header in front of, between and behind the message id, the queue's id, the queue offset,
    /// the key and the request's number.
    pieces: [Box<[u8]>; PIECES],
    /// How message ids begin.
    host: Box<[u8]>,
    size: usize,
}

impl Answers {
    /// `None` if there are not six pieces.
    pub fn new(pieces: Vec<Box<[u8]>>, host: Box<[u8]>) -> Option<Self> {
        let size = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        Some(Self {
            size: START_SIZE + size + host.len() + NUMBERS_SIZE,
            pieces: pieces.try_into().ok()?,
            host,
        })
    }

    /// Have memory for one more answer.
    #[inline]
    pub fn reserve(&self, out: &mut Vec<u8>, key: &[u8]) -> Result<(), Decline> {
        Ok(out.try_reserve(self.size + key.len())?)
    }

    /// Write the answer to a send; `reserve` was called for it.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, opaque: i32, queue_id: i32, place: &Place, key: &[u8]) {
        let [first, second, third, fourth, fifth, last] = &self.pieces;
        let begin = out.len();
        out.extend_from_slice(&[0; START_SIZE]);
        out.extend_from_slice(first);
        out.extend_from_slice(&self.host);
        number(out, format_args!("{:016X}", place.physical_offset));
        out.extend_from_slice(second);
        number(out, format_args!("{queue_id}"));
        out.extend_from_slice(third);
        number(out, format_args!("{}", place.queue_offset));
        out.extend_from_slice(fourth);
        out.extend_from_slice(key);
        out.extend_from_slice(fifth);
        number(out, format_args!("{opaque}"));
        out.extend_from_slice(last);
        let size = (out.len() - begin - START_SIZE) as u32;
        let start = &mut out[begin..begin + START_SIZE];
        start[..LENGTH_SIZE].copy_from_slice(&(size + LENGTH_SIZE as u32).to_be_bytes());
        start[LENGTH_SIZE..].copy_from_slice(&size.to_be_bytes());
    }
}

#[inline]
fn number(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // To write to memory cannot fail.
    let _ = out.write_fmt(text);
}
