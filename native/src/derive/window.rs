//! A window of the log becomes columns; see `reput.record.decode`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::encode::record::crc32;
use crate::shared::arrays::{Columns, array, frozen, matrix, slices};
use crate::shared::border::{guarded, unlocked};
use crate::shared::bytes::{be_i16, be_i32, be_i64, be_u32};
use crate::shared::decline::Arg;
use crate::shared::layout::{
    BORN_HOST_V6, CRC_PROPERTY_SIZE, HEADER_SIZE, HOST_EXTRA_V6, MAGIC_V1, MAGIC_V2, NAME_END,
    PROPERTY_CRC, RECORD_MIN_SIZE, STORE_HOST_V6,
};

const QUEUE_ID: usize = 12;
const QUEUE_OFFSET: usize = 20;
const PHYSICAL_OFFSET: usize = 28;
const SYS_FLAG: usize = 36;
const STORE_TIMESTAMP: usize = 56;
const AFTER_STORE_HOST: usize = 72;

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

/// Where records and their parts stand, and their headers.
pub struct Cuts {
    places: Columns<PLACES>,
    /// 88 bytes for each record, as if both hosts were IPv4.
    header: Vec<u8>,
}

/// Start and size of record, body, topic and properties, as `reput.record.batch.SpanRow` has them.
pub const PLACES: usize = 8;

impl Cuts {
    pub fn with_capacity(count: usize) -> Self {
        Self {
            places: Columns::with_capacity(count),
            header: Vec::with_capacity(count * HEADER_SIZE),
        }
    }

    /// Add a record that begins at `at`; its header.
    #[inline]
    pub fn add(&mut self, at: usize, record: &[u8], parts: &Parts) -> [u8; HEADER_SIZE] {
        self.places.push(parts.places(at, record.len()));
        let header = parts.header(record);
        self.header.extend_from_slice(&header);
        header
    }

    /// The matrix of places, and that of headers; nobody may write them.
    pub fn matrices(self, py: Python<'_>) -> PyResult<[Bound<'_, PyAny>; 2]> {
        let shape = [self.header.len() / HEADER_SIZE, HEADER_SIZE];
        let header = frozen(matrix(py, self.header, shape)?);
        Ok([self.places.matrix(py)?, header.into_any()])
    }
}

/// Columns over the sound records from the start of a window on.
struct Cut {
    cuts: Cuts,
    // Of the header, what every dispatcher asks for.
    queue_id: Vec<i32>,
    queue_offset: Vec<i64>,
    sys_flag: Vec<i32>,
    store_timestamp: Vec<i64>,
    end_position: usize,
    reason: Reason,
    /// The physical offset that the record behind the last one states.
    stated: i64,
}

/// See `reput.record.decode.cut_window`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // they are those of the Python function
#[pyo3(signature = (window, base_offset, check_offset, check_crc, check_record_crc, _walks, gap = Arg::of(0)))]
pub fn cut_window<'py>(
    py: Python<'py>,
    window: &Bound<'py, PyAny>,
    base_offset: Arg<i64>,
    check_offset: &Bound<'py, PyAny>,
    check_crc: &Bound<'py, PyAny>,
    check_record_crc: &Bound<'py, PyAny>,
    _walks: &Bound<'py, PyAny>,
    gap: Arg<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "cut_window", || {
        slices!(window);
        let base_offset = base_offset.get()?;
        let gap = gap.get()?;
        let checks = Checks {
            offset: check_offset.is_truthy()?,
            crc: check_crc.is_truthy()?,
            record_crc: check_record_crc.is_truthy()?,
        };
        let cut = unlocked(py, window.len(), || cut(window, base_offset, checks, gap));
        let numbers = PyDict::new(py);
        numbers.set_item("queue_id", array(py, cut.queue_id))?;
        numbers.set_item("queue_offset", array(py, cut.queue_offset))?;
        numbers.set_item("sys_flag", array(py, cut.sys_flag))?;
        numbers.set_item("store_timestamp", array(py, cut.store_timestamp))?;
        let [places, header] = cut.cuts.matrices(py)?;
        let is_sound = cut.reason == Reason::None;
        Ok((
            places,
            header,
            numbers,
            cut.end_position,
            cut.reason as u8,
            if is_sound { 0 } else { cut.stated },
        ))
    })
}

fn cut(window: &[u8], base_offset: i64, checks: Checks, gap: usize) -> Cut {
    // Most records are larger, and a column that was guessed too small grows.
    let guess = window.len() / 256 + 1;
    let mut found = Cut {
        cuts: Cuts::with_capacity(guess),
        queue_id: Vec::with_capacity(guess),
        queue_offset: Vec::with_capacity(guess),
        sys_flag: Vec::with_capacity(guess),
        store_timestamp: Vec::with_capacity(guess),
        end_position: 0,
        reason: Reason::None,
        stated: 0,
    };
    while let Some(record) = record_at(window, found.end_position.saturating_add(gap)) {
        let at = found.end_position + gap;
        found.stated = be_i64(record, PHYSICAL_OFFSET);
        let parts = Parts::of(record);
        found.reason = parts.map_or(Reason::LengthMismatch, |parts| {
            parts.fails(record, base_offset.wrapping_add(at as i64), checks)
        });
        let Some(parts) = parts.filter(|_| found.reason == Reason::None) else {
            break;
        };
        let header = found.cuts.add(at, record, &parts);
        found.queue_id.push(be_i32(&header, QUEUE_ID));
        found.queue_offset.push(be_i64(&header, QUEUE_OFFSET));
        found.sys_flag.push(be_i32(&header, SYS_FLAG));
        found.store_timestamp.push(be_i64(&header, STORE_TIMESTAMP));
        found.end_position = at + record.len();
    }
    found
}

/// The bytes of a whole record that begins at `at`.
#[inline]
fn record_at(window: &[u8], at: usize) -> Option<&[u8]> {
    let rest = window.get(at..)?;
    let size = usize::try_from(be_i32(rest.get(..4)?, 0)).ok()?;
    rest.get(..size).filter(|record| is_record(record))
}

/// Whether these are the bytes of a record, by size and magic.
#[inline]
pub fn is_record(bytes: &[u8]) -> bool {
    bytes.len() >= RECORD_MIN_SIZE
        && i64::from(be_i32(bytes, 0)) == bytes.len() as i64
        && matches!(be_u32(bytes, 4), MAGIC_V1 | MAGIC_V2)
}

/// Bytes by which a host of a record is longer than one of IPv4; `bit` says which host.
#[inline]
pub fn host_extra(record: &[u8], bit: i32) -> usize {
    if be_i32(record, SYS_FLAG) & bit == 0 {
        0
    } else {
        HOST_EXTRA_V6
    }
}

/// Where the parts of a record stand in it.
#[derive(Clone, Copy)]
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
        let born_extra = host_extra(record, BORN_HOST_V6);
        let extra = born_extra + host_extra(record, STORE_HOST_V6);
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

    /// What `Cuts` has of a record of `size` bytes that begins at `at`.
    #[inline]
    pub fn places(&self, at: usize, size: usize) -> [i64; PLACES] {
        let places = [
            at,
            size,
            at + self.body,
            self.body_size,
            at + self.topic,
            self.topic_size,
            at + self.properties,
            size - self.properties,
        ];
        places.map(|place| place as i64)
    }

    /// Which check a consistent record fails first.
    #[inline]
    fn fails(&self, record: &[u8], own_offset: i64, checks: Checks) -> Reason {
        if checks.offset && be_i64(record, PHYSICAL_OFFSET) != own_offset {
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
        body.is_empty() || crc32(body) == be_u32(record, 8)
    }

    /// Whether the whole-record checksum of a record is absent or right.
    fn record_crc_matches(&self, record: &[u8]) -> bool {
        if record.len() - self.properties < CRC_PROPERTY_SIZE {
            return true;
        }
        let (before, reserved) = record.split_at(record.len() - CRC_PROPERTY_SIZE);
        let name = reserved.strip_prefix(PROPERTY_CRC.as_bytes());
        let Some([NAME_END, digits @ .., _]) = name else {
            return true;
        };
        // Ten digits, the lowest first.
        let value = |value, digit: &u8| 10 * value + u64::from(digit - b'0');
        digits.iter().all(u8::is_ascii_digit)
            && digits.iter().rev().fold(0, value) == u64::from(crc32(before))
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
