//! Text as Java decodes it; see `reput.record.text.javatext`.

use std::borrow::Cow;

use pyo3::prelude::*;

use crate::shared::arrays::{Stretches, slices};
use crate::shared::border::{copied, guarded};
use crate::shared::decline::{Decline, room};

/// See `reput.record.text.properties.texts_of`.
#[pyfunction]
pub fn texts_of<'py>(
    py: Python<'py>,
    window: &Bound<'py, PyAny>,
    starts: &Bound<'py, PyAny>,
    sizes: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "texts_of", || {
        slices!(window, starts, sizes);
        let texts = Stretches::of(window, starts, sizes)?;
        let mut found = room(texts.len()).map_err(Decline::from)?;
        for (row, &size) in sizes.iter().enumerate() {
            let text = (size >= 0).then(|| copied(py, texts.row(row)));
            found.push(text.transpose()?);
        }
        Ok(found)
    })
}

/// Like `reput.record.text.javatext.java_text`: what is not UTF-8 becomes U+FFFD, as often as in Java.
pub fn java_text(text: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(text) {
        Ok(sound) => Cow::Borrowed(sound),
        Err(_) => Cow::Owned(String::from_utf8_lossy(&without_surrogates(text)).into_owned()),
    }
}

/// Encoded surrogates are one replacement each in Java; `from_utf8_lossy` makes one of each byte.
fn without_surrogates(text: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let is_surrogate = text[at] == 0xED
            && matches!(text.get(at + 1), Some(second) if (0xA0..=0xBF).contains(second));
        if is_surrogate {
            found.extend_from_slice("\u{FFFD}".as_bytes());
            let has_third =
                matches!(text.get(at + 2), Some(third) if (0x80..=0xBF).contains(third));
            at += if has_third { 3 } else { 2 };
        } else {
            found.push(text[at]);
            at += 1;
        }
    }
    found
}
