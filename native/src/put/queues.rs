//! Next queue offsets, by topic and queue.

use std::collections::HashMap;

use crate::encode::record::NamedTopic;
use crate::shared::decline::Decline;
use crate::shared::folding::Folding;

const DENSE: usize = 1024; // queue ids below are places in a vector
const UNKNOWN: u64 = u64::MAX;
/// In the place of a next queue offset that is no number below: whoever set it has kept it.
pub const ELSEWHERE: u64 = u64::MAX - 1;

/// Topics, each with its queues, numbered in the order of their appearance.
pub struct Queues {
    number_of: HashMap<Box<[u8]>, usize, Folding>,
    topics: Vec<Topic>,
    /// Queues of topics that `counts` does not name.
    default_count: u32,
    counts: HashMap<Box<[u8]>, u32, Folding>,
}

/// Whose turn it is among the queues of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub queue_id: u32,
    pub count: u32,
}

impl Turn {
    /// The turn after so many messages.
    #[inline]
    pub fn after(self, messages: usize) -> Self {
        let count = u64::from(self.count.max(1));
        let next = (u64::from(self.queue_id) + messages as u64 % count) % count;
        Self {
            queue_id: next as u32,
            ..self
        }
    }
}

struct Topic {
    name: Box<[u8]>,
    /// `None` for a name that messages cannot have, but a queue does.
    named: Option<NamedTopic>,
    dense: Vec<u64>,
    sparse: HashMap<i32, u64>,
    /// `None` before the first message without a queue.
    turn: Option<Turn>,
}

impl Queues {
    pub fn new(default_count: u32) -> Self {
        Self {
            number_of: HashMap::with_hasher(Folding::new()),
            topics: vec![],
            default_count,
            counts: HashMap::with_hasher(Folding::new()),
        }
    }

    /// Forget all queues, and keep how many each topic has.
    pub fn clear(&mut self) {
        self.number_of.clear();
        self.topics.clear();
    }

    /// See `Appender.set_queue_counts`.
    pub fn set_counts(&mut self, counts: impl IntoIterator<Item = (Box<[u8]>, u32)>) {
        self.counts.clear();
        self.counts.extend(counts);
        for topic in &mut self.topics {
            topic.turn = None;
        }
    }

    /// How many queues take turns for a topic.
    pub fn count_of(&self, name: &[u8]) -> u32 {
        self.counts.get(name).copied().unwrap_or(self.default_count)
    }

    /// Whose turn it is; `topic` is what `find` has found.
    #[inline]
    pub fn turn(&self, topic: Option<usize>, name: &[u8]) -> Turn {
        let known = topic.and_then(|topic| self.topics[topic].turn);
        known.unwrap_or_else(|| self.first_turn(topic, name))
    }

    #[cold]
    fn first_turn(&self, topic: Option<usize>, name: &[u8]) -> Turn {
        let count = self.count_of(name).max(1);
        let stored = topic.map_or(0, |topic| {
            let ids = 0..i32::try_from(count).unwrap_or(i32::MAX);
            let numbers = ids
                .map(|id| self.next(topic, id))
                .filter(|&next| next < ELSEWHERE);
            numbers.fold(0, |sum, next| {
                (sum + next % u64::from(count)) % u64::from(count)
            })
        });
        Turn {
            queue_id: stored as u32,
            count,
        }
    }

    /// See `Appender.take_turns`.
    pub fn take_turns(&mut self, name: &[u8], messages: usize) -> Turn {
        let turn = self.turn(self.find(name), name);
        self.set_turn(name, turn.after(messages));
        turn
    }

    /// Set whose turn it is next.
    #[inline]
    pub fn set_turn(&mut self, name: &[u8], turn: Turn) {
        let topic = self.find(name).unwrap_or_else(|| self.add(name));
        self.topics[topic].turn = Some(turn);
    }

    /// The number of a topic that has a queue, or whose queues take turns.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.number_of.get(name).copied()
    }

    /// What records of a topic hold; `None` if no record can. The number is one of `find`.
    #[inline]
    pub fn named(&self, topic: usize) -> Option<&NamedTopic> {
        self.topics[topic].named.as_ref()
    }

    /// The next queue offset of a queue, or `ELSEWHERE`; 0 for an unknown queue.
    #[inline]
    pub fn next(&self, topic: usize, queue_id: i32) -> u64 {
        let topic = &self.topics[topic];
        let found = match usize::try_from(queue_id) {
            Ok(place) if place < DENSE => topic.dense.get(place),
            _ => topic.sparse.get(&queue_id),
        };
        found.copied().filter(|&next| next != UNKNOWN).unwrap_or(0)
    }

    /// Likewise by the topic's name.
    pub fn next_of(&self, name: &[u8], queue_id: i32) -> u64 {
        self.find(name)
            .map_or(0, |topic| self.next(topic, queue_id))
    }

    /// Have memory for a queue, so that `set` needs none afterwards.
    #[inline]
    pub fn reserve(&mut self, topic: Option<usize>, queue_id: i32) -> Result<(), Decline> {
        let Some(topic) = topic.map(|topic| &mut self.topics[topic]) else {
            self.topics.try_reserve(1)?;
            return Ok(self.number_of.try_reserve(1)?);
        };
        match usize::try_from(queue_id) {
            Ok(place) if place < topic.dense.len() => Ok(()),
            Ok(place) if place < DENSE => {
                let more = place + 1 - topic.dense.len();
                Ok(topic.dense.try_reserve(more)?)
            }
            _ => Ok(topic.sparse.try_reserve(1)?),
        }
    }

    /// Set the next queue offset of a queue, or `ELSEWHERE`.
    #[inline]
    pub fn set(&mut self, topic: usize, queue_id: i32, next: u64) {
        let topic = &mut self.topics[topic];
        match usize::try_from(queue_id) {
            Ok(place) if place < DENSE => {
                if place >= topic.dense.len() {
                    topic.dense.resize(place + 1, UNKNOWN);
                }
                topic.dense[place] = next;
            }
            _ => {
                topic.sparse.insert(queue_id, next);
            }
        }
    }

    /// Likewise by name, which may be new.
    pub fn set_of(&mut self, name: &[u8], queue_id: i32, next: u64) {
        let topic = self.find(name).unwrap_or_else(|| self.add(name));
        self.set(topic, queue_id, next);
    }

    /// Every queue that has a number: topic, queue id, next queue offset.
    pub fn all(&self) -> impl Iterator<Item = (&[u8], i32, u64)> {
        self.topics.iter().flat_map(|topic| {
            let dense = (0..).zip(topic.dense.iter().copied());
            let sparse = topic.sparse.iter().map(|(&queue, &next)| (queue, next));
            let known = dense.chain(sparse).filter(|&(_, next)| next < ELSEWHERE);
            known.map(|(queue, next)| (&*topic.name, queue, next))
        })
    }

    #[cold]
    fn add(&mut self, name: &[u8]) -> usize {
        let topic = self.topics.len();
        self.number_of.insert(name.into(), topic);
        self.topics.push(Topic {
            name: name.into(),
            named: NamedTopic::of(name),
            dense: vec![],
            sparse: HashMap::new(),
            turn: None,
        });
        topic
    }
}
