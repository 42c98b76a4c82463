//! What plain requests ask for; see `reput_client.remoting.framing.plainframes.plain_values`.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::serve::binary::read_binary;
use crate::serve::frame::first_frame;
use crate::serve::header::Header;
use crate::serve::json::read_json;
use crate::serve::lane::bytes_of;
use crate::serve::send::timestamp;
use crate::shared::border::guarded;
use crate::shared::decline::{Arg, Decline, Stop};

/// See `reput_client.remoting.framing.plainframes.plain_values`.
#[pyfunction]
pub fn plain_values<'py>(
    data: &Bound<'py, PyAny>,
    begin: Arg<usize>,
    codes: Arg<[i32; 2]>,
    texts: Arg<Bound<'py, PyTuple>>,
    numbers: Arg<Bound<'py, PyTuple>>,
    sizes: Arg<(usize, usize)>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    guarded(py, "plain_values", || {
        let (begin, (frame_max, header_max)) = (begin.get()?, sizes.get()?);
        let (codes, texts, numbers) = (codes.get()?, texts.get()?, numbers.get()?);
        let bytes = bytes_of(data)?;
        let mut header = Header::default();
        let rest = bytes.get(begin..).unwrap_or_default();
        let frame = first_frame(rest, frame_max, header_max);
        let Some(frame) = frame.filter(|frame| frame.body.is_empty()) else {
            return Ok(None);
        };
        let read = if frame.is_binary {
            read_binary
        } else {
            read_json
        };
        if read(frame.header, &mut header).is_none() || !codes.contains(&header.code) {
            return Ok(None);
        }
        let mut values = Vec::<Option<Bound<'_, PyAny>>>::new();
        let value_of = |name: &Bound<'py, PyAny>| -> Result<Option<&[u8]>, Stop> {
            let name = name.cast::<PyString>().map_err(|_| Decline::ToPython)?;
            let (name, mut fields) = (name.to_str()?.as_bytes(), header.fields(frame.header));
            Ok(fields.find(|found| found.0 == name).map(|found| found.1))
        };
        // No Python code runs before all is read: texts and numbers are not the collector's.
        for name in texts.iter() {
            let text = value_of(&name)?.map(|text| PyString::from_bytes(py, text));
            values.push(text.transpose()?.map(Bound::into_any));
        }
        for name in numbers.iter() {
            let number = value_of(&name)?.map(|text| timestamp(text).ok_or(()));
            let Ok(number) = number.transpose() else {
                return Ok(None);
            };
            let number = number.map(|number| number.into_pyobject(py));
            values.push(number.transpose()?.map(Bound::into_any));
        }
        let end = begin + frame.size;
        let values = PyTuple::new(py, values)?;
        Ok(Some((end, header.code, header.opaque, header.flag, values)))
    })
}
