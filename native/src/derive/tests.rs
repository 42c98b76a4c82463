//! Hostile bytes, without Python, so that Miri can run them.

use crate::derive::hash::java_hash;
use crate::derive::text::java_text;
use crate::derive::window::{Parts, is_record};
use crate::shared::arrays::Stretches;
use crate::shared::layout::{MAGIC_V1, MAGIC_V2, RECORD_MIN_SIZE};

const ROUNDS: usize = if cfg!(miri) { 40 } else { 20_000 };

/// Numbers that look random, the same in each run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.0 ^ (self.0 >> 29)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end
    }

    fn bytes(&mut self, size: usize) -> Vec<u8> {
        (0..size).map(|_| self.next() as u8).collect()
    }
}

/// A record with a body, a topic and a property; the other fields are 0.
fn record(chance: &mut Chance) -> Vec<u8> {
    let body = chance.below(30);
    let mut record = vec![0; 88];
    record[84..88].copy_from_slice(&(body as u32).to_be_bytes());
    record.extend(chance.bytes(body));
    record.extend(b"\x05topic\0\x04a\x01b\x02");
    let size = record.len() as u32;
    record[..4].copy_from_slice(&size.to_be_bytes());
    record[4..8].copy_from_slice(&MAGIC_V1.to_be_bytes());
    record
}

#[test]
fn parts_never_lead_out_of_a_record_whatever_its_bytes_are() {
    let (mut chance, mut found) = (Chance(1), 0);
    for round in 0..ROUNDS {
        let mut record = record(&mut chance);
        for _ in 0..round % 4 {
            let at = 8 + chance.below(record.len() - 8);
            record[at] = [0, 0x7f, 0x80, 0xff, chance.next() as u8][chance.below(5)];
        }
        if chance.below(8) == 0 {
            record[4..8].copy_from_slice(&MAGIC_V2.to_be_bytes());
        }
        assert!(is_record(&record) && record.len() >= RECORD_MIN_SIZE);

        if let Some(parts) = Parts::of(&record) {
            found += 1;
            assert!(parts.body + parts.body_size <= parts.topic);
            assert!(parts.topic + parts.topic_size <= parts.properties);
            assert!(parts.properties <= record.len());
            parts.body_matches(&record);
        }
    }
    assert!(found > ROUNDS / 8, "{found}");
}

#[test]
fn text_and_its_hash_are_those_of_any_bytes() {
    let mut chance = Chance(2);
    for _ in 0..ROUNDS {
        let size = chance.below(40);
        let mut text = chance.bytes(size);
        for byte in &mut text {
            // Those of encoded surrogates, and of what is cut.
            if *byte & 7 == 0 {
                *byte = [0xED, 0xA0, 0xBF, 0xF0, 0x80, 0xC3, b'a'][usize::from(*byte >> 3) % 7];
            }
        }
        let expected = java_text(&text).encode_utf16().fold(7u32, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(u32::from(unit))
        });
        assert_eq!(java_hash(&text, 7), expected, "{text:?}");
    }
}

#[test]
fn rows_are_taken_only_where_each_stands_in_the_window() {
    let (mut chance, window) = (Chance(3), [7u8; 64]);
    let odd = [-1, 0, 1, 63, 64, 65, i64::MAX, i64::MIN, i64::MAX - 63];
    for _ in 0..ROUNDS {
        let mut column = || -> [i64; 3] { std::array::from_fn(|_| odd[chance.below(odd.len())]) };
        let (starts, sizes) = (column(), column());
        if let Ok(rows) = Stretches::of(&window, &starts, &sizes) {
            assert_eq!(rows.len(), sizes.len());
            for (row, size) in sizes.iter().enumerate() {
                let (start, end) = rows.place(row);
                assert_eq!(rows.row(row), &window[start..end]);
                assert_eq!(rows.row(row).len() as i64, *size.max(&0));
            }
        }
    }
}
