//! Without Python, so that Miri can run them.

use proptest::prelude::*;

use crate::put::end::LogEnd;
use crate::put::tests::log_at;
use crate::serve::answer::Answers;
use crate::serve::binary::read_binary;
use crate::serve::header::Header;
use crate::serve::json::read_json;
use crate::serve::room::{Origin, Room, Sizes};
use crate::serve::unusual::Unusual;
use crate::shared::any_case;

const ORIGIN: Origin = Origin {
    store_timestamp: 7,
    store_host: [127, 0, 0, 1, 0, 0, 0, 9],
    born_host: [127, 0, 0, 1, 0, 0, 0, 8],
};

fn room() -> Room {
    let sizes = Sizes {
        frame_max: 1 << 12,
        header_max: 1 << 10,
        body_max: 1 << 8,
    };
    let parts = |parts: &[&str]| parts.iter().map(|part| part.as_bytes().into()).collect();
    let unusual = Unusual::of(parts(&["DELAY", "\x01\x02"])).unwrap();
    let answers = Answers::new(parts(&["<", ",", ",", ",", ",", ">"]), b"AB"[..].into());
    let added = b"CLUSTER\x01c\x02"[..].into();
    let mut room = Room::new(sizes, added, unusual, answers.unwrap());
    room.allow(b"orders", 4).unwrap();
    room
}

fn frame(kind: u32, header: &[u8], body: &[u8]) -> Vec<u8> {
    let length = (4 + header.len() + body.len()) as u32;
    let word = kind << 24 | header.len() as u32;
    [&length.to_be_bytes(), &word.to_be_bytes(), header, body].concat()
}

fn send(topic: &str, queue: &str, properties: &str, flag: u8) -> Vec<u8> {
    let header = format!(
        r#"{{"code":310,"extFields":{{"a":"p","b":"{topic}","e":"{queue}","f":"0","g":"5","h":"0","i":"{properties}"}},"flag":{flag},"opaque":9}}"#
    );
    frame(0, header.as_bytes(), b"body")
}

fn binary(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut found = vec![];
    for (name, value) in fields {
        found.extend_from_slice(&(name.len() as u16).to_be_bytes());
        found.extend_from_slice(name.as_bytes());
        found.extend_from_slice(&(value.len() as u32).to_be_bytes());
        found.extend_from_slice(value.as_bytes());
    }
    let mut header = 10_u16.to_be_bytes().to_vec();
    header.extend_from_slice(&[0, 0, 0]);
    header.extend_from_slice(&9_u32.to_be_bytes());
    header.extend_from_slice(&[0; 8]);
    header.extend_from_slice(&(found.len() as u32).to_be_bytes());
    header.extend_from_slice(&found);
    header
}

const KEY: &str = r"UNIQ_KEY\u0001k\u0002";

#[test]
fn sends_are_stored_and_answered() {
    let (mut end, _region) = log_at(0, 1 << 12);
    let data = [
        send("orders", "3", KEY, 0),
        send("orders", "3", KEY, 2),
        send("orders", "3", KEY, 0),
    ]
    .concat();

    let taken = room().take(&mut end, &data, 0, ORIGIN);

    assert_eq!((taken.count, taken.end), (3, data.len()));
    let size = end.end_offset / 3;
    let answer = |at: i64| {
        let text = format!("<AB{:016X},3,{at},k,9>", size * at);
        frame(0, text.as_bytes(), b"")
    };
    assert_eq!(taken.answers, [answer(0), answer(2)].concat());
    assert_eq!(end.queues.next_of(b"orders", 3), 3);
}

#[test]
fn what_is_not_ordinary_is_left_where_it_is() {
    let ordinary = send("orders", "0", KEY, 0);
    for (other, unknown) in [
        (send("orders", "4", KEY, 0), None),
        (send("orders", "01", KEY, 0), None),
        (send("orders", "0", "", 0), None),
        (
            send("orders", "0", r"DELAY\u00011\u0002UNIQ_KEY\u0001k\u0002", 0),
            None,
        ),
        (send("orders", "0", KEY, 1), None),
        (send("bills", "0", KEY, 0), Some(&b"bills"[..])),
        (send("bills", "0", "", 0), None),
        (ordinary[..ordinary.len() - 1].to_vec(), None),
        (frame(0, b"{}", b""), None),
        (frame(2, b"{}", b""), None),
        (vec![0xFF; 9], None),
        (vec![], None),
    ] {
        let (mut end, _region) = log_at(0, 1 << 12);
        let data = [ordinary.clone(), other].concat();

        let taken = room().take(&mut end, &data, 0, ORIGIN);

        assert_eq!((taken.count, taken.end), (1, ordinary.len()));
        assert_eq!(taken.unknown.as_deref(), unknown);
    }
}

#[test]
fn a_full_file_ends_it() {
    let (mut end, _region) = log_at(0, 400);
    let data = send("orders", "0", KEY, 0).repeat(5);

    let taken = room().take(&mut end, &data, 0, ORIGIN);

    assert!((1..5).contains(&taken.count));
    assert_eq!(taken.end, data.len() / 5 * taken.count);
}

#[test]
fn a_binary_header_says_the_same() {
    let (mut end, _region) = log_at(0, 1 << 12);
    let fields = [
        ("producerGroup", "p"),
        ("topic", "other"),
        ("topic", "orders"),
        ("queueId", "1"),
        ("sysFlag", "4"),
        ("bornTimestamp", "5"),
        ("flag", "0"),
        ("properties", "UNIQ_KEY\x01k"),
    ];
    let data = frame(1, &binary(&fields), b"body");

    let taken = room().take(&mut end, &data, 0, ORIGIN);

    assert_eq!((taken.count, taken.end), (1, data.len()));
    assert_eq!(end.queues.next_of(b"orders", 1), 1);
}

proptest! {
    #![proptest_config(any_case())]

    #[test]
    fn any_bytes_are_read_or_left(mut data: Vec<u8>, at: prop::sample::Index, byte: u8) {
        let mut header = Header::default();
        read_json(&data, &mut header);
        header.clear();
        read_binary(&data, &mut header);
        let mut log: LogEnd<()> = LogEnd::new(0, -1, 4);
        room().take(&mut log, &data, 0, ORIGIN);
        for mut near in [
            send("orders", "0", KEY, 0),
            frame(1, &binary(&[("topic", "orders"), ("a", "b")]), &data),
        ] {
            let place = at.index(near.len());
            near[place] = byte;
            let (mut end, _region) = log_at(0, 1 << 10);
            let taken = room().take(&mut end, &near, 0, ORIGIN);
            let whole = 4 + u32::from_be_bytes(near[..4].try_into().unwrap()) as usize;
            prop_assert!(taken.end == 0 || taken.end == whole);
            data.append(&mut near);
        }
        room().take(&mut log, &data, 0, ORIGIN);
    }
}
