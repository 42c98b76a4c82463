//! Many messages that passed all checks, and chunks of them that are written at once.
//! No Python is in here; `rows` and `chunk` show it to Python.

use std::collections::HashMap;

use crate::encode::message::Numbers;
use crate::encode::propertytext::PropertyText;
use crate::encode::record::{NamedTopic, Place, Record, crc32, takes_queue_offset};
use crate::put::end::{LogEnd, end_of};
use crate::put::refusal::Refusal;
use crate::shared::decline::{Decline, declined_unless, room};
use crate::shared::folding::Folding;

const CHUNK_SIZE: usize = 1 << 20; // bytes that are written at a time
const TEXT_SIZE: usize = 96; // of most property texts
const TEXTS_MAX: usize = 16 << 20; // bytes for texts that are asked for ahead

/// Messages, encoded except for their places; `B` is what has a body's bytes.
pub struct Table<B> {
    pub rows: Vec<Row<B>>,
    topics: Vec<NamedTopic>,
    texts: Vec<u8>,
    /// Topic and queue id of the queues of all rows.
    queues: Vec<(u32, i32)>,
    pub store_host: [u8; 8],
}

pub struct Row<B> {
    pub numbers: Numbers,
    topic: u32,
    queue: u32,
    text: usize,
    text_size: usize,
    body: B,
}

/// A table that rows are added to.
pub struct TableBuilder<B> {
    table: Table<B>,
    body_max: usize,
    topic_of: HashMap<Box<[u8]>, u32, Folding>,
    queue_of: HashMap<(u32, i32), u32, Folding>,
}

impl<B: AsRef<[u8]>> TableBuilder<B> {
    /// Have memory for so many rows.
    pub fn new(count: usize, body_max: usize, store_host: [u8; 8]) -> Result<Self, Decline> {
        Ok(Self {
            table: Table {
                rows: room(count)?,
                topics: vec![],
                texts: room(count.saturating_mul(TEXT_SIZE).min(TEXTS_MAX))?,
                queues: vec![],
                store_host,
            },
            body_max,
            topic_of: HashMap::with_hasher(Folding::new()),
            queue_of: HashMap::with_hasher(Folding::new()),
        })
    }

    /// The number of a topic among the rows.
    pub fn topic(&mut self, name: &[u8]) -> Result<u32, Decline> {
        if let Some(&number) = self.topic_of.get(name) {
            return Ok(number);
        }
        let topics = &mut self.table.topics;
        let number = u32::try_from(topics.len()).map_err(|_| Decline::ToPython)?;
        let named = NamedTopic::of(name).ok_or(Decline::ToPython)?;
        self.topic_of.try_reserve(1)?;
        topics.try_reserve(1)?;
        topics.push(named);
        self.topic_of.insert(name.into(), number);
        Ok(number)
    }

    /// The name of a topic; its number is what `topic` gave.
    pub fn name(&self, topic: u32) -> &[u8] {
        self.table.topics[topic as usize].name()
    }

    /// Add a row; `topic` is what `topic` gave.
    #[inline]
    pub fn add(
        &mut self,
        topic: u32,
        body: B,
        numbers: Numbers,
        write_text: impl FnOnce(&mut PropertyText<'_>) -> Result<(), Decline>,
    ) -> Result<(), Decline> {
        let table = &mut self.table;
        declined_unless(body.as_ref().len() <= self.body_max)?;
        let begin = table.texts.len();
        let mut text = PropertyText::begin(&mut table.texts);
        write_text(&mut text)?;
        let text_size = text.end()?;
        let queue = (topic, numbers.queue_id);
        let queue = match self.queue_of.get(&queue) {
            Some(&queue) => queue,
            None => {
                self.queue_of.try_reserve(1)?;
                table.queues.try_reserve(1)?;
                let number = table.queues.len() as u32; // fewer than rows, of which each takes more
                self.queue_of.insert(queue, number);
                table.queues.push(queue);
                number
            }
        };
        table.rows.try_reserve(1)?;
        table.rows.push(Row {
            numbers,
            topic,
            queue,
            text: begin,
            text_size,
            body,
        });
        Ok(())
    }

    pub fn end(self) -> Table<B> {
        self.table
    }
}

impl<B: AsRef<[u8]>> Table<B> {
    /// A record, whose body's checksum is still zero.
    #[inline]
    pub fn record<'a>(&'a self, row: &'a Row<B>) -> Record<'a> {
        Record {
            numbers: row.numbers,
            topic: &self.topics[row.topic as usize],
            body: row.body.as_ref(),
            body_crc: 0,
            properties: &self.texts[row.text..row.text + row.text_size],
        }
    }

    /// Queue offsets as they come next; 0 for rows that take none.
    pub fn queue_offsets<F>(&self, end: &LogEnd<F>) -> Result<Vec<i64>, Refusal> {
        let mut next = room(self.queues.len())?;
        next.extend(self.queues.iter().map(|&(topic, queue_id)| {
            let name = self.topics[topic as usize].name();
            end.queues.next_of(name, queue_id)
        }));
        let mut offsets = room(self.rows.len())?;
        for row in &self.rows {
            if !takes_queue_offset(row.numbers.sys_flag) {
                offsets.push(0);
                continue;
            }
            let next = &mut next[row.queue as usize];
            offsets.push(i64::try_from(*next).map_err(|_| Refusal::QueueIsFull)?);
            *next += 1;
        }
        Ok(offsets)
    }
}

/// Some rows of a table, with their places.
pub struct Chunk {
    first: usize,
    /// Physical offsets.
    pub offsets: Vec<i64>,
    pub start: i64,
    end: i64,
    pub size: usize,
}

impl Chunk {
    /// Rows from `first` on: as many as the file has room for, up to about a megabyte.
    pub fn cut<B: AsRef<[u8]>, F>(
        table: &Table<B>,
        end: &LogEnd<F>,
        first: usize,
    ) -> Result<Self, Refusal> {
        let start = end.end_offset;
        let room = usize::try_from(end.file_limit - i128::from(start)).unwrap_or(0);
        let left = table.rows.get(first..).unwrap_or_default();
        let (mut offsets, mut size) = (vec![], 0);
        for row in left {
            let following = size + table.record(row).size();
            if following > room || !offsets.is_empty() && following > CHUNK_SIZE {
                break;
            }
            offsets.try_reserve(1)?;
            offsets.push(end_of(start, size)?);
            size = following;
        }
        if offsets.is_empty() {
            return Err(Refusal::NoRoom);
        }
        Ok(Self {
            first,
            offsets,
            start,
            end: end_of(start, size)?,
            size,
        })
    }

    /// The number of the first row after the chunk.
    pub fn stop(&self) -> usize {
        self.first + self.offsets.len()
    }

    /// The records, one after the other, in the place of what `data` held.
    pub fn encode<B: AsRef<[u8]>>(
        &self,
        table: &Table<B>,
        queue_offsets: &[i64],
        store_timestamp: i64,
        data: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        data.clear();
        data.try_reserve(self.size)?;
        let places = self.offsets.iter().zip(&queue_offsets[self.first..]);
        for (row, (&physical_offset, &queue_offset)) in table.rows[self.first..].iter().zip(places)
        {
            let place = Place {
                physical_offset,
                queue_offset,
                store_timestamp,
                store_host: table.store_host,
            };
            let mut record = table.record(row);
            record.body_crc = crc32(record.body); // here: it comes into the cache once
            record.write(&place, data);
        }
        Ok(())
    }

    /// Count the rows, which were written. Nothing fails in here.
    pub fn count<B, F>(&self, table: &Table<B>, queue_offsets: &[i64], end: &mut LogEnd<F>) {
        let places = self.offsets.iter().zip(&queue_offsets[self.first..]);
        for (row, (_, &queue_offset)) in table.rows[self.first..].iter().zip(places) {
            if takes_queue_offset(row.numbers.sys_flag) {
                let (topic, queue_id) = table.queues[row.queue as usize];
                let name = table.topics[topic as usize].name();
                end.queues.set_of(name, queue_id, queue_offset as u64 + 1);
            }
        }
        end.end_offset = self.end;
        end.last_record_offset = self.offsets.last().copied().unwrap_or(self.start);
    }
}
