//! Without Python, so that Miri can run them.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use proptest::sample::select;

use crate::derive::window::{Parts, is_record};
use crate::encode::message::{NO_QUEUE, Numbers};
use crate::encode::record::takes_queue_offset;
use crate::put::end::{Active, LogEnd, Unplaced};
use crate::put::queues::{ELSEWHERE, Queues};
use crate::put::refusal::Refusal;
use crate::put::region::Region;
use crate::put::table::{Chunk, Table, TableBuilder};
use crate::shared::any_case;
use crate::shared::decline::Decline;
use crate::shared::layout::{BLANK_MAGIC, HEADER_SIZE};

const FILE_SIZE: usize = 1 << 12;
const HOST: [u8; 8] = [127, 0, 0, 1, 0, 0, 0, 9];

/// Memory in the place of a map; it is freed with the region.
struct Memory(NonNull<[u64]>);

// SAFETY: nobody else has it.
unsafe impl Send for Memory {}
// SAFETY: likewise.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it comes from a box, and nobody has it any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

fn region(size: usize) -> Arc<Region> {
    // Aligned as a map is.
    let bytes = NonNull::from(Box::leak(vec![0_u64; size.div_ceil(8)].into_boxed_slice()));
    // SAFETY: the memory is there until its keeper is dropped.
    Arc::new(unsafe { Region::new(bytes.cast(), size, None, Box::new(Memory(bytes))) })
}

/// A log that is written to from `base_offset` on, and what is written.
pub fn log_at(base_offset: i64, size: usize) -> (LogEnd<()>, Arc<Region>) {
    let mut end = LogEnd::new(base_offset, -1, 4);
    end.allow();
    let region = region(size);
    let active = Active {
        file: (),
        region: Some(Arc::clone(&region)),
    };
    let begun = end.begin_file(active, base_offset, size as i64, base_offset);
    assert!(matches!(begun, Ok(None)));
    end.move_record_limit(end.file_limit);
    (end, region)
}

fn numbers(queue_id: i32) -> Numbers {
    Numbers {
        queue_id,
        ..Numbers::default()
    }
}

fn message<'a>(topic: &'a [u8], body: &'a [u8]) -> Unplaced<'a> {
    Unplaced {
        numbers: numbers(3),
        topic,
        body,
        properties: b"a\x01b\x02",
    }
}

fn table(messages: &[(&[u8], i32, &'static [u8])]) -> Table<&'static [u8]> {
    let mut builder = TableBuilder::new(messages.len(), 1 << 20, HOST)
        .ok()
        .unwrap();
    for &(name, queue_id, body) in messages {
        let topic = builder.topic(name).unwrap();
        let written = builder.add(topic, body, numbers(queue_id), |text| {
            text.named("a", Some("b"))
        });
        assert_eq!(written, Ok(()));
    }
    builder.end()
}

fn is_declined(end: &mut LogEnd<()>, message: &Unplaced<'_>) -> bool {
    end.put(message, 7, HOST).err() == Some(Decline::ToPython)
}

#[test]
fn what_is_not_put_leaves_nothing() {
    let (mut end, region) = log_at(0, FILE_SIZE);
    let whole = [b'x'; FILE_SIZE];
    let long = [b'T'; 10_000];
    for refused in [
        message(b"", b"body"),
        message(&long, b"body"),
        message(b"no/topic", b"body"),
        message(b"too_large", &whole),
    ] {
        assert!(is_declined(&mut end, &refused));
    }
    end.is_appending = true;
    assert!(is_declined(&mut end, &message(b"T", b"")));
    end.is_appending = false;
    end.refuse();
    assert!(is_declined(&mut end, &message(b"T", b"")));

    assert_eq!((end.end_offset, end.last_record_offset), (0, -1));
    assert!(end.queues.all().next().is_none());
    assert!(
        [&b"T"[..], b"too_large", b"no/topic"]
            .iter()
            .all(|name| end.queues.find(name).is_none())
    );
    assert_eq!(region.read(0, FILE_SIZE), [0; FILE_SIZE]);
}

#[test]
fn a_queue_without_a_next_queue_offset_takes_no_message() {
    let (mut end, _region) = log_at(0, FILE_SIZE);
    end.queues.set_of(b"T", 3, i64::MAX as u64);

    let (place, ..) = end.put(&message(b"T", b""), 7, HOST).unwrap();
    assert_eq!(place.queue_offset, i64::MAX);
    assert!(is_declined(&mut end, &message(b"T", b"")));
    for next in [1 << 63, ELSEWHERE - 1, ELSEWHERE] {
        end.queues.set_of(b"T", 3, next);
        assert!(is_declined(&mut end, &message(b"T", b"")));
        assert!(matches!(
            table(&[(b"T", 3, b"")]).queue_offsets(&end),
            Err(Refusal::QueueIsFull)
        ));
    }
}

#[test]
fn the_limits_of_the_last_file_do_not_wrap() {
    let (mut end, region) = log_at(i64::MAX - 150, FILE_SIZE);

    let (place, ..) = end.put(&message(b"T", b""), 7, HOST).ok().unwrap();
    assert_eq!(place.physical_offset, i64::MAX - 150);
    assert!(is_declined(&mut end, &message(b"T", b"")));
    let rows = table(&[(b"T", 3, b"body")]);
    assert!(matches!(
        Chunk::cut(&rows, &end, 0),
        Err(Refusal::PastLastOffset)
    ));
    assert_eq!(region.read(HEADER_SIZE + 8, 100), [0; 100]);
    assert!(end.file_limit > i128::from(i64::MAX));
}

#[test]
fn rows_are_written_in_chunks_and_counted() {
    let messages: Vec<(&[u8], i32, &'static [u8])> = (0..60)
        .map(|row| {
            if row % 3 == 0 {
                (&b"A"[..], row % 2, &b"first"[..])
            } else {
                (&b"B"[..], 2_000, &b""[..])
            }
        })
        .collect();
    let rows = table(&messages);
    let (mut end, region) = log_at(4096, FILE_SIZE);
    let offsets = rows.queue_offsets(&end).unwrap();
    let (mut first, mut data) = (0, vec![]);

    let chunk = Chunk::cut(&rows, &end, first).unwrap();
    chunk.encode(&rows, &offsets, 7, &mut data).unwrap();
    let (word, rest) = data.split_first_chunk().unwrap();
    region.write_records(0, *word, rest).unwrap();
    chunk.count(&rows, &offsets, &mut end);
    first = chunk.stop();

    assert!(first > 20 && first < 60);
    assert_eq!(region.read(0, data.len()), data);
    assert_eq!(end.end_offset, 4096 + data.len() as i64);
    assert_eq!(end.last_record_offset, chunk.offsets[first - 1]);
    let of_b = messages[..first].iter().filter(|row| row.0 == b"B").count() as u64;
    assert_eq!(end.queues.next_of(b"B", 2_000), of_b);
    let left = Chunk::cut(&rows, &end, first);
    assert!(matches!(left, Err(Refusal::NoRoom)));
    assert!(matches!(Chunk::cut(&rows, &end, 60), Err(Refusal::NoRoom)));
}

#[test]
fn more_rows_than_there_is_memory_for_are_an_error() {
    for count in [usize::MAX, usize::MAX / 64] {
        let made = TableBuilder::<&[u8]>::new(count, 10, HOST);
        assert_eq!(made.err(), Some(Decline::NoMemory));
    }
}

#[test]
fn a_region_takes_nothing_that_leaves_it() {
    let region = region(100);
    for (position, size) in [
        (0, 97),
        (97, 8),
        (100, 8),
        (101, 8),
        (usize::MAX, 8),
        (0, 3),
    ] {
        let written = region.write_records(position, *b"word", &vec![b'x'; size]);
        assert!(matches!(written, Err(Refusal::NoRoom)));
    }
    assert!(region.write_records(93, *b"1234", b"5678").is_err());
    assert_eq!(region.read(0, 100), [0; 100]);
    for position in 0..=92 {
        region.write_records(position, *b"1234", b"5678").unwrap();
        assert_eq!(region.read(position, 8), b"12345678");
    }
}

#[test]
fn a_file_ends_in_a_blank_when_the_next_begins() {
    let (mut end, region) = log_at(0, FILE_SIZE);
    let (_, size, _) = end.put(&message(b"T", b""), 7, HOST).ok().unwrap();
    let next = || Active {
        file: (),
        region: None,
    };

    let old = end.begin_file(next(), FILE_SIZE as i64, FILE_SIZE as i64, FILE_SIZE as i64);

    assert!(matches!(old, Ok(Some(_))));
    let blank = region.read(size, 8);
    assert_eq!(blank[..4], ((FILE_SIZE - size) as u32).to_be_bytes());
    assert_eq!(blank[4..], BLANK_MAGIC.to_be_bytes());
    end.refuse();
    assert!(matches!(
        end.begin_file(next(), 0, 0, 0),
        Err(Refusal::Refused)
    ));
}

#[test]
fn queue_numbers_of_any_size_are_kept() {
    let mut queues = Queues::new(4);
    let all = [
        (0, 7),
        (1_023, 0),
        (1_024, ELSEWHERE - 1),
        (-1, 3),
        (i32::MIN, u64::MAX >> 1),
    ];
    for (queue_id, next) in all {
        queues.set_of(b"T", queue_id, next);
    }

    let kept: HashMap<i32, u64> = queues.all().map(|(_, id, next)| (id, next)).collect();
    assert_eq!(kept, HashMap::from(all));
    let topic = queues.find(b"T").unwrap();
    for queue_id in [0, 5_000] {
        queues.set(topic, queue_id, ELSEWHERE);
        assert_eq!(queues.next(topic, queue_id), ELSEWHERE);
        assert!(queues.all().all(|(_, id, _)| id != queue_id));
        queues.set(topic, queue_id, 3);
        assert_eq!(queues.next_of(b"T", queue_id), 3);
    }
    assert_eq!(queues.all().count(), all.len() + 1);
    assert_eq!(queues.next_of(b"T", 17), 0);
    assert_eq!(queues.next_of(b"other", 0), 0);
}

#[test]
fn queues_take_turns_from_where_the_stored_messages_end() {
    let (mut end, _region) = log_at(0, FILE_SIZE);
    end.queues.set_of(b"T", 0, 5);
    let mut put = |topic, queue_id| {
        let unplaced = Unplaced {
            numbers: numbers(queue_id),
            ..message(topic, b"")
        };
        end.put(&unplaced, 7, HOST).unwrap().2
    };
    assert_eq!([0; 3].map(|_| put(b"T", NO_QUEUE)), [1, 2, 3]);
    assert_eq!([0; 2].map(|_| put(b"other", NO_QUEUE)), [0, 1]);
    assert_eq!(put(b"other", 9), 9);

    assert_eq!(end.queues.take_turns(b"other", 7).queue_id, 2);
    assert_eq!(end.queues.turn(None, b"unknown").queue_id, 0);
    end.queues.set_counts([(b"other"[..].into(), 3)]);
    let turn = end.queues.turn(end.queues.find(b"other"), b"other");
    assert_eq!((turn.queue_id, turn.count), (2, 3)); // one in queue 0, one in queue 1
    assert_eq!(turn.after(usize::MAX).queue_id, 2);
}

/// Miri reports what nothing orders: the bytes after the size, were it not for the fence.
#[test]
fn who_sees_a_size_sees_all_that_stands_after_it() {
    let (mut end, region) = log_at(0, FILE_SIZE);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while region.size_at(0) == 0 {
                thread::yield_now();
            }
            region.read(4, region.size_at(0) as usize - 4)
        });
        let (_, size, _) = end.put(&message(b"T", b"body"), 7, HOST).unwrap();
        let seen = reader.join().unwrap();
        assert_eq!((seen.len(), seen), (size - 4, region.read(4, size - 4)));
    });
}

proptest! {
    #![proptest_config(any_case())]

    #[test]
    fn any_messages_are_framed_and_counted_up_to_the_end_of_the_file(
        base in prop_oneof![Just(0), 1_i64 << 40..1 << 41, Just(i64::MAX - 900)],
        size in 8..1_500_usize,
        messages in prop::collection::vec(
            (0..4_usize, select(vec![0, 1, 1_023, 1_024, i32::MAX]), 0..16_i32, 0..90_usize),
            0..30,
        ),
    ) {
        const TOPICS: [&[u8]; 4] = [b"A", b"B", b"%RETRY%group", b"no/topic"];
        let (mut end, region) = log_at(base, size);
        let (mut at, mut next) = (base, HashMap::new());
        for (topic, queue_id, sys_flag, body_size) in messages {
            let (topic, body) = (TOPICS[topic], vec![b'x'; body_size]);
            let numbers = Numbers { sys_flag, ..numbers(queue_id) };
            let message = Unplaced { numbers, ..message(topic, &body) };
            let room = i128::from(at) + 91 + body_size as i128 + topic.len() as i128 + 4;
            let fits = room <= end.file_limit && room <= i128::from(i64::MAX);
            let put = end.put(&message, 7, HOST);
            prop_assert_eq!(put.is_ok(), fits && topic != b"no/topic");
            let Ok((place, size, _)) = put else { continue };
            let found = region.read((at - base) as usize, size);
            let parts = Parts::of(&found).unwrap();
            prop_assert!(is_record(&found) && parts.body_matches(&found));
            prop_assert_eq!(&found[HEADER_SIZE..][..body_size], body);
            prop_assert_eq!(&found[parts.topic..][..parts.topic_size], topic);
            prop_assert_eq!(&found[parts.properties..], b"a\x01b\x02");
            prop_assert_eq!((place.physical_offset, end.last_record_offset), (at, at));
            if takes_queue_offset(sys_flag) {
                let next: &mut i64 = next.entry((topic, queue_id)).or_default();
                prop_assert_eq!(place.queue_offset, *next);
                *next += 1;
            }
            at += size as i64;
            prop_assert_eq!(end.end_offset, at);
        }
        let used = (at - base) as usize;
        prop_assert_eq!(region.read(used, size - used), vec![0; size - used]);
        let kept = end.queues.all().map(|(name, id, next)| ((name, id), next as i64));
        prop_assert_eq!(kept.collect::<HashMap<_, _>>(), next);
    }
}
