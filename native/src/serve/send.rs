//! What an ordinary send says; see `reput_server.broker.send.fastpathrequest`.

use crate::encode::message::Numbers;
use crate::serve::header::Header;
use crate::shared::layout::{HOST_SIZE, VALUE_END};

const SEND_MESSAGE: i32 = 10;
const SEND_MESSAGE_V2: i32 = 310;
const FIELDS: usize = 13;
const SMALL_MAX: i32 = 4_095;
const BORN_DIGITS_MAX: usize = 18;
const PREPARED: i32 = 4;
const UNIQUE: &[u8] = b"UNIQ_KEY\x01";

/// The texts of a send's fields, in the order of the letters that are their short names.
struct Fields<'a>([Option<&'a [u8]>; FIELDS]);

/// Numbers of its fields.
const GROUP: usize = 0;
const TOPIC: usize = 1;
const QUEUE_COUNT: usize = 3;
const QUEUE_ID: usize = 4;
const SYS_FLAG: usize = 5;
const BORN: usize = 6;
const FLAG: usize = 7;
const PROPERTIES: usize = 8;
const RECONSUME_TIMES: usize = 9;
const MOST_RECONSUMED: usize = 11;
const BATCH: usize = 12;

/// An ordinary send, but for its topic and its properties.
pub struct Send<'a> {
    pub topic: &'a [u8],
    pub numbers: Numbers,
    /// As the producer has sent them.
    pub properties: &'a [u8],
    /// The unique key among them.
    pub key: &'a [u8],
    pub is_one_way: bool,
}

impl<'a> Send<'a> {
    /// What a header says that stands in `bytes`.
    #[inline]
    pub fn of(header: &'a Header, bytes: &'a [u8], born_host: [u8; HOST_SIZE]) -> Option<Self> {
        let number_of = match header.code {
            SEND_MESSAGE_V2 => number_of_letter,
            SEND_MESSAGE => number_of_name,
            _ => return None,
        };
        let mut fields = Fields([None; FIELDS]);
        for (name, value) in header.fields(bytes) {
            if let Some(number) = number_of(name) {
                fields.0[number] = Some(value);
            }
        }
        let properties = fields.0[PROPERTIES]?;
        fields.0[GROUP]?;
        fields.small(QUEUE_COUNT, Some(4))?;
        fields.small(MOST_RECONSUMED, Some(0))?;
        let is_batch = fields.0[BATCH].unwrap_or(b"false") != b"false";
        let numbers = Numbers {
            queue_id: fields.small(QUEUE_ID, None)?,
            flag: fields.small(FLAG, None)?,
            sys_flag: fields.small(SYS_FLAG, None)? & !PREPARED,
            reconsume_times: fields.small(RECONSUME_TIMES, Some(0))?,
            prepared_transaction_offset: 0,
            born_timestamp: Some(timestamp(fields.0[BORN]?)?),
            born_host: Some(born_host),
        };
        let is_ordinary = !is_batch && header.flag & !2 == 0 && numbers.queue_id >= 0;
        is_ordinary.then_some(Self {
            topic: fields.0[TOPIC]?,
            numbers: numbers.checked().ok()?,
            properties,
            key: unique_key(properties)?,
            is_one_way: header.flag != 0,
        })
    }
}

impl Fields<'_> {
    /// A number from 0 to 4,095, as it is written by everybody.
    #[inline]
    fn small(&self, number: usize, missing: Option<i32>) -> Option<i32> {
        let Some(text) = self.0[number] else {
            return missing;
        };
        let is_short = matches!(text, [b'0'] | [b'1'..=b'9', ..]) && text.len() <= 4;
        let found = digits(is_short.then_some(text)?)? as i32;
        (found <= SMALL_MAX).then_some(found)
    }
}

#[inline]
fn number_of_letter(name: &[u8]) -> Option<usize> {
    match name {
        [letter @ b'a'..=b'm'] => Some(usize::from(letter - b'a')),
        _ => None,
    }
}

fn number_of_name(name: &[u8]) -> Option<usize> {
    Some(match name {
        b"producerGroup" => GROUP,
        b"topic" => TOPIC,
        b"defaultTopicQueueNums" => QUEUE_COUNT,
        b"queueId" => QUEUE_ID,
        b"sysFlag" => SYS_FLAG,
        b"bornTimestamp" => BORN,
        b"flag" => FLAG,
        b"properties" => PROPERTIES,
        b"reconsumeTimes" => RECONSUME_TIMES,
        b"maxReconsumeTimes" => MOST_RECONSUMED,
        b"batch" => BATCH,
        _ => return None,
    })
}

#[inline]
pub fn timestamp(text: &[u8]) -> Option<i64> {
    let is_one = !text.is_empty() && text.len() <= BORN_DIGITS_MAX;
    digits(is_one.then_some(text)?)
}

/// A number of at most 18 digits.
#[inline]
fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |number: i64, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        Some(number * 10 + digit)
    })
}

/// The unique key, if there is one that can be answered as it is.
#[inline]
fn unique_key(properties: &[u8]) -> Option<&[u8]> {
    let mut places = properties
        .windows(UNIQUE.len())
        .enumerate()
        .filter(|(_, part)| *part == UNIQUE);
    let (at, _) = places.next()?;
    let is_alone = places.next().is_none();
    let is_begin = at == 0 || properties[at - 1] == VALUE_END;
    let rest = &properties[at + UNIQUE.len()..];
    let size = rest.iter().position(|&byte| byte == VALUE_END);
    let key = &rest[..size.unwrap_or(rest.len())];
    let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    (is_alone && is_begin && key.iter().all(is_plain)).then_some(key)
}
