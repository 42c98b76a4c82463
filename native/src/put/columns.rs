//! Columns of a `reput.Columns`, row by row; see `reput.record.encoding.many`.
//!
//! `None` stands for what Python has to look at: columns of other kinds, and wrong values.

use numpy::PyReadonlyArray1;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::encode::message::{Numbers, bytes, integer, text};
use crate::encode::propertytext::PropertyText;
use crate::put::rows::Held;

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
    pub fn of(columns: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let column = |name: &str| columns.getattr(name);
        let Some(body) = Bodies::of(&column("body")?) else {
            return Ok(None);
        };
        let count = body.count();
        let texts = |name: &str| column(name).map(|found| Texts::of(&found, count));
        let integers = |name: &str| column(name).map(|found| Integers::of(&found, count));
        let (topic, tags, keys) = (texts("topic")?, texts("tags")?, texts("keys")?);
        let properties = Properties::of(&column("properties")?, count);
        let (queue_id, flag) = (integers("queue_id")?, integers("flag")?);
        let (sys_flag, born_timestamp) = (integers("sys_flag")?, integers("born_timestamp")?);
        let reconsume_times = integers("reconsume_times")?;
        let prepared_transaction_offset = integers("prepared_transaction_offset")?;
        let whole = || {
            Some(Self {
                count,
                topic: topic?,
                body,
                tags: tags?,
                keys: keys?,
                properties: properties?,
                queue_id: queue_id?,
                flag: flag?,
                sys_flag: sys_flag?,
                born_timestamp: born_timestamp?,
                reconsume_times: reconsume_times?,
                prepared_transaction_offset: prepared_transaction_offset?,
            })
        };
        Ok(if count == 0 { None } else { whole() })
    }

    /// Hand a row to `add`: its topic, its body, its numbers, and what writes its properties.
    pub fn row(
        &self,
        row: usize,
        held: &mut Held,
        add: impl FnOnce(
            &Bound<'py, PyAny>,
            &[u8],
            Numbers,
            &dyn Fn(&mut PropertyText<'_>) -> Option<()>,
        ) -> Option<()>,
    ) -> Option<()> {
        let numbers = self.numbers(row)?;
        let topic = self.topic.object(row)?;
        let write_text = |text: &mut PropertyText<'_>| {
            match self.keys.cell(row)? {
                Cell::Object(keys) => text.keys(keys.as_borrowed())?,
                Cell::Text("") => {}
                Cell::Text(keys) => text.of_field(b"KEYS", keys)?,
            }
            match self.tags.cell(row)? {
                Cell::Object(tags) => text.tags(tags.as_borrowed())?,
                Cell::Text(tags) => text.of_field(b"TAGS", tags)?,
            }
            self.properties.write(row, text)
        };
        match &self.body {
            Bodies::List(bodies) => {
                let body = bodies.get_item(row).ok()?;
                held.objects.push(body.clone().unbind());
                add(&topic, bytes(body.as_borrowed())?, numbers, &write_text)
            }
            Bodies::Pair(pair) => add(&topic, pair.bytes(row)?, numbers, &write_text),
        }
    }

    fn numbers(&self, row: usize) -> Option<Numbers> {
        const BITS_V6: i32 = 0x30;
        let queue_id = i32::try_from(self.queue_id.number(row)??).ok()?;
        let sys_flag = i32::try_from(self.sys_flag.number(row)??).ok()?;
        if queue_id < 0 || sys_flag & BITS_V6 != 0 {
            return None;
        }
        Some(Numbers {
            queue_id,
            flag: i32::try_from(self.flag.number(row)??).ok()?,
            sys_flag,
            reconsume_times: i32::try_from(self.reconsume_times.number(row)??).ok()?,
            prepared_transaction_offset: self.prepared_transaction_offset.number(row)??,
            born_timestamp: self.born_timestamp.number(row)?,
            born_host: None,
        })
    }

    /// Buffers that bodies point into.
    pub fn into_held(self, held: &mut Held) {
        if let Bodies::Pair(pair) = self.body {
            match pair.data {
                Data::Bytes(data) => held.objects.push(data.into_any().unbind()),
                Data::Buffer(data) => held.buffers.push(data),
            }
        }
    }
}

/// `(offsets, data)` as Arrow has them.
struct Pair<'py> {
    offsets: Offsets<'py>,
    data: Data<'py>,
}

enum Offsets<'py> {
    Narrow(PyReadonlyArray1<'py, i32>),
    Wide(PyReadonlyArray1<'py, i64>),
}

enum Data<'py> {
    Bytes(Bound<'py, PyBytes>),
    Buffer(PyBuffer<u8>),
}

impl<'py> Pair<'py> {
    fn of(column: &Bound<'py, PyAny>) -> Option<Self> {
        let pair = column.cast_exact::<PyTuple>().ok()?;
        if pair.len() != 2 {
            return None;
        }
        let (offsets, data) = (pair.get_item(0).ok()?, pair.get_item(1).ok()?);
        let offsets = if let Ok(narrow) = offsets.extract::<PyReadonlyArray1<'py, i32>>() {
            narrow.as_slice().ok()?;
            Offsets::Narrow(narrow)
        } else {
            let wide = offsets.extract::<PyReadonlyArray1<'py, i64>>().ok()?;
            wide.as_slice().ok()?;
            Offsets::Wide(wide)
        };
        let data = match data.cast_into_exact::<PyBytes>() {
            Ok(data) => Data::Bytes(data),
            Err(other) => {
                let data = PyBuffer::<u8>::get(&other.into_inner()).ok()?;
                if !(data.readonly() && data.is_c_contiguous()) {
                    return None; // it could change while it is read
                }
                Data::Buffer(data)
            }
        };
        Some(Self { offsets, data })
    }

    fn count(&self) -> usize {
        let offsets = match &self.offsets {
            Offsets::Narrow(offsets) => offsets.as_slice().map_or(0, <[i32]>::len),
            Offsets::Wide(offsets) => offsets.as_slice().map_or(0, <[i64]>::len),
        };
        offsets.saturating_sub(1)
    }

    fn data(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(data) => data.as_bytes(),
            // SAFETY: contiguous and read-only, as `of` has asked, and held by the buffer.
            Data::Buffer(data) => unsafe {
                match data.len_bytes() {
                    0 => &[],
                    size => std::slice::from_raw_parts(data.buf_ptr().cast(), size),
                }
            },
        }
    }

    #[inline]
    fn bytes(&self, row: usize) -> Option<&[u8]> {
        let offset = |place: usize| match &self.offsets {
            Offsets::Narrow(offsets) => usize::try_from(*offsets.as_slice().ok()?.get(place)?).ok(),
            Offsets::Wide(offsets) => usize::try_from(*offsets.as_slice().ok()?.get(place)?).ok(),
        };
        self.data().get(offset(row)?..offset(row + 1)?)
    }

    #[inline]
    fn text(&self, row: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(row)?).ok()
    }
}

enum Bodies<'py> {
    List(Bound<'py, PyList>),
    Pair(Pair<'py>),
}

impl<'py> Bodies<'py> {
    fn of(column: &Bound<'py, PyAny>) -> Option<Self> {
        match column.cast_exact::<PyList>() {
            Ok(list) => Some(Self::List(list.clone())),
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
    fn of(column: &Bound<'py, PyAny>, count: usize) -> Option<Self> {
        if column.is_none() || column.is_exact_instance_of::<PyString>() {
            return Some(Self::Same(column.clone()));
        }
        let found = match column.cast_exact::<PyList>() {
            Ok(list) => (list.len(), Self::List(list.clone())),
            Err(_) => {
                let pair = Pair::of(column)?;
                (pair.count(), Self::Pair(pair))
            }
        };
        (found.0 == count).then_some(found.1)
    }

    #[inline]
    fn cell(&self, row: usize) -> Option<Cell<'_, 'py>> {
        match self {
            Self::Same(value) => Some(Cell::Object(value.clone())),
            Self::List(list) => Some(Cell::Object(list.get_item(row).ok()?)),
            Self::Pair(pair) => Some(Cell::Text(pair.text(row)?)),
        }
    }

    /// A row as an object; of pairs Python makes them.
    #[inline]
    fn object(&self, row: usize) -> Option<Bound<'py, PyAny>> {
        match self.cell(row)? {
            Cell::Object(value) => Some(value),
            Cell::Text(_) => None,
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
    fn of(column: &Bound<'py, PyAny>, count: usize) -> Option<Self> {
        if column.is_none() || column.is_exact_instance_of::<PyBytes>() {
            return Some(Self::Same(column.clone()));
        }
        if let Ok(named) = column.cast_exact::<PyDict>() {
            let mut found = vec![];
            for (name, texts) in named.iter() {
                let texts = Texts::of(&texts, count)?;
                if matches!(texts, Texts::Pair(_)) {
                    return None;
                }
                found.push((text(name.as_borrowed())?.to_owned(), texts));
            }
            return Some(Self::Named(found));
        }
        let found = match column.cast_exact::<PyList>() {
            Ok(list) => (list.len(), Self::List(list.clone())),
            Err(_) => {
                let pair = Pair::of(column)?;
                (pair.count(), Self::Pair(pair))
            }
        };
        (found.0 == count).then_some(found.1)
    }

    #[inline]
    fn write(&self, row: usize, out: &mut PropertyText<'_>) -> Option<()> {
        match self {
            Self::Same(value) => out.properties(value.as_borrowed()),
            Self::List(list) => out.properties(list.get_item(row).ok()?.as_borrowed()),
            Self::Pair(pair) => out.encoded(pair.bytes(row)?),
            Self::Named(named) => {
                for (name, texts) in named {
                    let value = texts.object(row)?;
                    if value.is_none() {
                        out.check_name(name)?;
                    } else {
                        out.named(name, text(value.as_borrowed())?)?;
                    }
                }
                Some(())
            }
        }
    }
}

enum Integers<'py> {
    /// None, or one number for all rows.
    Same(Option<i64>),
    List(Bound<'py, PyList>),
    Narrow(PyReadonlyArray1<'py, i32>),
    Wide(PyReadonlyArray1<'py, i64>),
}

impl<'py> Integers<'py> {
    fn of(column: &Bound<'py, PyAny>, count: usize) -> Option<Self> {
        if column.is_none() {
            return Some(Self::Same(None));
        }
        if let Some(number) = integer(column.as_borrowed()) {
            return Some(Self::Same(Some(number)));
        }
        let (size, found) = if let Ok(list) = column.cast_exact::<PyList>() {
            (list.len(), Self::List(list.clone()))
        } else if let Ok(wide) = column.extract::<PyReadonlyArray1<'py, i64>>() {
            (wide.as_slice().ok()?.len(), Self::Wide(wide))
        } else {
            let narrow = column.extract::<PyReadonlyArray1<'py, i32>>().ok()?;
            (narrow.as_slice().ok()?.len(), Self::Narrow(narrow))
        };
        (size == count).then_some(found)
    }

    /// A row: a number, or that there is none; `None` where Python has to look.
    #[inline]
    fn number(&self, row: usize) -> Option<Option<i64>> {
        match self {
            Self::Same(number) => Some(*number),
            Self::Narrow(array) => Some(Some(i64::from(*array.as_slice().ok()?.get(row)?))),
            Self::Wide(array) => Some(Some(*array.as_slice().ok()?.get(row)?)),
            Self::List(list) => {
                let value = list.get_item(row).ok()?;
                if value.is_none() {
                    Some(None)
                } else {
                    Some(Some(integer(value.as_borrowed())?))
                }
            }
        }
    }
}
