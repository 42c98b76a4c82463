//! A connection by hand-made frames. What the two engines share is compared by Python's tests.

use http::{HeaderMap, HeaderValue};

use crate::connection::{Connection, Event, Sizes};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:method POST`, `:scheme http`, `:path /` and `:authority a`, by HPACK's static table.
const POST: &[u8] = &[0x83, 0x86, 0x84, 0x41, 0x01, b'a'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut found = size[1..].to_vec();
    found.extend([kind, flags]);
    found.extend(stream.to_be_bytes());
    found.extend(payload);
    found
}

/// Kind, flags, stream and payload size of each frame.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, usize)> {
    let mut found = Vec::new();
    while bytes.len() >= 9 {
        let size = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
        found.push((bytes[3], bytes[4], stream, size));
        bytes = &bytes[9 + size..];
    }
    assert!(bytes.is_empty());
    found
}

fn greeted() -> Connection {
    let mut connection = Connection::new(&Sizes {
        streams: 10,
        header_size: 1 << 14,
        stream_window: 1 << 16,
        connection_window: 1 << 17,
    });
    let mut hello = PREFACE.to_vec();
    hello.extend(frame(SETTINGS, 0, 0, &[]));
    assert!(connection.receive(&hello).is_empty());
    let said = frames(&connection.take_written());
    assert!(
        said.iter().filter(|each| each.0 == SETTINGS).count() >= 2,
        "{said:?}"
    );
    connection
}

fn asked(connection: &mut Connection, stream: u32, body: &[u8]) -> Vec<Event> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, POST);
    bytes.extend(frame(DATA, END_STREAM, stream, body));
    connection.receive(&bytes)
}

fn ended() -> HeaderMap {
    HeaderMap::from_iter([(
        "grpc-status".parse().unwrap(),
        HeaderValue::from_static("0"),
    )])
}

#[test]
fn a_request_is_one_event_and_its_answer_ends_the_stream() {
    let mut connection = greeted();

    let events = asked(&mut connection, 1, b"body");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].stream, 1);
    assert_eq!(events[0].head.as_ref().unwrap().method, "POST");
    assert_eq!(events[0].news.data, b"body");
    assert!(events[0].news.is_ended && !events[0].news.is_reset);

    assert!(connection.respond(1, HeaderMap::new(), b"answer", Some(ended())));
    assert!(!connection.respond(1, HeaderMap::new(), b"again", None));
    assert!(connection.drive().is_empty());
    let said = frames(&connection.take_written());
    let answer: Vec<_> = said.iter().filter(|each| each.2 == 1).collect();
    assert_eq!(answer.len(), 3, "{said:?}");
    assert_eq!(
        (answer[0].0, answer[1].0, answer[2].0),
        (HEADERS, DATA, HEADERS)
    );
    assert_eq!(answer[1].3, 6);
    assert_eq!(answer[2].1 & END_STREAM, END_STREAM);
}

#[test]
fn bytes_may_come_one_by_one() {
    let mut connection = greeted();
    let mut bytes = frame(HEADERS, END_HEADERS, 1, POST);
    bytes.extend(frame(DATA, END_STREAM, 1, b"body"));

    let mut data = Vec::new();
    let mut heads = 0;
    let mut ends = 0;
    for byte in bytes {
        for event in connection.receive(&[byte]) {
            heads += usize::from(event.head.is_some());
            ends += usize::from(event.news.is_ended);
            data.extend(event.news.data);
        }
    }

    assert_eq!((heads, ends, data.as_slice()), (1, 1, b"body".as_slice()));
}

#[test]
fn a_client_gives_a_stream_up_and_the_connection_goes_on() {
    let mut connection = greeted();
    asked(&mut connection, 1, b"");

    let events = connection.receive(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
    assert!(events.len() == 1 && events[0].news.is_reset);
    assert!(!connection.respond(1, HeaderMap::new(), b"late", Some(ended())));

    assert_eq!(asked(&mut connection, 3, b"").len(), 1);
}

#[test]
fn an_answer_waits_for_the_windows_of_its_client() {
    let mut connection = greeted();
    asked(&mut connection, 1, b"");

    assert!(connection.respond(1, HeaderMap::new(), &[], None));
    assert_eq!(connection.send(1, &[0; 100_000]), 100_000 - 65_535);
    connection.finish(1, ended());
    connection.drive();
    let sent: usize = frames(&connection.take_written())
        .iter()
        .filter(|each| each.0 == DATA)
        .map(|f| f.3)
        .sum();
    assert_eq!(sent, 65_535);

    let mut more = frame(WINDOW_UPDATE, 0, 0, &100_000_u32.to_be_bytes());
    more.extend(frame(WINDOW_UPDATE, 0, 1, &100_000_u32.to_be_bytes()));
    connection.receive(&more);
    let said = frames(&connection.take_written());
    assert_eq!(
        said.iter()
            .filter(|each| each.0 == DATA)
            .map(|f| f.3)
            .sum::<usize>(),
        34_465
    );
    assert_eq!(
        said.last().map(|each| each.1 & END_STREAM),
        Some(END_STREAM)
    );
}

#[test]
fn what_is_not_http2_ends_the_connection_and_all_its_streams() {
    let mut connection = greeted();
    asked(&mut connection, 1, b"");

    let events = connection.receive(&frame(DATA, 0, 0, b"no stream"));
    assert!(connection.is_over());
    assert!(events.len() == 1 && events[0].news.is_reset);
    assert!(
        frames(&connection.take_written())
            .iter()
            .any(|each| each.0 == GOAWAY)
    );

    let mut other = Connection::new(&Sizes {
        streams: 1,
        header_size: 1,
        stream_window: 1,
        connection_window: 1,
    });
    other.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(other.is_over());
}

#[test]
fn a_connection_that_is_shut_ends_with_its_last_stream() {
    let mut connection = greeted();
    asked(&mut connection, 1, b"");

    connection.shut();
    connection.drive();
    assert!(!connection.is_over());
    assert!(
        frames(&connection.take_written())
            .iter()
            .any(|each| each.0 == GOAWAY)
    );
    connection.respond(1, HeaderMap::new(), b"answer", Some(ended()));
    connection.receive(&[]);
    assert!(connection.is_over());
}
