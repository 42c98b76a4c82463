//! Property texts of messages; see `reput.record.messages.message.property_text`. A text that is
//! wrong, or unusual, is declined: Python makes it, or says what is wrong.

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySequence, PyString, PyTuple};

use crate::encode::message::{bytes, items, text, text_given};
use crate::shared::decline::{Decline, declined_unless};
use crate::shared::layout::{
    CRC_PROPERTY_SIZE, NAME_END, PROPERTIES_SIZE_MAX, PROPERTY_CRC, PROPERTY_INNER_NUM,
    PROPERTY_KEYS, PROPERTY_LIGHT_QUEUES, PROPERTY_TAGS, SECTOR_SIZE, VALUE_END,
};

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
    pub fn keys(&mut self, keys: Borrowed<'_, '_, PyAny>) -> Result<(), Decline> {
        if keys.is_none() {
            return Ok(());
        }
        if keys.is_exact_instance_of::<PyString>() {
            return self.keys_text(text(keys)?);
        }
        self.has_keys_or_tags = true;
        let begin = self.out.len();
        let is_plain =
            keys.is_exact_instance_of::<PyList>() || keys.is_exact_instance_of::<PyTuple>();
        declined_unless(is_plain)?;
        let words = keys.cast::<PySequence>().map_err(|_| Decline::ToPython)?;
        for place in 0..words.len().map_err(|_| Decline::ToPython)? {
            let word = words.get_item(place).map_err(|_| Decline::ToPython)?;
            self.key(begin, text(word.as_borrowed())?)?;
        }
        if self.out.len() > begin {
            self.out.push(VALUE_END); // `key` has room for it
        }
        Ok(())
    }

    /// The property `KEYS`: a text of words.
    #[inline]
    pub fn keys_text(&mut self, keys: &str) -> Result<(), Decline> {
        self.has_keys_or_tags = true;
        if keys.is_empty() {
            return Ok(());
        }
        self.add(PROPERTY_KEYS.as_bytes(), keys.as_bytes())
    }

    /// One word of the keys that begin at `begin`. An empty one that is not alone is Python's.
    fn key(&mut self, begin: usize, word: &str) -> Result<(), Decline> {
        let is_end = |byte| byte == b' ' || byte == VALUE_END;
        declined_unless(!word.is_empty() && !word.bytes().any(is_end))?;
        self.out.try_reserve(PROPERTY_KEYS.len() + word.len() + 2)?;
        if self.out.len() == begin {
            self.out.extend_from_slice(PROPERTY_KEYS.as_bytes());
            self.out.push(NAME_END);
        } else {
            self.out.push(b' ');
        }
        self.out.extend_from_slice(word.as_bytes());
        Ok(())
    }

    /// The property `TAGS`. Python warns of several, as no filter selects such a message.
    #[inline]
    pub fn tags(&mut self, tags: Borrowed<'_, '_, PyAny>) -> Result<(), Decline> {
        text_given(tags)?.map_or(Ok(()), |tags| {
            declined_unless(!tags.contains("||"))?;
            self.tags_text(tags)
        })
    }

    #[inline]
    pub fn tags_text(&mut self, tags: &str) -> Result<(), Decline> {
        self.has_keys_or_tags = true;
        self.add(PROPERTY_TAGS.as_bytes(), tags.as_bytes())
    }

    /// Further properties: a dict of texts, or one encoded text.
    #[inline]
    pub fn properties(&mut self, given: Borrowed<'_, '_, PyAny>) -> Result<(), Decline> {
        if given.is_none() {
            return Ok(());
        }
        if given.is_exact_instance_of::<PyBytes>() {
            return self.encoded(bytes(given)?);
        }
        let given = given.cast_exact::<PyDict>();
        for [name, value] in items(given.map_err(|_| Decline::ToPython)?) {
            self.named(text(name)?, text_given(value)?)?;
        }
        Ok(())
    }

    /// One further property; only its name is looked at where it has no value.
    #[inline]
    pub fn named(&mut self, name: &str, value: Option<&str>) -> Result<(), Decline> {
        let is_other = name.is_empty()
            || name
                .bytes()
                .any(|byte| byte == NAME_END || byte == VALUE_END)
            || name == PROPERTY_LIGHT_QUEUES
            || name == PROPERTY_INNER_NUM
            || self.has_keys_or_tags && (name == PROPERTY_KEYS || name == PROPERTY_TAGS);
        declined_unless(!is_other)?;
        value.map_or(Ok(()), |value| self.add(name.as_bytes(), value.as_bytes()))
    }

    /// A whole property text. It holds keys and tags, so none may have been given.
    #[inline]
    pub fn encoded(&mut self, text: &[u8]) -> Result<(), Decline> {
        const SPECIAL: &[u8] = b"INNER_";
        // Two of its letters, one after the other, are in few texts, and are looked for 16 at a time.
        let pairs = text.iter().zip(text.get(1..).unwrap_or_default());
        let has_pair = pairs.fold(false, |found, pair| found | (pair == (&b'N', &b'N')));
        let is_special = has_pair && text.windows(SPECIAL.len()).any(|part| part == SPECIAL);
        declined_unless(!(self.has_keys_or_tags || is_special))?;
        self.whole(text)
    }

    /// A part of a whole property text, of which its owner knows what it holds.
    #[inline]
    pub fn whole(&mut self, part: &[u8]) -> Result<(), Decline> {
        self.out.try_reserve(part.len())?;
        self.out.extend_from_slice(part);
        Ok(())
    }

    /// What was written until now.
    #[inline]
    pub fn so_far(&self) -> &[u8] {
        &self.out[self.begin..]
    }

    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), Decline> {
        // A value may hold the other separator.
        declined_unless(!value.contains(&VALUE_END))?;
        self.out.try_reserve(name.len() + value.len() + 2)?;
        self.out.extend_from_slice(name);
        self.out.push(NAME_END);
        self.out.extend_from_slice(value);
        self.out.push(VALUE_END);
        Ok(())
    }

    /// The size of the whole text, if a record can have it as it is.
    #[inline]
    pub fn end(self) -> Result<usize, Decline> {
        let text = &self.out[self.begin..];
        let is_other = text.len() > PROPERTIES_SIZE_MAX
            || text.last() == Some(&0)
            || ends_in_checksum(text)
            // Recovery would take one with so many zeros for a torn one.
            || text.len() >= SECTOR_SIZE && has_zeros(text);
        declined_unless(!is_other)?;
        Ok(text.len())
    }
}

/// Whether a text ends as that of a record with a checksum of all of it.
#[inline]
fn ends_in_checksum(text: &[u8]) -> bool {
    let tail = &text[text.len().saturating_sub(CRC_PROPERTY_SIZE)..];
    tail.strip_prefix(PROPERTY_CRC.as_bytes())
        .is_some_and(|rest| rest.first() == Some(&NAME_END))
}

fn has_zeros(text: &[u8]) -> bool {
    text.split(|&byte| byte != 0)
        .any(|zeros| zeros.len() >= SECTOR_SIZE)
}
