//! Without Python, so that Miri can run them.

use proptest::prelude::*;
use proptest::sample::select;

use crate::arrow::joining::{Properties, Ranges, Texts, Valid, Values};
use crate::shared::any_case;
use crate::shared::decline::Decline;
use crate::shared::layout::{PROPERTY_KEYS, PROPERTY_TAGS};

type Text = Option<&'static str>;

fn valid<T>(rows: &[Option<T>]) -> Valid {
    let mut bits = vec![0xFF; rows.len().div_ceil(8) + 1];
    let first = rows.len() % 8; // as in a slice of an array
    for (row, _) in rows.iter().enumerate().filter(|(_, value)| value.is_none()) {
        bits[(first + row) / 8] &= !(1 << ((first + row) % 8));
    }
    Valid::Bits { bits, first }
}

fn ends(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let ends = sizes.scan(0, |end, size| {
        *end += size;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

fn texts(rows: &[Text]) -> Texts {
    let sizes = rows.iter().map(|text| text.map_or(0, str::len));
    let data: String = rows.iter().flatten().copied().collect();
    Texts::new(Ranges::new(ends(sizes), valid(rows)), data.into())
}

fn rows_of<T: Clone>(rows: &[Option<Vec<T>>]) -> (Ranges, Vec<T>) {
    let sizes = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len));
    let all = rows.iter().flatten().flatten().cloned().collect();
    (Ranges::new(ends(sizes), valid(rows)), all)
}

type Entries = Vec<(&'static str, Text)>;

/// What property texts are, said once more.
fn expected(words: Option<&[Text]>, tags: Text, further: &Entries) -> String {
    let words: Vec<&str> = words
        .unwrap_or_default()
        .iter()
        .flatten()
        .copied()
        .collect();
    let keys = Some(words.join(" ")).filter(|keys| !keys.is_empty());
    let given = [
        (PROPERTY_KEYS, keys),
        (PROPERTY_TAGS, tags.map(str::to_owned)),
    ];
    let further: Vec<_> = further
        .iter()
        .filter_map(|&(name, value)| Some((name, value?)))
        .collect();
    let mut found = String::new();
    let mut add = |name: &str, value: &str| found += &format!("{name}\u{1}{value}\u{2}");
    for (name, value) in &given {
        if let (Some(value), false) = (value, further.iter().any(|(other, _)| other == name)) {
            add(name, value);
        }
    }
    for (name, value) in further {
        match given.iter().find(|(column, _)| *column == name) {
            None if name == "__CRC32#" => {}
            None => add(name, value),
            Some((_, text)) => {
                let text = text.as_deref();
                let same: Vec<_> = value.split(' ').filter(|word| !word.is_empty()).collect();
                if name == PROPERTY_KEYS && same.join(" ") == text.unwrap_or_default() {
                    add(name, value);
                } else if let Some(text) = text {
                    add(name, text);
                }
            }
        }
    }
    found
}

fn text() -> impl Strategy<Value = Text> {
    let known = [
        "", "a", "b", "a b", " a  b ", "ab", "\u{1}", "值", "order-1",
    ];
    prop::option::of(select(known.to_vec()))
}

fn word() -> impl Strategy<Value = Text> {
    prop::option::of(select(vec!["", "a", "b", "值"]))
}

fn entries() -> impl Strategy<Value = Entries> {
    let names = select(vec!["KEYS", "TAGS", "x", "值", "__CRC32#", "WAIT"]);
    prop::collection::vec((names, text()), 0..4)
}

proptest! {
    #![proptest_config(any_case())]

    #[test]
    fn a_column_has_its_place_in_the_map_or_in_front(
        rows in prop::collection::vec(
            (
                prop::option::of(prop::collection::vec(word(), 0..3)),
                text(),
                prop::option::of(entries()),
            ),
            0..5,
        ),
    ) {
        let (words, (tags, further)): (Vec<_>, (Vec<_>, Vec<_>)) =
            rows.iter().cloned().map(|(words, tags, further)| (words, (tags, further))).unzip();
        let (lists, all) = rows_of(&words);
        let (maps, entries) = rows_of(&further);
        let (names, values): (Vec<_>, Vec<_>) =
            entries.into_iter().map(|(name, value)| (Some(name), value)).unzip();
        let properties = Properties {
            count: rows.len(),
            columns: vec![
                (PROPERTY_KEYS, Values::Words(lists, texts(&all))),
                (PROPERTY_TAGS, Values::Texts(texts(&tags))),
            ],
            further: Some((maps, texts(&names), texts(&values))),
        };

        let (borders, data) = properties.joined().unwrap();

        prop_assert_eq!(borders.len(), rows.len() + 1);
        for ((words, tags, further), place) in rows.iter().zip(borders.windows(2)) {
            let found = &data[place[0] as usize..place[1] as usize];
            let expected = expected(words.as_deref(), *tags, further.as_ref().unwrap_or(&vec![]));
            prop_assert_eq!(std::str::from_utf8(found).unwrap(), expected);
        }
        prop_assert_eq!(borders[rows.len()], data.len() as i64);
    }
}

#[test]
fn what_would_be_read_as_something_else_is_declined() {
    let tags = |value: &'static str| vec![(PROPERTY_TAGS, Values::Texts(texts(&[Some(value)])))];
    let words = |word| {
        let row = Ranges::new(vec![0, 1], Valid::All);
        vec![(PROPERTY_KEYS, Values::Words(row, texts(&[Some(word)])))]
    };
    let entry = |name, value: &'static [u8]| {
        let place = Ranges::new(vec![0, value.len()], Valid::All);
        let row = Ranges::new(vec![0, 1], Valid::All);
        Some((row, texts(&[name]), Texts::new(place, value.to_vec())))
    };
    for (columns, further) in [
        (tags("a\u{2}b"), None),
        (words("a b"), None),
        (vec![], entry(Some(""), b"")),
        (vec![], entry(Some("a\u{1}"), b"")),
        (vec![], entry(Some("a\u{2}"), b"")),
        (vec![], entry(None, b"")),
        (vec![], entry(Some("a"), b"\xFF")),
        (words("a"), entry(Some("KEYS"), b"\xFF\x80")),
    ] {
        let properties = Properties {
            count: 1,
            columns,
            further,
        };
        assert_eq!(properties.joined().err(), Some(Decline::ToPython));
    }
}
