//! Hostile bytes, without Python, so that Miri can run them.

use proptest::prelude::*;
use proptest::sample::select;

use crate::derive::hash::java_hash;
use crate::derive::maps::{Joined, maps_of};
use crate::derive::properties::each_entry;
use crate::derive::text::java_text;
use crate::derive::window::{Parts, is_record};
use crate::encode::message::Numbers;
use crate::encode::record::{NamedTopic, Place, Record, crc32};
use crate::shared::any_case;
use crate::shared::arrays::Stretches;
use crate::shared::layout::{MAGIC_V2, NAME_END, RECORD_MIN_SIZE, VALUE_END};

const PLACE: Place = Place {
    physical_offset: 7,
    queue_offset: 3,
    store_timestamp: 5,
    store_host: [1; 8],
};

fn record(body: &[u8], topic: &[u8], properties: &[u8]) -> Vec<u8> {
    let record = Record {
        numbers: Numbers::default(),
        topic: &NamedTopic::of(topic).unwrap(),
        body,
        body_crc: crc32(body),
        properties,
    };
    let mut written = vec![];
    record.write(&PLACE, &mut written);
    written
}

/// A byte, mostly one that means something somewhere: a separator, a length, part of a surrogate.
fn byte() -> impl Strategy<Value = u8> {
    let known = select(vec![
        0, 1, 2, 0x7F, 0x80, 0xA0, 0xBF, 0xC3, 0xED, 0xF0, 0xFF,
    ]);
    prop_oneof![known, b'a'..b'd', any::<u8>()]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(byte(), 0..150)
}

proptest! {
    #![proptest_config(any_case())]

    #[test]
    fn parts_never_lead_out_of_a_record_whatever_its_bytes_are(
        body in text(),
        is_long in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), byte()), 0..4),
    ) {
        let mut record = record(&body, b"topic", b"a\x01b\x02");
        let whole = Parts::of(&record).unwrap();
        prop_assert_eq!(&record[whole.body..][..whole.body_size], &body[..]);
        prop_assert!(whole.body_matches(&record) && is_record(&record));
        if is_long {
            record[4..8].copy_from_slice(&MAGIC_V2.to_be_bytes());
        }
        for (at, byte) in changes {
            let at = 8 + at.index(record.len() - 8);
            record[at] = byte;
        }
        prop_assert!(is_record(&record) && record.len() >= RECORD_MIN_SIZE);
        if let Some(parts) = Parts::of(&record) {
            prop_assert!(parts.body + parts.body_size <= parts.topic);
            prop_assert!(parts.topic + parts.topic_size <= parts.properties);
            prop_assert!(parts.properties <= record.len());
            parts.body_matches(&record);
        }
    }

    #[test]
    fn text_and_its_hash_are_those_of_any_bytes(text in text()) {
        let units = java_text(&text).encode_utf16().collect::<Vec<_>>();
        let expected = units.iter().fold(7u32, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(u32::from(*unit))
        });
        prop_assert_eq!(java_hash(&text, 7), expected);
    }

    #[test]
    fn entries_are_what_stands_between_separators(text in text(), start in 0..40_usize) {
        let start = start.min(text.len());
        let mut expected = vec![];
        for entry in text[start..].split(|&byte| byte == VALUE_END) {
            let mut parts = entry.splitn(2, |&byte| byte == NAME_END);
            if let (Some(name), Some(value)) = (parts.next(), parts.next())
                && !value.is_empty()
            {
                expected.push((name, value));
            }
        }
        let mut found = vec![];
        each_entry(&text, start, text.len(), |name, from, to| found.push((name, &text[from..to])));
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn maps_have_the_entries_of_each_text(texts in prop::collection::vec(text(), 0..4)) {
        let window = texts.concat();
        let sizes: Vec<_> = texts.iter().map(|text| text.len() as i64).collect();
        let ends = sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        let starts: Vec<_> = ends.zip(&sizes).map(|(end, size)| end - size).collect();
        let mut expected = vec![];
        let mut is_plain = true;
        for text in &texts {
            let mut entries = vec![];
            each_entry(text, 0, text.len(), |name, from, to| {
                if !name.is_empty() {
                    entries.push((name.to_vec(), text[from..to].to_vec()));
                }
            });
            let mut names: Vec<_> = entries.iter().map(|(name, _)| name).collect();
            names.sort();
            is_plain &= names.is_sorted_by(|a, b| a < b) && std::str::from_utf8(text).is_ok();
            expected.push(entries);
        }
        let found = maps_of(&window, Stretches::of(&window, &starts, &sizes).unwrap());
        prop_assert_eq!(found.is_ok(), is_plain);
        let Ok((first, names, values)) = found else { return Ok(()) };
        let cut = |joined: &Joined, number: usize| {
            let [from, to] = [number, number + 1].map(|at| joined.borders[at] as usize);
            joined.bytes[from..to].to_vec()
        };
        for (row, entries) in expected.into_iter().enumerate() {
            let numbers = first[row] as usize..first[row + 1] as usize;
            let row: Vec<_> = numbers.map(|at| (cut(&names, at), cut(&values, at))).collect();
            prop_assert_eq!(row, entries);
        }
    }

    #[test]
    fn rows_are_taken_only_where_each_stands_in_the_window(
        rows in prop::collection::vec((place(), place()), 0..4),
    ) {
        let window = [7u8; 64];
        let (starts, sizes): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
        let is_inside = |&(start, size): &(i64, i64)| {
            size <= 0 || start >= 0 && i128::from(start) + i128::from(size) <= 64
        };
        let texts = Stretches::of(&window, &starts, &sizes);
        prop_assert_eq!(texts.is_ok(), rows.iter().all(is_inside));
        let Ok(texts) = texts else { return Ok(()) };
        for (row, size) in sizes.iter().enumerate() {
            let (start, end) = texts.place(row);
            prop_assert_eq!(texts.row(row), &window[start..end]);
            prop_assert_eq!(texts.row(row).len() as i64, *size.max(&0));
        }
    }
}

fn place() -> impl Strategy<Value = i64> {
    let odd = vec![-1, 0, 1, 63, 64, 65, i64::MAX, i64::MIN, i64::MAX - 63];
    prop_oneof![select(odd), 0..70_i64]
}
