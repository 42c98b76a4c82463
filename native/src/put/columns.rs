//! Columns of a `reput.Columns`, row by row; see `reput.record.encoding.batchencoder`. Columns of other
//! kinds, and wrong values, are declined.

use std::ops::Range;

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::encode::message::{Numbers, integer, item, queue_or_none, text, text_given};
use crate::encode::propertytext::PropertyText;
use crate::put::body::{Body, bytes_of_part};
use crate::shared::arrays;
use crate::shared::decline::{Decline, Stop, declined_unless, room};

/// Messages as columns of one length.
pub struct Columns<'py> {
    pub count: usize,
    topic: Column<'py>,
    body: Column<'py>,
    tags: Column<'py>,
    keys: Column<'py>,
    /// Columns of single properties by their names.
    named: Vec<(String, Column<'py>)>,
    properties: Column<'py>,
    /// Queue id, flag, system flag, reconsume times, prepared transaction offset, born timestamp.
    numbers: [Column<'py>; 6],
}

impl<'py> Columns<'py> {
    pub fn of(columns: &Bound<'py, PyAny>) -> Result<Self, Stop> {
        let body = Column::of(&columns.getattr("body")?)?;
        let count = body.count().ok_or(Decline::ToPython)?;
        declined_unless(count > 0)?;
        let column = |name: &str| Column::of_rows(&columns.getattr(name)?, count);
        let mut properties = columns.getattr("properties")?;
        let mut named = vec![];
        if let Ok(columns) = properties.cast_exact::<PyDict>() {
            for (name, values) in columns.iter() {
                let name = text(name.as_borrowed())?.to_owned();
                named.push((name, Column::of_rows(&values, count)?));
            }
            properties = columns.py().None().into_bound(columns.py());
        }
        Ok(Self {
            count,
            topic: column("topic")?,
            body,
            tags: column("tags")?,
            keys: column("keys")?,
            named,
            properties: Column::of_rows(&properties, count)?,
            numbers: [
                column("queue_id")?,
                column("flag")?,
                column("sys_flag")?,
                column("reconsume_times")?,
                column("prepared_transaction_offset")?,
                column("born_timestamp")?,
            ],
        })
    }

    /// The topic of a row; of pairs Python makes it.
    #[inline]
    pub fn topic(&self, row: usize) -> Result<Borrowed<'_, 'py, PyAny>, Decline> {
        self.topic.object(row)
    }

    #[inline]
    pub fn body(&self, row: usize) -> Result<Body, Decline> {
        match &self.body {
            Column::Pair(pair) => Body::part(&pair.data, pair.range(row)),
            body => Body::whole(&*body.object(row)?),
        }
    }

    #[inline]
    pub fn numbers(&self, row: usize) -> Result<Numbers, Decline> {
        let [queue_id, flag, sys_flag, reconsume, prepared, born] = &self.numbers;
        let numbers = Numbers {
            queue_id: queue_or_none(queue_id.number(row)?)?,
            flag: flag.narrow(row)?,
            sys_flag: sys_flag.narrow(row)?,
            reconsume_times: reconsume.narrow(row)?,
            prepared_transaction_offset: prepared.number(row)?.ok_or(Decline::ToPython)?,
            born_timestamp: born.number(row)?,
            born_host: None,
        };
        numbers.checked()
    }

    #[inline]
    pub fn write_text(&self, row: usize, out: &mut PropertyText<'_>) -> Result<(), Decline> {
        match &self.keys {
            Column::Pair(pair) => out.keys_text(pair.text(row)?)?,
            keys => out.keys(keys.object(row)?)?,
        }
        match &self.tags {
            Column::Pair(pair) => out.tags_text(pair.text(row)?)?,
            tags => out.tags(tags.object(row)?)?,
        }
        for (name, values) in &self.named {
            out.named(name, text_given(values.object(row)?)?)?;
        }
        match &self.properties {
            Column::Pair(pair) => out.encoded(pair.bytes(row)),
            properties => out.properties(properties.object(row)?),
        }
    }
}

/// A column of any kind. Rows are asked for what they ought to be.
enum Column<'py> {
    /// A number in all rows.
    Number(i64),
    /// One object in all rows.
    Same(Bound<'py, PyAny>),
    List(Bound<'py, PyList>),
    Pair(Pair<'py>),
    Numbers(Vec<i64>),
}

impl<'py> Column<'py> {
    fn of(column: &Bound<'py, PyAny>) -> Result<Self, Stop> {
        if let Ok(number) = integer(column.as_borrowed()) {
            return Ok(Self::Number(number));
        }
        if let Ok(list) = column.cast_exact::<PyList>() {
            return Ok(Self::List(list.clone()));
        }
        if let Ok(pair) = column.cast_exact::<PyTuple>() {
            return Ok(Self::Pair(Pair::of(pair)?));
        }
        let same = || Self::Same(column.clone());
        Ok(integers(column)?.map_or_else(same, Self::Numbers))
    }

    /// Likewise, if it has so many rows.
    fn of_rows(column: &Bound<'py, PyAny>, count: usize) -> Result<Self, Stop> {
        let column = Self::of(column)?;
        declined_unless(column.count().is_none_or(|rows| rows == count))?;
        Ok(column)
    }

    /// How many rows there are; `None` where it is good for any number of them.
    fn count(&self) -> Option<usize> {
        match self {
            Self::Number(_) | Self::Same(_) => None,
            Self::List(list) => Some(list.len()),
            Self::Pair(pair) => Some(pair.ends.len().saturating_sub(1)),
            Self::Numbers(numbers) => Some(numbers.len()),
        }
    }

    /// A row that is an object.
    #[inline]
    fn object(&self, row: usize) -> Result<Borrowed<'_, 'py, PyAny>, Decline> {
        match self {
            Self::Same(value) => Ok(value.as_borrowed()),
            Self::List(list) => item(list, row),
            _ => Err(Decline::ToPython),
        }
    }

    /// A row that is a number, or None.
    #[inline]
    fn number(&self, row: usize) -> Result<Option<i64>, Decline> {
        match self {
            Self::Number(number) => Ok(Some(*number)),
            Self::Numbers(numbers) => Ok(Some(numbers[row])),
            _ => {
                let value = self.object(row)?;
                let is_none = value.is_none();
                (!is_none).then(|| integer(value)).transpose()
            }
        }
    }

    #[inline]
    fn narrow(&self, row: usize) -> Result<i32, Decline> {
        let number = self.number(row)?.ok_or(Decline::ToPython)?;
        i32::try_from(number).map_err(|_| Decline::ToPython)
    }
}

/// `(offsets, data)` as Arrow has them, copied where others could change them.
struct Pair<'py> {
    /// Where rows begin in `data`; one more than there are rows, none before another.
    ends: Vec<i64>,
    data: Bound<'py, PyBytes>,
}

impl<'py> Pair<'py> {
    fn of(pair: &Bound<'py, PyTuple>) -> Result<Self, Stop> {
        declined_unless(pair.len() == 2)?;
        let (offsets, data) = (pair.get_item(0)?, pair.get_item(1)?);
        let mut ends = integers(&offsets)?.ok_or(Decline::ToPython)?;
        declined_unless(ends.is_sorted())?;
        let place = |end: Option<&i64>| {
            usize::try_from(end.copied().unwrap_or(0)).map_err(|_| Decline::ToPython)
        };
        let part = place(ends.first())?..place(ends.last())?;
        let (data, begin) = bytes_of_part(&data, part.clone())?;
        declined_unless(part.end - begin <= data.as_bytes().len())?;
        for end in &mut ends {
            *end -= begin as i64;
        }
        Ok(Self { ends, data })
    }

    #[inline]
    fn range(&self, row: usize) -> Range<usize> {
        self.ends[row] as usize..self.ends[row + 1] as usize
    }

    #[inline]
    fn bytes(&self, row: usize) -> &[u8] {
        &self.data.as_bytes()[self.range(row)]
    }

    #[inline]
    fn text(&self, row: usize) -> Result<&str, Decline> {
        std::str::from_utf8(self.bytes(row)).map_err(|_| Decline::ToPython)
    }
}

/// A copy of a column of int64 or of int32; `None` for another object.
fn integers(object: &Bound<'_, PyAny>) -> Result<Option<Vec<i64>>, Decline> {
    if let Ok(wide) = arrays::Column::<i64>::of(object) {
        return copied(wide.items()).map(Some);
    }
    let narrow = arrays::Column::<i32>::of(object).ok();
    narrow.map(|narrow| copied(narrow.items())).transpose()
}

fn copied<T: Copy + Into<i64>>(elements: &[T]) -> Result<Vec<i64>, Decline> {
    let mut found = room(elements.len())?;
    found.extend(elements.iter().map(|&element| element.into()));
    Ok(found)
}
