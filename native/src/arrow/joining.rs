//! Property texts of many rows, joined of columns; see `reput_arrow.propertytexts.joined_texts`.
//! No Python is in here; `arrays` and `texts` show it to Python.

use std::ops::Range;

use crate::shared::decline::{Decline, declined_unless, room};
use crate::shared::layout::{KEY_SEPARATOR, NAME_END, PROPERTY_CRC, PROPERTY_KEYS, VALUE_END};

const TEXT_SIZE: usize = 96; // of most property texts
const TEXTS_MAX: usize = 16 << 20; // bytes that are asked for ahead

/// Which rows have a value.
pub enum Valid {
    All,
    /// A bit for each row, from the bit `first` on.
    Bits {
        bits: Vec<u8>,
        first: usize,
    },
}

/// Rows as ranges of something.
pub struct Ranges {
    /// Where each row ends; in front of them a zero.
    ends: Vec<usize>,
    valid: Valid,
}

impl Ranges {
    /// `ends` ascend from 0 on, and `valid` has a bit for each row.
    pub fn new(ends: Vec<usize>, valid: Valid) -> Self {
        Self { ends, valid }
    }

    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// How many there are of what the rows are ranges of.
    pub fn end(&self) -> usize {
        self.ends[self.len()]
    }

    #[inline]
    fn get(&self, row: usize) -> Option<Range<usize>> {
        let has_value = match &self.valid {
            Valid::All => true,
            Valid::Bits { bits, first } => bits[(first + row) / 8] >> ((first + row) % 8) & 1 == 1,
        };
        has_value.then(|| self.ends[row]..self.ends[row + 1])
    }
}

/// Texts, each of which may be missing.
pub struct Texts {
    places: Ranges,
    data: Vec<u8>,
}

impl Texts {
    /// `data` is as long as `places` say.
    pub fn new(places: Ranges, data: Vec<u8>) -> Self {
        Self { places, data }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    fn get(&self, row: usize) -> Option<&[u8]> {
        self.places.get(row).map(|place| &self.data[place])
    }
}

/// A column whose rows are values of one property.
pub enum Values {
    Texts(Texts),
    /// Lists of words, which are joined.
    Words(Ranges, Texts),
}

impl Values {
    pub fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Words(rows, _) => rows.len(),
        }
    }

    fn texts(&self) -> &Texts {
        match self {
            Self::Texts(texts) | Self::Words(_, texts) => texts,
        }
    }

    /// The value of a row; `joined` is memory for it.
    #[inline]
    fn get<'a>(&'a self, row: usize, joined: &'a mut Vec<u8>) -> Result<Option<&'a [u8]>, Decline> {
        let (rows, words) = match self {
            Self::Texts(texts) => return Ok(texts.get(row)),
            Self::Words(rows, words) => (rows, words),
        };
        joined.clear();
        let mut is_first = true;
        for word in rows.get(row).unwrap_or(0..0).filter_map(|at| words.get(at)) {
            declined_unless(!word.contains(&KEY_SEPARATOR))?;
            joined.try_reserve(word.len() + 1)?;
            if !is_first {
                joined.push(KEY_SEPARATOR);
            }
            joined.extend_from_slice(word);
            is_first = false;
        }
        Ok(Some(&**joined))
    }
}

/// Columns of one length, in the order in which their properties stand in a text.
pub struct Properties {
    pub count: usize,
    pub columns: Vec<(&'static str, Values)>,
    /// Rows, names and values of further properties.
    pub further: Option<(Ranges, Texts, Texts)>,
}

impl Properties {
    /// Bytes of all names and values.
    pub fn size(&self) -> usize {
        let columns = self.columns.iter().map(|(_, values)| values.texts());
        let further = self
            .further
            .iter()
            .flat_map(|(_, names, items)| [names, items]);
        columns.chain(further).map(|texts| texts.data.len()).sum()
    }

    /// Where texts begin, and the end; and the texts. What is no property text is declined.
    pub fn joined(&self) -> Result<(Vec<i64>, Vec<u8>), Decline> {
        let (mut borders, mut out) = (
            room(self.count + 1)?,
            room((self.count * TEXT_SIZE).min(TEXTS_MAX))?,
        );
        let (mut count, mut words) = (0, [const { vec![] }; 3]);
        borders.push(0);
        for row in 0..self.count {
            let mut given = [None; 3];
            for ((given, words), (name, values)) in
                given.iter_mut().zip(&mut words).zip(&self.columns)
            {
                // A message without words has no such property.
                let value = values.get(row, words)?;
                *given = value.filter(|value| *name != PROPERTY_KEYS || !value.is_empty());
            }
            count += self.join(row, given, &mut out)?;
            borders.push(out.len() as i64);
        }
        // Asked of what was copied. Ends of names and of values are no part of another character.
        let is_sound = ends_of_values(&out) == count && i32::try_from(out.len()).is_ok();
        declined_unless(is_sound && std::str::from_utf8(&out).is_ok())?;
        Ok((borders, out))
    }

    /// Append the text of a row with these values of the columns; how many entries it has.
    #[inline]
    fn join(
        &self,
        row: usize,
        given: [Option<&[u8]>; 3],
        out: &mut Vec<u8>,
    ) -> Result<usize, Decline> {
        let Some((rows, names, values)) = &self.further else {
            return self.add_columns(given, out);
        };
        let places = rows.get(row).unwrap_or(0..0);
        let mut left = given;
        for at in places.clone() {
            if values.get(at).is_some()
                && let Some(column) = self.column_of(names.get(at).ok_or(Decline::ToPython)?)
            {
                left[column] = None; // the entry takes the column's value, where it stands
            }
        }
        let mut count = self.add_columns(left, out)?;
        for at in places {
            let (Some(name), Some(value)) = (names.get(at), values.get(at)) else {
                continue;
            };
            let value = match self.column_of(name) {
                None if name == PROPERTY_CRC.as_bytes() => continue, // of another record
                None => {
                    let is_end = |byte: &u8| matches!(*byte, NAME_END | VALUE_END);
                    declined_unless(!name.is_empty() && !name.iter().any(is_end))?;
                    Some(value)
                }
                Some(column) if name == PROPERTY_KEYS.as_bytes() => {
                    declined_unless(std::str::from_utf8(value).is_ok())?;
                    // The same words stay as they are, whatever spaces are between them.
                    let given = given[column];
                    are_words(value, given.unwrap_or_default())
                        .then_some(value)
                        .or(given)
                }
                Some(column) => given[column],
            };
            if let Some(value) = value {
                count += 1;
                add(name, value, out)?;
            }
        }
        Ok(count)
    }

    fn add_columns(&self, values: [Option<&[u8]>; 3], out: &mut Vec<u8>) -> Result<usize, Decline> {
        let mut count = 0;
        for ((name, _), value) in self.columns.iter().zip(values) {
            if let Some(value) = value {
                count += 1;
                add(name.as_bytes(), value, out)?;
            }
        }
        Ok(count)
    }

    /// Which column has the values of that property.
    #[inline]
    fn column_of(&self, name: &[u8]) -> Option<usize> {
        // Most names are none of these: their first letters differ.
        let is = |column: &str| column.as_bytes().first() == name.first();
        let mut columns = self.columns.iter();
        columns.position(|(column, _)| is(column) && column.as_bytes() == name)
    }
}

#[inline]
fn add(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Decline> {
    out.try_reserve(name.len() + value.len() + 2)?;
    out.extend_from_slice(name);
    out.push(NAME_END);
    out.extend_from_slice(value);
    out.push(VALUE_END);
    Ok(())
}

/// How many values end; counted in bytes, which a processor compares many at a time.
fn ends_of_values(texts: &[u8]) -> usize {
    let parts = texts.chunks(usize::from(u8::MAX)).map(|part| {
        let ends = part.iter().map(|&byte| u8::from(byte == VALUE_END));
        usize::from(ends.sum::<u8>())
    });
    parts.sum()
}

/// Whether the words of a text, with one space between them, are that.
fn are_words(text: &[u8], joined: &[u8]) -> bool {
    let words = text.split(|&byte| byte == KEY_SEPARATOR);
    let mut words = words.filter(|word| !word.is_empty());
    match words.next() {
        None => joined.is_empty(),
        Some(first) => {
            let rest = words.try_fold(joined.strip_prefix(first), |rest, word| {
                let rest = rest?.strip_prefix(&[KEY_SEPARATOR])?;
                Some(rest.strip_prefix(word))
            });
            rest.flatten().is_some_and(<[u8]>::is_empty)
        }
    }
}
