//! Property texts of messages; see `reput.record.messages.message.property_text`.
//!
//! `None` stands for a text that is wrong, or unusual: Python makes it, or says what is wrong.

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::encode::message::{bytes, text};

const NAME_END: u8 = 1;
const VALUE_END: u8 = 2;
const SIZE_MAX: usize = 32_767;
const SECTOR_SIZE: usize = 512;
const CRC_NAME: &[u8] = b"__CRC32#\x01";
const CRC_SIZE: usize = CRC_NAME.len() + 11;

/// A property text that is being written at the end of a vector.
pub struct PropertyText<'a> {
    out: &'a mut Vec<u8>,
    begin: usize,
    has_keys_or_tags: bool,
}

impl<'a> PropertyText<'a> {
    #[inline]
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        let begin = out.len();
        Self {
            out,
            begin,
            has_keys_or_tags: false,
        }
    }

    /// The property `KEYS`: a text, or a list or tuple of words.
    #[inline]
    pub fn keys(&mut self, keys: Borrowed<'_, '_, PyAny>) -> Option<()> {
        if keys.is_none() {
            return Some(());
        }
        self.has_keys_or_tags = true;
        if keys.is_exact_instance_of::<PyString>() {
            let keys = text(keys)?;
            return if keys.is_empty() {
                Some(())
            } else {
                self.of_field(b"KEYS", keys)
            };
        }
        let mut joined = String::new();
        let mut add = |place: usize, word: Borrowed<'_, '_, PyAny>| {
            let word = text(word)?;
            if place > 0 {
                joined.push(' ');
            }
            joined.push_str(word);
            (!word.contains(' ')).then_some(())
        };
        if let Ok(words) = keys.cast_exact::<PyList>() {
            for place in 0..words.len() {
                add(place, words.get_item(place).ok()?.as_borrowed())?;
            }
        } else {
            let words = keys.cast_exact::<PyTuple>().ok()?;
            for place in 0..words.len() {
                add(place, words.get_borrowed_item(place).ok()?)?;
            }
        }
        if joined.is_empty() {
            Some(())
        } else {
            self.of_field(b"KEYS", &joined)
        }
    }

    /// The property `TAGS`.
    #[inline]
    pub fn tags(&mut self, tags: Borrowed<'_, '_, PyAny>) -> Option<()> {
        if tags.is_none() {
            Some(())
        } else {
            self.of_field(b"TAGS", text(tags)?)
        }
    }

    #[inline]
    pub fn of_field(&mut self, name: &[u8], value: &str) -> Option<()> {
        self.has_keys_or_tags = true;
        self.add(name, value.as_bytes())
    }

    /// Further properties: a dict of texts, or one encoded text.
    #[inline]
    pub fn properties(&mut self, given: Borrowed<'_, '_, PyAny>) -> Option<()> {
        if given.is_none() {
            return Some(());
        }
        if let Some(encoded) = bytes(given) {
            return self.encoded(encoded);
        }
        for (name, value) in given.cast_exact::<PyDict>().ok()?.iter() {
            let name = text(name.as_borrowed())?;
            if value.is_none() {
                self.check_name(name)?;
            } else {
                self.named(name, text(value.as_borrowed())?)?;
            }
        }
        Some(())
    }

    /// One further property.
    #[inline]
    pub fn named(&mut self, name: &str, value: &str) -> Option<()> {
        self.check_name(name)?;
        self.add(name.as_bytes(), value.as_bytes())
    }

    /// `None` unless a property of that name is as good as any other.
    #[inline]
    pub fn check_name(&self, name: &str) -> Option<()> {
        let is_other = name.is_empty()
            || name
                .bytes()
                .any(|byte| byte == NAME_END || byte == VALUE_END)
            || name == "INNER_MULTI_DISPATCH"
            || name == "INNER_NUM"
            || self.has_keys_or_tags && (name == "KEYS" || name == "TAGS");
        (!is_other).then_some(())
    }

    /// A whole property text. It holds keys and tags, so none may have been given.
    #[inline]
    pub fn encoded(&mut self, text: &[u8]) -> Option<()> {
        const SPECIAL: &[u8] = b"INNER_";
        if self.has_keys_or_tags || text.windows(SPECIAL.len()).any(|part| part == SPECIAL) {
            return None;
        }
        self.out.extend_from_slice(text);
        Some(())
    }

    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        self.out.reserve(name.len() + value.len() + 2);
        self.out.extend_from_slice(name);
        self.out.push(NAME_END);
        self.out.extend_from_slice(value);
        self.out.push(VALUE_END);
        // A value may hold the other separator.
        (!value.contains(&VALUE_END)).then_some(())
    }

    /// The size of the whole text, if a record can have it as it is.
    #[inline]
    pub fn end(self) -> Option<usize> {
        let text = &self.out[self.begin..];
        let tail = &text[text.len().saturating_sub(CRC_SIZE)..];
        if text.len() > SIZE_MAX || text.last() == Some(&0) || tail.starts_with(CRC_NAME) {
            return None;
        }
        if text.len() >= SECTOR_SIZE && has_zeros(text) {
            return None; // recovery would take it for a torn one
        }
        Some(text.len())
    }
}

fn has_zeros(text: &[u8]) -> bool {
    text.split(|&byte| byte != 0)
        .any(|zeros| zeros.len() >= SECTOR_SIZE)
}
