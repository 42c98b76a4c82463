//! The end of the log: where it is, what may still be written there, what comes next in each queue.
//! No Python is in here; `appender` shows it to Python.

use std::sync::Arc;

use crate::encode::message::{NO_QUEUE, Numbers};
use crate::encode::record::{NamedTopic, Place, Record, crc32, takes_queue_offset};
use crate::put::queues::Queues;
use crate::put::refusal::Refusal;
use crate::put::region::{Region, SizeWord};
use crate::shared::decline::{Decline, declined_unless};
use crate::shared::layout::{BLANK_MAGIC, BLANK_MIN_SIZE};

/// The active file; `F` is an object of those who own the log.
pub struct Active<F> {
    pub file: F,
    /// The bytes of its map; `None` where each store is a call, which the owner makes.
    pub region: Option<Arc<Region>>,
}

/// What `reput.log.writer.appender.Appender` keeps.
pub struct LogEnd<F> {
    pub end_offset: i64,
    pub last_record_offset: i64,
    pub base_offset: i64,
    file_size: i64,
    // Of a file that ends after the last offset, the limits are larger than any offset.
    pub file_limit: i128,
    pub record_limit: i128,
    pub is_appending: bool,
    is_refused: bool,
    pub active: Option<Active<F>>,
    /// What the next append calls.
    pub wake: Option<F>,
    pub queues: Queues,
}

/// A message, checked and encoded except for its place.
pub struct Unplaced<'a> {
    pub numbers: Numbers,
    pub topic: &'a [u8],
    pub body: &'a [u8],
    pub properties: &'a [u8],
}

impl<F> LogEnd<F> {
    /// See `Appender.__init__`.
    pub fn new(end_offset: i64, last_record_offset: i64, queue_count: u32) -> Self {
        Self {
            end_offset,
            last_record_offset,
            base_offset: 0,
            file_size: 0,
            file_limit: -1,
            record_limit: -1,
            is_appending: false,
            is_refused: true,
            active: None,
            wake: None,
            queues: Queues::new(queue_count),
        }
    }

    /// The position in the active file of an offset.
    pub fn position_of(&self, offset: i64) -> Result<usize, Refusal> {
        let position = offset.checked_sub(self.base_offset);
        let position = position.and_then(|position| usize::try_from(position).ok());
        position.ok_or(Refusal::NoRoom)
    }

    /// The blank that ends the active file, and its position; for owners that write it by calls.
    pub fn blank(&self) -> Result<(usize, SizeWord, [u8; 4]), Refusal> {
        if self.is_refused {
            return Err(Refusal::Refused);
        }
        let position = self.end_offset.saturating_sub(self.base_offset);
        let left = i32::try_from(self.file_size.saturating_sub(position).max(0));
        let position = self.position_of(self.end_offset).unwrap_or(usize::MAX);
        let left = left.unwrap_or(i32::MAX).to_be_bytes();
        Ok((position, left, BLANK_MAGIC.to_be_bytes()))
    }

    /// Go on in another file, and return the one before it. Its blank is written here if it has a
    /// region.
    pub fn begin_file(
        &mut self,
        active: Active<F>,
        base_offset: i64,
        file_size: i64,
        end_offset: i64,
    ) -> Result<Option<Active<F>>, Refusal> {
        let (position, left, magic) = self.blank()?;
        if let Some(region) = self.active.as_ref().and_then(|old| old.region.as_ref()) {
            // A file that is full to its last bytes has no room for one.
            let _ = region.write_records(position, left, &magic);
        }
        self.base_offset = base_offset;
        self.file_size = file_size;
        self.file_limit = i128::from(base_offset) + i128::from(file_size - BLANK_MIN_SIZE);
        self.record_limit = -1;
        self.end_offset = end_offset;
        Ok(self.active.replace(active))
    }

    pub fn allow(&mut self) {
        self.is_refused = false;
    }

    pub fn refuse(&mut self) {
        self.is_refused = true;
        self.record_limit = -1;
        self.file_limit = -1;
    }

    pub fn move_record_limit(&mut self, limit: i128) {
        if !self.is_refused {
            self.record_limit = limit;
        }
    }

    /// Put a message where nothing has to be done first, in one step; returns also its size and its
    /// queue.
    #[inline(always)] // a second caller made single puts 4 % slower
    pub fn put(
        &mut self,
        message: &Unplaced<'_>,
        store_timestamp: i64,
        store_host: [u8; 8],
    ) -> Result<(Place, usize, i32), Decline> {
        declined_unless(!self.is_appending)?;
        let region = self.active.as_ref().and_then(|file| file.region.as_ref());
        let region = region.ok_or(Decline::ToPython)?;
        let known = self.queues.find(message.topic);
        let is_chosen = message.numbers.queue_id == NO_QUEUE;
        let turn = is_chosen.then(|| self.queues.turn(known, message.topic));
        let queue_id = turn.map_or(message.numbers.queue_id, |turn| turn.queue_id as i32);
        let counts = takes_queue_offset(message.numbers.sys_flag);
        if counts || is_chosen {
            self.queues.reserve(known, queue_id)?;
        }
        let fresh;
        let topic = match known {
            Some(topic) => self.queues.named(topic),
            None => {
                fresh = NamedTopic::of(message.topic);
                fresh.as_ref()
            }
        };
        let record = Record {
            numbers: Numbers {
                queue_id,
                ..message.numbers
            },
            topic: topic.ok_or(Decline::ToPython)?,
            body: message.body,
            body_crc: crc32(message.body),
            properties: message.properties,
        };
        let size = record.size();
        let offset = self.end_offset;
        let end_offset = end_of(offset, size).map_err(|_| Decline::ToPython)?;
        declined_unless(i128::from(end_offset) <= self.record_limit)?;
        let next = match known {
            Some(topic) if counts => self.queues.next(topic, queue_id),
            _ => 0,
        };
        let place = Place {
            physical_offset: offset,
            queue_offset: i64::try_from(next).map_err(|_| Decline::ToPython)?,
            store_timestamp,
            store_host,
        };
        let position = self.position_of(offset).map_err(|_| Decline::ToPython)?;
        declined_unless(region.write_record(position, &record, &place))?;
        // Nothing fails from here on. Only now is a new topic remembered.
        if counts {
            match known {
                Some(topic) => self.queues.set(topic, queue_id, next + 1),
                None => self.queues.set_of(message.topic, queue_id, next + 1),
            }
        }
        if let Some(turn) = turn {
            self.queues.set_turn(message.topic, turn.after(1));
        }
        self.end_offset = end_offset;
        self.last_record_offset = offset;
        Ok((place, size, queue_id))
    }
}

/// Where so many bytes from `offset` on end.
pub fn end_of(offset: i64, size: usize) -> Result<i64, Refusal> {
    let size = i64::try_from(size).ok();
    let end = size.and_then(|size| offset.checked_add(size));
    end.ok_or(Refusal::PastLastOffset)
}
