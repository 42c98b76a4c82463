//! A window of the log becomes columns; see `reput.record.decode`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::shared::arrays::{Column, array};
use crate::shared::border::{guarded, unlocked};
use crate::shared::bytes::{be_i16, be_i32, be_i64, be_u32};

pub const MAGIC_V1: u32 = 0xDAA3_20A7;
pub const MAGIC_V2: u32 = 0xDAA3_20AB; // topic size takes two bytes
pub const HEADER_SIZE: usize = 88; // of a record whose hosts are both IPv4
pub const RECORD_MIN_SIZE: usize = HEADER_SIZE + 1 + 2;
pub const HOST_EXTRA_V6: usize = 12;
pub const BORN_HOST_V6: i32 = 0x10;
pub const STORE_HOST_V6: i32 = 0x20;
const STORE_TIMESTAMP: usize = 56;
const AFTER_STORE_HOST: usize = 72;
const CRC_PROPERTY: &[u8] = b"__CRC32#\x01";
const CRC_PROPERTY_SIZE: usize = CRC_PROPERTY.len() + 10 + 1;

/// Why the window's records end in front of one; the numbers are those of `reput.record.decode`.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    None = 0,
    LengthMismatch = 1,
    PhysicalOffset = 2,
    BodyCrc = 3,
    RecordCrc = 4,
}

#[derive(Clone, Copy)]
struct Checks {
    offset: bool,
    crc: bool,
    record_crc: bool,
}

/// Columns over the sound records from the start of a window on.
struct Cut {
    start: Vec<i64>,
    size: Vec<i64>,
    /// 88 bytes for each record, as if both hosts were IPv4.
    header: Vec<u8>,
    // Of the header, what every dispatcher asks for.
    queue_id: Vec<i32>,
    queue_offset: Vec<i64>,
    sys_flag: Vec<i32>,
    store_timestamp: Vec<i64>,
    body_start: Vec<i64>,
    body_size: Vec<i64>,
    topic_start: Vec<i64>,
    topic_size: Vec<i64>,
    properties_start: Vec<i64>,
    properties_size: Vec<i64>,
    end_position: usize,
    reason: Reason,
    /// The physical offset that the record behind the last one states.
    stated: i64,
}

/// See `reput.record.decode.cut_window`.
#[pyfunction]
pub fn cut_window<'py>(
    py: Python<'py>,
    window: &Bound<'py, PyAny>,
    base_offset: &Bound<'py, PyAny>,
    check_offset: &Bound<'py, PyAny>,
    check_crc: &Bound<'py, PyAny>,
    check_record_crc: &Bound<'py, PyAny>,
    _walks: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "cut_window", || {
        let (Some(window), Ok(base_offset)) = (Column::<u8>::of(window), base_offset.extract())
        else {
            return Ok(None);
        };
        let checks = Checks {
            offset: check_offset.is_truthy()?,
            crc: check_crc.is_truthy()?,
            record_crc: check_record_crc.is_truthy()?,
        };
        let bytes = window.items();
        let cut = unlocked(py, bytes.len(), || cut(bytes, base_offset, checks));
        let numbers = PyDict::new(py);
        numbers.set_item("queue_id", array(py, cut.queue_id))?;
        numbers.set_item("queue_offset", array(py, cut.queue_offset))?;
        numbers.set_item("sys_flag", array(py, cut.sys_flag))?;
        numbers.set_item("store_timestamp", array(py, cut.store_timestamp))?;
        let parts = PyDict::new(py);
        parts.set_item("body_start", array(py, cut.body_start))?;
        parts.set_item("body_size", array(py, cut.body_size))?;
        parts.set_item("topic_start", array(py, cut.topic_start))?;
        parts.set_item("topic_size", array(py, cut.topic_size))?;
        parts.set_item("properties_start", array(py, cut.properties_start))?;
        parts.set_item("properties_size", array(py, cut.properties_size))?;
        let is_sound = cut.reason == Reason::None;
        let columns = (
            array(py, cut.start),
            array(py, cut.size),
            array(py, cut.header),
            numbers,
            parts,
            cut.end_position,
            cut.reason as u8,
            if is_sound { 0 } else { cut.stated },
        );
        Ok(Some(columns.into_pyobject(py)?.into_any()))
    })
}

fn cut(window: &[u8], base_offset: i64, checks: Checks) -> Cut {
    // Most records are larger, and a column that was guessed too small grows.
    let guess = window.len() / 256 + 1;
    let column = || Vec::with_capacity(guess);
    let mut found = Cut {
        start: column(),
        size: column(),
        header: Vec::with_capacity(guess * HEADER_SIZE),
        queue_id: Vec::with_capacity(guess),
        queue_offset: column(),
        sys_flag: Vec::with_capacity(guess),
        store_timestamp: column(),
        body_start: column(),
        body_size: column(),
        topic_start: column(),
        topic_size: column(),
        properties_start: column(),
        properties_size: column(),
        end_position: 0,
        reason: Reason::None,
        stated: 0,
    };
    while let Some(record) = record_at(window, found.end_position) {
        let at = found.end_position;
        found.stated = be_i64(record, 28);
        let parts = Parts::of(record);
        found.reason = parts.as_ref().map_or(Reason::LengthMismatch, |parts| {
            parts.fails(record, base_offset.wrapping_add(at as i64), checks)
        });
        let Some(parts) = parts else { break };
        if found.reason != Reason::None {
            break;
        }
        found.start.push(at as i64);
        found.size.push(record.len() as i64);
        let header = parts.header(record);
        found.header.extend_from_slice(&header);
        found.queue_id.push(be_i32(&header, 12));
        found.queue_offset.push(be_i64(&header, 20));
        found.sys_flag.push(be_i32(&header, 36));
        found.store_timestamp.push(be_i64(&header, STORE_TIMESTAMP));
        found.body_start.push((at + parts.body) as i64);
        found.body_size.push(parts.body_size as i64);
        found.topic_start.push((at + parts.topic) as i64);
        found.topic_size.push(parts.topic_size as i64);
        found.properties_start.push((at + parts.properties) as i64);
        found
            .properties_size
            .push((record.len() - parts.properties) as i64);
        found.end_position = at + record.len();
    }
    found
}

/// The bytes of a whole record that begins at `at`.
#[inline]
fn record_at(window: &[u8], at: usize) -> Option<&[u8]> {
    let rest = window.get(at..)?;
    if rest.len() < RECORD_MIN_SIZE {
        return None;
    }
    let size = usize::try_from(be_i32(rest, 0)).ok()?;
    let is_record = matches!(be_u32(rest, 4), MAGIC_V1 | MAGIC_V2) && size >= RECORD_MIN_SIZE;
    if is_record { rest.get(..size) } else { None }
}

/// Whether these are the bytes of a record, by size and magic.
#[inline]
pub fn is_record(bytes: &[u8]) -> bool {
    bytes.len() >= RECORD_MIN_SIZE
        && i64::from(be_i32(bytes, 0)) == bytes.len() as i64
        && matches!(be_u32(bytes, 4), MAGIC_V1 | MAGIC_V2)
}

/// Where the parts of a record stand in it.
pub struct Parts {
    /// Bytes by which hosts are longer than those of IPv4.
    pub born_extra: usize,
    pub extra: usize,
    pub body: usize,
    pub body_size: usize,
    pub topic: usize,
    pub topic_size: usize,
    pub properties: usize,
}

impl Parts {
    /// `None` where lengths inside of a record contradict its size.
    #[inline]
    pub fn of(record: &[u8]) -> Option<Self> {
        let sys_flag = be_i32(record, 36);
        let born_extra = if sys_flag & BORN_HOST_V6 == 0 {
            0
        } else {
            HOST_EXTRA_V6
        };
        let extra = born_extra
            + if sys_flag & STORE_HOST_V6 == 0 {
                0
            } else {
                HOST_EXTRA_V6
            };
        let width = if be_u32(record, 4) == MAGIC_V2 { 2 } else { 1 };
        let body = HEADER_SIZE + extra;
        // Each length is read only where the ones before it leave room for it.
        if body + width + 2 > record.len() {
            return None;
        }
        // A negative length counts as none in RocketMQ's own length check.
        let body_size = be_i32(record, body - 4).max(0) as usize;
        let topic = body + body_size + width;
        if topic + 2 > record.len() {
            return None;
        }
        let topic_size = if width == 2 {
            be_i16(record, topic - 2)
        } else {
            i16::from(record[topic - 1] as i8)
        };
        let topic_size = usize::try_from(topic_size).ok()?;
        let properties = topic + topic_size + 2;
        if properties > record.len() {
            return None;
        }
        let properties_size = be_i16(record, properties - 2).max(0) as usize;
        let is_whole = properties + properties_size == record.len();
        is_whole.then_some(Self {
            born_extra,
            extra,
            body,
            body_size,
            topic,
            topic_size,
            properties,
        })
    }

    /// Which check a consistent record fails first.
    #[inline]
    fn fails(&self, record: &[u8], own_offset: i64, checks: Checks) -> Reason {
        if checks.offset && be_i64(record, 28) != own_offset {
            return Reason::PhysicalOffset;
        }
        if checks.crc && !self.body_matches(record) {
            return Reason::BodyCrc;
        }
        if checks.record_crc && !self.record_crc_matches(record) {
            return Reason::RecordCrc;
        }
        Reason::None
    }

    /// Whether the body matches its checksum; an empty one always does.
    #[inline]
    pub fn body_matches(&self, record: &[u8]) -> bool {
        let body = &record[self.body..self.body + self.body_size];
        body.is_empty() || crc32(body) == i64::from(be_i32(record, 8))
    }

    /// Whether the whole-record checksum of a record is absent or right.
    fn record_crc_matches(&self, record: &[u8]) -> bool {
        if record.len() - self.properties < CRC_PROPERTY_SIZE {
            return true;
        }
        let (before, reserved) = record.split_at(record.len() - CRC_PROPERTY_SIZE);
        let Some(digits) = reserved.strip_prefix(CRC_PROPERTY) else {
            return true;
        };
        // Ten digits, the lowest first, and the byte that ends the property.
        let digits = &digits[..10];
        if !digits.iter().all(u8::is_ascii_digit) {
            return false;
        }
        let stated = digits
            .iter()
            .rev()
            .fold(0i64, |value, digit| 10 * value + i64::from(digit - b'0'));
        stated == crc32(before)
    }

    /// The record's header, with each field where it stands when both hosts are IPv4.
    #[inline]
    fn header(&self, record: &[u8]) -> [u8; HEADER_SIZE] {
        let mut header = [0; HEADER_SIZE];
        header.copy_from_slice(&record[..HEADER_SIZE]);
        if self.extra > 0 {
            let at = STORE_TIMESTAMP + self.born_extra;
            header[STORE_TIMESTAMP..STORE_TIMESTAMP + 8].copy_from_slice(&record[at..at + 8]);
            let rest = &record[AFTER_STORE_HOST + self.extra..HEADER_SIZE + self.extra];
            header[AFTER_STORE_HOST..].copy_from_slice(rest);
        }
        header
    }
}

/// CRC-32 as records state it.
fn crc32(bytes: &[u8]) -> i64 {
    i64::from(crc32fast::hash(bytes) & 0x7FFF_FFFF)
}
