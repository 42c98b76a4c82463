//! Headers in JSON, as clients write them. `None` stands for any other: Python reads that one.
//! See `reput_server.broker.send.fastpathrequest`, which says what is read here.

use crate::serve::header::{Header, Text};

/// Read a header.
pub fn read_json(bytes: &[u8], header: &mut Header) -> Option<()> {
    std::str::from_utf8(bytes).ok()?;
    let mut reader = Reader { bytes, at: 0 };
    let mut seen = 0_u8;
    reader.blanks();
    reader.expect(b'{')?;
    reader.blanks();
    if reader.next()? != b'}' {
        loop {
            reader.member(header, &mut seen)?;
            if reader.ends(b'}')? {
                break;
            }
        }
    } else {
        reader.at += 1;
    }
    reader.blanks();
    (reader.at == bytes.len() && seen & 1 != 0).then_some(())
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// One member of the header, each of which may stand there once. The code's is the first bit.
    #[inline]
    fn member(&mut self, header: &mut Header, seen: &mut u8) -> Option<()> {
        let name = self.name(header)?;
        let bit = match header.bytes(self.bytes, name) {
            b"code" if !name.has_escapes => {
                header.code = self.integer()?;
                0
            }
            b"extFields" => {
                self.fields(header)?;
                1
            }
            b"flag" => {
                header.flag = self.integer()?;
                2
            }
            b"language" => {
                self.string(header)?;
                3
            }
            b"opaque" => {
                header.opaque = self.integer()?;
                4
            }
            b"remark" => {
                if self.bytes[self.at..].starts_with(b"null") {
                    self.at += 4;
                } else {
                    self.string(header)?;
                }
                5
            }
            b"serializeTypeCurrentRPC" => {
                self.string(header)?;
                6
            }
            b"version" => {
                self.integer()?;
                7
            }
            _ => return None,
        };
        let is_first = *seen >> bit & 1 == 0;
        *seen |= 1 << bit;
        is_first.then_some(())
    }

    fn fields(&mut self, header: &mut Header) -> Option<()> {
        self.expect(b'{')?;
        self.blanks();
        if self.next()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let name = self.name(header)?;
            let value = self.string(header)?;
            header.add(self.bytes, name, value, false)?;
            if self.ends(b'}')? {
                return Some(());
            }
        }
    }

    /// A name and its colon.
    #[inline]
    fn name(&mut self, header: &mut Header) -> Option<Text> {
        let name = self.string(header)?;
        self.blanks();
        self.expect(b':')?;
        self.blanks();
        Some(name)
    }

    /// Whether an object ends here; otherwise a comma is passed over.
    #[inline]
    fn ends(&mut self, end: u8) -> Option<bool> {
        self.blanks();
        let found = self.next()?;
        self.at += 1;
        if found == end {
            return Some(true);
        }
        self.blanks();
        (found == b',').then_some(false)
    }

    #[inline]
    fn string(&mut self, header: &mut Header) -> Option<Text> {
        self.expect(b'"')?;
        let begin = self.at;
        let end = self.plain_end()?;
        self.at = end + 1;
        if self.bytes[end] == b'"' {
            return Text::new(begin, end, false);
        }
        let out = &mut header.unescaped;
        let unescaped = out.len();
        // Nothing becomes longer without its escapes.
        out.try_reserve(self.bytes.len()).ok()?;
        out.extend_from_slice(&self.bytes[begin..end]);
        loop {
            // Behind a backslash.
            let byte = self.next()?;
            self.at += 1;
            match byte {
                b'"' | b'/' => out.push(byte),
                b'\\' => {
                    out.push(byte);
                    // Python looks for these three in the text.
                    if let Some([b'u', b'd' | b'D', ..]) = self.bytes.get(self.at..) {
                        return None;
                    }
                }
                b'b' => out.push(8),
                b'f' => out.push(12),
                b'n' => out.push(b'\n'),
                b'r' => out.push(b'\r'),
                b't' => out.push(b'\t'),
                b'u' => {
                    let found = self.unicode()?;
                    out.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => return None,
            }
            let (begin, end) = (self.at, self.plain_end()?);
            out.extend_from_slice(&self.bytes[begin..end]);
            self.at = end + 1;
            if self.bytes[end] == b'"' {
                return Text::new(unescaped, out.len(), true);
            }
        }
    }

    /// Where the next quotation mark or backslash is; no control character may be before it.
    #[inline]
    fn plain_end(&self) -> Option<usize> {
        let is_end = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < b' ';
        let end = self.at + self.bytes[self.at..].iter().position(is_end)?;
        (self.bytes[end] >= b' ').then_some(end)
    }

    /// A character by its number. Of those that begin as halves of pairs do, Python reads each.
    #[inline]
    fn unicode(&mut self) -> Option<char> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        if matches!(digits[0], b'd' | b'D') {
            return None;
        }
        self.at += 4;
        let digit = |number: u32, &byte: &u8| Some(number << 4 | (byte as char).to_digit(16)?);
        char::from_u32(digits.iter().try_fold(0, digit)?)
    }

    /// An integer of 32 bits, without a fraction or an exponent: no comma would follow.
    #[inline]
    fn integer(&mut self) -> Option<i32> {
        let is_negative = self.next()? == b'-';
        self.at += usize::from(is_negative);
        let rest = &self.bytes[self.at..];
        let size = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &rest[..size];
        if digits.is_empty() || size > 10 || size > 1 && digits[0] == b'0' {
            return None;
        }
        self.at += size;
        let number = digits
            .iter()
            .fold(0_i64, |number, byte| number * 10 + i64::from(byte - b'0'));
        i32::try_from(if is_negative { -number } else { number }).ok()
    }

    #[inline]
    fn next(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        let is_so = self.next()? == byte;
        self.at += 1;
        is_so.then_some(())
    }

    #[inline]
    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.next() {
            self.at += 1;
        }
    }
}
