//! Bytes of a record; see `reput.record.layout` and `reput.record.encoding.encoder`.

use crate::encode::message::Numbers;
use crate::shared::layout::{
    DEAD_LETTER_PREFIX, HEADER_SIZE, MAGIC_V1, MAGIC_V2, RETRY_PREFIX, TOPIC_SIZE_MAX,
    TOPIC_SIZE_V1_MAX, TRANSACTION_COMMIT, TRANSACTION_MASK,
};

/// A topic as a record holds it.
pub struct NamedTopic {
    pub magic: u32,
    /// The name, after its length.
    pub part: Box<[u8]>,
}

impl NamedTopic {
    /// `None` for a name that no topic can have; see `reput.record.encoding.encoder.check_topic`.
    pub fn of(name: &[u8]) -> Option<Self> {
        let is_allowed =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'_' | b'-');
        let is_of_group = name.starts_with(RETRY_PREFIX) || name.starts_with(DEAD_LETTER_PREFIX);
        let limit = if is_of_group {
            TOPIC_SIZE_MAX
        } else {
            TOPIC_SIZE_V1_MAX
        };
        if name.is_empty() || name.len() > limit || !name.iter().all(is_allowed) {
            return None;
        }
        let size = name.len() as u16;
        let (magic, mut part) = if name.len() > TOPIC_SIZE_V1_MAX {
            (MAGIC_V2, size.to_be_bytes().to_vec())
        } else {
            (MAGIC_V1, vec![size as u8])
        };
        part.extend_from_slice(name);
        let part = part.into();
        Some(Self { magic, part })
    }

    /// The name, without its length.
    pub fn name(&self) -> &[u8] {
        &self.part[if self.magic == MAGIC_V1 { 1 } else { 2 }..]
    }
}

/// What is known of a record before it has its place.
pub struct Record<'a> {
    pub numbers: Numbers,
    pub topic: &'a NamedTopic,
    pub body: &'a [u8],
    pub body_crc: u32,
    pub properties: &'a [u8],
}

/// Where and when a record is stored.
#[derive(Clone, Copy)]
pub struct Place {
    pub physical_offset: i64,
    pub queue_offset: i64,
    pub store_timestamp: i64,
    pub store_host: [u8; 8],
}

impl Record<'_> {
    /// Bytes of the whole record: fewer than 2**31, as `max_message_size` is bounded.
    #[inline]
    pub fn size(&self) -> usize {
        HEADER_SIZE + self.body.len() + self.topic.part.len() + 2 + self.properties.len()
    }

    /// The bytes before the body.
    #[inline]
    pub fn header(&self, place: &Place) -> [u8; HEADER_SIZE] {
        let numbers = &self.numbers;
        let born = numbers.born_timestamp.unwrap_or(place.store_timestamp);
        let mut header = [0; HEADER_SIZE];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.size() as u32).to_be_bytes());
        put(4, &self.topic.magic.to_be_bytes());
        put(8, &self.body_crc.to_be_bytes());
        put(12, &numbers.queue_id.to_be_bytes());
        put(16, &numbers.flag.to_be_bytes());
        put(20, &place.queue_offset.to_be_bytes());
        put(28, &place.physical_offset.to_be_bytes());
        put(36, &numbers.sys_flag.to_be_bytes());
        put(40, &born.to_be_bytes());
        put(48, &numbers.born_host.unwrap_or(place.store_host));
        put(56, &place.store_timestamp.to_be_bytes());
        put(64, &place.store_host);
        put(72, &numbers.reconsume_times.to_be_bytes());
        put(76, &numbers.prepared_transaction_offset.to_be_bytes());
        put(84, &(self.body.len() as u32).to_be_bytes());
        header
    }

    /// The size of the properties, as it stands before them.
    #[inline]
    pub fn properties_size(&self) -> [u8; 2] {
        (self.properties.len() as u16).to_be_bytes()
    }

    /// Append the whole record to `out`.
    #[inline]
    pub fn write(&self, place: &Place, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.header(place));
        out.extend_from_slice(self.body);
        out.extend_from_slice(&self.topic.part);
        out.extend_from_slice(&self.properties_size());
        out.extend_from_slice(self.properties);
    }
}

/// Whether messages with that flag take a queue offset: not prepared, not rolled back.
#[inline]
pub fn takes_queue_offset(sys_flag: i32) -> bool {
    let transaction = sys_flag & TRANSACTION_MASK;
    transaction == 0 || transaction == TRANSACTION_COMMIT
}

/// CRC-32 as records state it; see `reput.record.checksum`.
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes) & 0x7FFF_FFFF
}
