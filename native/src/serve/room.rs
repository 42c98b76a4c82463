//! The sends at the beginning of a connection's bytes are stored, and their answers written.

use std::collections::HashMap;

use crate::encode::propertytext::PropertyText;
use crate::put::end::{LogEnd, Unplaced};
use crate::serve::answer::Answers;
use crate::serve::binary::read_binary;
use crate::serve::frame::{Frame, first_frame};
use crate::serve::header::Header;
use crate::serve::json::read_json;
use crate::serve::send::Send;
use crate::serve::unusual::Unusual;
use crate::shared::decline::{Decline, declined_unless};
use crate::shared::folding::Folding;
use crate::shared::layout::{HOST_SIZE, VALUE_END};

/// How large what is taken may be, bytes.
pub struct Sizes {
    pub frame_max: usize,
    pub header_max: usize,
    pub body_max: usize,
}

/// When and where messages are stored, and where they come from.
#[derive(Clone, Copy)]
pub struct Origin {
    pub store_timestamp: i64,
    pub store_host: [u8; HOST_SIZE],
    pub born_host: [u8; HOST_SIZE],
}

/// What all sends of one broker have in common.
pub struct Room {
    pub sizes: Sizes,
    /// What is added to each message's properties.
    pub added: Box<[u8]>,
    pub unusual: Unusual,
    pub answers: Answers,
    /// How many queues a topic has to which everybody may send.
    queue_counts: HashMap<Box<[u8]>, i32, Folding>,
    header: Header,
    properties: Vec<u8>,
}

/// What was taken.
#[derive(Default)]
pub struct Taken {
    pub answers: Vec<u8>,
    /// Where what was not taken begins.
    pub end: usize,
    pub count: usize,
    /// The topic for which the next send is, if nothing else is the matter with it.
    pub unknown: Option<Box<[u8]>>,
}

impl Taken {
    pub fn nothing(end: usize) -> Self {
        Self {
            end,
            ..Self::default()
        }
    }
}

impl Room {
    pub fn new(sizes: Sizes, added: Box<[u8]>, unusual: Unusual, answers: Answers) -> Self {
        Self {
            sizes,
            added,
            unusual,
            answers,
            queue_counts: HashMap::with_hasher(Folding::new()),
            header: Header::default(),
            properties: vec![],
        }
    }

    /// Take sends to a topic from now on.
    pub fn allow(&mut self, topic: &[u8], queue_count: i32) -> Result<(), Decline> {
        self.queue_counts.try_reserve(1)?;
        self.queue_counts.insert(topic.into(), queue_count);
        Ok(())
    }

    /// Take ordinary sends from `begin` on, up to whatever is none.
    pub fn take<F>(
        &mut self,
        end: &mut LogEnd<F>,
        data: &[u8],
        begin: usize,
        origin: Origin,
    ) -> Taken {
        let mut taken = Taken::nothing(begin.min(data.len()));
        let Sizes {
            frame_max,
            header_max,
            ..
        } = self.sizes;
        while let Some(frame) = first_frame(&data[taken.end..], frame_max, header_max) {
            if self.take_one(end, &frame, origin, &mut taken).is_err() {
                break;
            }
            taken.end += frame.size;
            taken.count += 1;
        }
        taken
    }

    /// Store one send, and write its answer; nothing is done where it is declined.
    fn take_one<F>(
        &mut self,
        end: &mut LogEnd<F>,
        frame: &Frame<'_>,
        origin: Origin,
        taken: &mut Taken,
    ) -> Result<(), Decline> {
        declined_unless(frame.body.len() <= self.sizes.body_max)?;
        self.header.clear();
        let read = if frame.is_binary {
            read_binary
        } else {
            read_json
        };
        read(frame.header, &mut self.header).ok_or(Decline::ToPython)?;
        let send = Send::of(&self.header, frame.header, origin.born_host);
        let send = send.ok_or(Decline::ToPython)?;
        let text = &mut self.properties;
        write_text(send.properties, &self.added, &self.unusual, text)?;
        let Some(&queue_count) = self.queue_counts.get(send.topic) else {
            taken.unknown = Some(send.topic.into());
            return Err(Decline::ToPython);
        };
        let queue_id = send.numbers.queue_id;
        declined_unless(queue_id < queue_count)?;
        self.answers.reserve(&mut taken.answers, send.key)?;
        let message = Unplaced {
            numbers: send.numbers,
            topic: send.topic,
            body: frame.body,
            properties: text,
        };
        let (place, ..) = end.put(&message, origin.store_timestamp, origin.store_host)?;
        if !send.is_one_way {
            let out = &mut taken.answers;
            self.answers
                .write(out, self.header.opaque, queue_id, &place, send.key);
        }
        Ok(())
    }
}

/// Write properties as they are stored, if nobody acts on any of them.
#[inline]
fn write_text(
    sent: &[u8],
    added: &[u8],
    unusual: &Unusual,
    out: &mut Vec<u8>,
) -> Result<(), Decline> {
    out.clear();
    let mut text = PropertyText::begin(out);
    text.whole(sent)?;
    if sent.last() != Some(&VALUE_END) {
        text.whole(&[VALUE_END])?;
    }
    declined_unless(!unusual.is_in(text.so_far()))?;
    text.whole(added)?;
    text.end()?;
    Ok(())
}
