//! Columns of a `reput.Columns`, row by row; see `reput.record.encoding.many`. Columns of other
//! kinds, and wrong values, are declined.

use numpy::{Element, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::encode::decline::{Decline, Stop};
use crate::encode::message::{Numbers, integer, text};
use crate::encode::propertytext::PropertyText;
use crate::put::body::{Body, bytes_of_part};

/// Messages as columns of one length.
pub struct Columns<'py> {
    pub count: usize,
    topic: Texts<'py>,
    body: Bodies<'py>,
    tags: Texts<'py>,
    keys: Texts<'py>,
    properties: Properties<'py>,
    queue_id: Integers<'py>,
    flag: Integers<'py>,
    sys_flag: Integers<'py>,
    born_timestamp: Integers<'py>,
    reconsume_times: Integers<'py>,
    prepared_transaction_offset: Integers<'py>,
}

impl<'py> Columns<'py> {
    pub fn of(columns: &Bound<'py, PyAny>) -> Result<Self, Stop> {
        let column = |name: &str| columns.getattr(name);
        let body = Bodies::of(&column("body")?)?;
        let count = body.count();
        let texts = |name: &str| Texts::of(&column(name)?, count);
        let integers = |name: &str| Integers::of(&column(name)?, count);
        if count == 0 {
            return Err(Decline::ToPython.into());
        }
        Ok(Self {
            count,
            topic: texts("topic")?,
            body,
            tags: texts("tags")?,
            keys: texts("keys")?,
            properties: Properties::of(&column("properties")?, count)?,
            queue_id: integers("queue_id")?,
            flag: integers("flag")?,
            sys_flag: integers("sys_flag")?,
            born_timestamp: integers("born_timestamp")?,
            reconsume_times: integers("reconsume_times")?,
            prepared_transaction_offset: integers("prepared_transaction_offset")?,
        })
    }

    /// The topic of a row; of pairs Python makes it.
    #[inline]
    pub fn topic(&self, row: usize) -> Result<Bound<'py, PyAny>, Decline> {
        self.topic.object(row)
    }

    #[inline]
    pub fn body(&self, row: usize) -> Result<Body, Decline> {
        match &self.body {
            Bodies::List(bodies) => Body::whole(&item(bodies, row)?),
            Bodies::Pair(pair) => Body::part(&pair.data, pair.ends[row]..pair.ends[row + 1]),
        }
    }

    #[inline]
    pub fn numbers(&self, row: usize) -> Result<Numbers, Decline> {
        let numbers = Numbers {
            queue_id: self.queue_id.narrow(row)?,
            flag: self.flag.narrow(row)?,
            sys_flag: self.sys_flag.narrow(row)?,
            reconsume_times: self.reconsume_times.narrow(row)?,
            prepared_transaction_offset: self
                .prepared_transaction_offset
                .number(row)?
                .ok_or(Decline::ToPython)?,
            born_timestamp: self.born_timestamp.number(row)?,
            born_host: None,
        };
        numbers.checked()
    }

    #[inline]
    pub fn write_text(&self, row: usize, text: &mut PropertyText<'_>) -> Result<(), Decline> {
        match self.keys.cell(row)? {
            Cell::Object(keys) => text.keys(keys.as_borrowed())?,
            Cell::Text(keys) => text.keys_text(keys)?,
        }
        match self.tags.cell(row)? {
            Cell::Object(tags) => text.tags(tags.as_borrowed())?,
            Cell::Text(tags) => text.tags_text(tags)?,
        }
        self.properties.write(row, text)
    }
}

#[inline]
fn item<'py>(list: &Bound<'py, PyList>, row: usize) -> Result<Bound<'py, PyAny>, Decline> {
    list.get_item(row).map_err(|_| Decline::ToPython)
}

fn declined_unless(is_usual: bool) -> Result<(), Decline> {
    is_usual.then_some(()).ok_or(Decline::ToPython)
}

/// `(offsets, data)` as Arrow has them, copied where others could change them.
struct Pair<'py> {
    /// Where rows begin in `data`; one more than there are rows, none before another.
    ends: Vec<usize>,
    data: Bound<'py, PyBytes>,
}

impl<'py> Pair<'py> {
    fn of(column: &Bound<'py, PyAny>) -> Result<Self, Stop> {
        let pair = column.cast_exact::<PyTuple>();
        let pair = pair.map_err(|_| Decline::ToPython)?;
        declined_unless(pair.len() == 2)?;
        let (offsets, data) = (pair.get_item(0)?, pair.get_item(1)?);
        let mut ends = match offsets.extract::<PyReadonlyArray1<'py, i32>>() {
            Ok(narrow) => copied(&narrow, |end| usize::try_from(end).ok())?,
            Err(_) => {
                let wide = offsets.extract::<PyReadonlyArray1<'py, i64>>();
                let wide = wide.map_err(|_| Decline::ToPython)?;
                copied(&wide, |end| usize::try_from(end).ok())?
            }
        };
        declined_unless(ends.is_sorted())?;
        let (first, last) = (ends.first().copied(), ends.last().copied());
        let part = first.unwrap_or(0)..last.unwrap_or(0);
        let (data, begin) = bytes_of_part(&data, part.clone())?;
        declined_unless(part.end - begin <= data.as_bytes().len())?;
        for end in &mut ends {
            *end -= begin;
        }
        Ok(Self { ends, data })
    }

    fn count(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    #[inline]
    fn bytes(&self, row: usize) -> &[u8] {
        &self.data.as_bytes()[self.ends[row]..self.ends[row + 1]]
    }

    #[inline]
    fn text(&self, row: usize) -> Result<&str, Decline> {
        std::str::from_utf8(self.bytes(row)).map_err(|_| Decline::ToPython)
    }
}

/// The elements of an array, each changed.
fn copied<T: Element + Copy, U>(
    array: &PyReadonlyArray1<'_, T>,
    change: impl Fn(T) -> Option<U>,
) -> Result<Vec<U>, Decline> {
    let array = array.as_slice().map_err(|_| Decline::ToPython)?;
    let mut found = vec![];
    found.try_reserve_exact(array.len())?;
    for &element in array {
        found.push(change(element).ok_or(Decline::ToPython)?);
    }
    Ok(found)
}

enum Bodies<'py> {
    List(Bound<'py, PyList>),
    Pair(Pair<'py>),
}

impl<'py> Bodies<'py> {
    fn of(column: &Bound<'py, PyAny>) -> Result<Self, Stop> {
        match column.cast_exact::<PyList>() {
            Ok(list) => Ok(Self::List(list.clone())),
            Err(_) => Pair::of(column).map(Self::Pair),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Pair(pair) => pair.count(),
        }
    }
}

enum Texts<'py> {
    Same(Bound<'py, PyAny>),
    List(Bound<'py, PyList>),
    Pair(Pair<'py>),
}

/// A row of a column of texts.
enum Cell<'a, 'py> {
    /// `None`, a text, or whatever else a list may hold.
    Object(Bound<'py, PyAny>),
    Text(&'a str),
}

impl<'py> Texts<'py> {
    fn of(column: &Bound<'py, PyAny>, count: usize) -> Result<Self, Stop> {
        if column.is_none() || column.is_exact_instance_of::<PyString>() {
            return Ok(Self::Same(column.clone()));
        }
        if let Ok(list) = column.cast_exact::<PyList>() {
            declined_unless(list.len() == count)?;
            return Ok(Self::List(list.clone()));
        }
        let pair = Pair::of(column)?;
        declined_unless(pair.count() == count)?;
        Ok(Self::Pair(pair))
    }

    #[inline]
    fn cell(&self, row: usize) -> Result<Cell<'_, 'py>, Decline> {
        match self {
            Self::Same(value) => Ok(Cell::Object(value.clone())),
            Self::List(list) => Ok(Cell::Object(item(list, row)?)),
            Self::Pair(pair) => Ok(Cell::Text(pair.text(row)?)),
        }
    }

    /// A row as an object; of pairs Python makes them.
    #[inline]
    fn object(&self, row: usize) -> Result<Bound<'py, PyAny>, Decline> {
        match self.cell(row)? {
            Cell::Object(value) => Ok(value),
            Cell::Text(_) => Err(Decline::ToPython),
        }
    }
}

enum Properties<'py> {
    /// Columns by name.
    Named(Vec<(String, Texts<'py>)>),
    /// None, one encoded text for all rows, or a dict or an encoded text for each row.
    Same(Bound<'py, PyAny>),
    List(Bound<'py, PyList>),
    Pair(Pair<'py>),
}

impl<'py> Properties<'py> {
    fn of(column: &Bound<'py, PyAny>, count: usize) -> Result<Self, Stop> {
        if column.is_none() || column.is_exact_instance_of::<PyBytes>() {
            return Ok(Self::Same(column.clone()));
        }
        if let Ok(named) = column.cast_exact::<PyDict>() {
            let mut found = vec![];
            for (name, texts) in named.iter() {
                let texts = Texts::of(&texts, count)?;
                declined_unless(!matches!(texts, Texts::Pair(_)))?;
                found.push((text(name.as_borrowed())?.to_owned(), texts));
            }
            return Ok(Self::Named(found));
        }
        if let Ok(list) = column.cast_exact::<PyList>() {
            declined_unless(list.len() == count)?;
            return Ok(Self::List(list.clone()));
        }
        let pair = Pair::of(column)?;
        declined_unless(pair.count() == count)?;
        Ok(Self::Pair(pair))
    }

    #[inline]
    fn write(&self, row: usize, out: &mut PropertyText<'_>) -> Result<(), Decline> {
        match self {
            Self::Same(value) => out.properties(value.as_borrowed()),
            Self::List(list) => out.properties(item(list, row)?.as_borrowed()),
            Self::Pair(pair) => out.encoded(pair.bytes(row)),
            Self::Named(named) => {
                for (name, texts) in named {
                    let value = texts.object(row)?;
                    if value.is_none() {
                        out.check_name(name)?;
                    } else {
                        out.named(name, text(value.as_borrowed())?)?;
                    }
                }
                Ok(())
            }
        }
    }
}

enum Integers<'py> {
    /// None, or one number for all rows.
    Same(Option<i64>),
    List(Bound<'py, PyList>),
    Array(Vec<i64>),
}

impl<'py> Integers<'py> {
    fn of(column: &Bound<'py, PyAny>, count: usize) -> Result<Self, Stop> {
        if column.is_none() {
            return Ok(Self::Same(None));
        }
        if let Ok(number) = integer(column.as_borrowed()) {
            return Ok(Self::Same(Some(number)));
        }
        if let Ok(list) = column.cast_exact::<PyList>() {
            declined_unless(list.len() == count)?;
            return Ok(Self::List(list.clone()));
        }
        let numbers = match column.extract::<PyReadonlyArray1<'py, i64>>() {
            Ok(wide) => copied(&wide, Some)?,
            Err(_) => {
                let narrow = column.extract::<PyReadonlyArray1<'py, i32>>();
                let narrow = narrow.map_err(|_| Decline::ToPython)?;
                copied(&narrow, |number| Some(i64::from(number)))?
            }
        };
        declined_unless(numbers.len() == count)?;
        Ok(Self::Array(numbers))
    }

    /// A row: a number, or that there is none.
    #[inline]
    fn number(&self, row: usize) -> Result<Option<i64>, Decline> {
        match self {
            Self::Same(number) => Ok(*number),
            Self::Array(numbers) => Ok(Some(numbers[row])),
            Self::List(list) => {
                let value = item(list, row)?;
                if value.is_none() {
                    return Ok(None);
                }
                integer(value.as_borrowed()).map(Some)
            }
        }
    }

    #[inline]
    fn narrow(&self, row: usize) -> Result<i32, Decline> {
        let number = self.number(row)?.ok_or(Decline::ToPython)?;
        i32::try_from(number).map_err(|_| Decline::ToPython)
    }
}
