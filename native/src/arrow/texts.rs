//! Property texts of a batch; see `reput_arrow.propertytexts`.

use pyo3::prelude::*;

use crate::arrow::arrays::Array;
use crate::arrow::joining::{Properties, Values};
use crate::shared::arrays::array;
use crate::shared::border::{copied, guarded, unlocked};
use crate::shared::decline::{Arg, Stop, declined_unless};
use crate::shared::layout::{PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY};

/// See `reput_arrow.propertytexts.joined_texts`.
#[pyfunction]
pub fn joined_texts<'py>(
    py: Python<'py>,
    count: Arg<usize>,
    keys: &Bound<'py, PyAny>,
    tags: &Bound<'py, PyAny>,
    uniq_key: &Bound<'py, PyAny>,
    further: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "joined_texts", || {
        let (count, mut columns) = (count.get()?, vec![]);
        for (name, column) in [
            (PROPERTY_KEYS, keys),
            (PROPERTY_TAGS, tags),
            (PROPERTY_UNIQ_KEY, uniq_key),
        ] {
            if !column.is_none() {
                columns.push((name, values_of(column, name == PROPERTY_KEYS)?));
            }
        }
        let further = match further.is_none() {
            true => None,
            false => {
                let further = Array::of(further, "MapArray")?;
                let (first, rows) = further.ranges()?;
                let part = first..first + rows.end();
                let names = further.part("keys", "StringArray")?.texts(part.clone())?;
                Some((
                    rows,
                    names,
                    further.part("items", "StringArray")?.texts(part)?,
                ))
            }
        };
        let lengths = columns.iter().map(|(_, values)| values.len());
        let rows = further.as_ref().map(|(rows, ..)| rows.len());
        declined_unless(lengths.chain(rows).all(|length| length == count))?;
        let properties = Properties {
            count,
            columns,
            further,
        };
        // A thousand rows take 50 microseconds. To get the lock back takes five times as long, while
        // the log is dispatched. A mebibyte of texts takes longer than that.
        let size = 8 * count + properties.size() / 64;
        let (borders, data) = unlocked(py, size, || properties.joined())?;
        Ok((array(py, borders), copied(py, &data)?))
    })
}

fn values_of(column: &Bound<'_, PyAny>, may_be_words: bool) -> Result<Values, Stop> {
    if may_be_words && Array::is(column, "ListArray")? {
        let lists = Array::of(column, "ListArray")?;
        let (first, rows) = lists.ranges()?;
        let words = lists.part("values", "StringArray")?;
        let words = words.texts(first..first + rows.end())?;
        return Ok(Values::Words(rows, words));
    }
    let texts = Array::of(column, "StringArray")?;
    Ok(Values::Texts(texts.texts(0..texts.len)?))
}
