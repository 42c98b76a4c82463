//! Headers in RocketMQ's binary form; see `reput_client.remoting.framing.binaryheader`. `None` stands for
//! one that is not valid, or whose texts are not UTF-8: Python reads that one.

use crate::serve::header::{Header, Text};
use crate::shared::bytes::{be_i16, be_i32};

const FIXED_SIZE: usize = 17; // code, language, version, opaque, flag, size of the remark
const SIZE_SIZE: usize = 4;
const NAME_SIZE_SIZE: usize = 2;
const REPLACED: &[u8] = "\u{FFFD}".as_bytes(); // Python has it where there is no text

/// Read a header.
pub fn read_binary(bytes: &[u8], header: &mut Header) -> Option<()> {
    if bytes.len() < FIXED_SIZE + SIZE_SIZE {
        return None;
    }
    header.code = i32::from(be_i16(bytes, 0));
    header.opaque = be_i32(bytes, 5);
    header.flag = be_i32(bytes, 9);
    let remark = text_at(bytes, FIXED_SIZE, be_i32(bytes, 13))?;
    let at = FIXED_SIZE + remark.1;
    let size = usize::try_from(be_i32(bytes.get(..at + SIZE_SIZE)?, at)).ok()?;
    let mut at = at + SIZE_SIZE;
    let end = at.checked_add(size)?;
    let fields = bytes.get(..end)?;
    while at < end {
        let size = be_i16(fields.get(..at + NAME_SIZE_SIZE)?, at);
        at += NAME_SIZE_SIZE;
        let (name, size) = text_at(fields, at, i32::from(size))?;
        at += size;
        let size = be_i32(fields.get(..at + SIZE_SIZE)?, at);
        at += SIZE_SIZE;
        let (value, size) = text_at(fields, at, size)?;
        at += size;
        header.add(bytes, name, value, true)?;
    }
    Some(())
}

/// A text, and how many bytes it has.
fn text_at(bytes: &[u8], at: usize, size: i32) -> Option<(Text, usize)> {
    let size = usize::try_from(size).ok()?;
    let text = bytes.get(at..)?.get(..size)?;
    let is_text = std::str::from_utf8(text).is_ok()
        && !text.windows(REPLACED.len()).any(|part| part == REPLACED);
    is_text.then_some((Text::new(at, at + size, false)?, size))
}
