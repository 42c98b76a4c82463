//! Next queue offsets, by topic and queue. A damaged record may state any, so that the next one
//! after it may be one that no record can state.

use std::collections::HashMap;

use crate::encode::record::NamedTopic;
use crate::shared::folding::Folding;

const DENSE: usize = 1024; // queue ids below are places in a vector
const UNKNOWN: u64 = u64::MAX;

/// Topics, each with its queues, numbered in the order of their appearance.
pub struct Queues {
    number_of: HashMap<Box<[u8]>, usize, Folding>,
    topics: Vec<Topic>,
}

struct Topic {
    name: Box<[u8]>,
    /// `None` for a name that messages cannot have, but a queue does.
    named: Option<NamedTopic>,
    dense: Vec<u64>,
    sparse: HashMap<i64, u64>,
}

impl Queues {
    pub fn new() -> Self {
        Self {
            number_of: HashMap::with_hasher(Folding::new()),
            topics: vec![],
        }
    }

    /// The number of a topic; a new one where it is not known yet.
    #[inline]
    pub fn number(&mut self, name: &[u8]) -> usize {
        match self.number_of.get(name) {
            Some(&number) => number,
            None => self.add(name),
        }
    }

    #[cold]
    fn add(&mut self, name: &[u8]) -> usize {
        let number = self.topics.len();
        self.number_of.insert(name.into(), number);
        self.topics.push(Topic {
            name: name.into(),
            named: NamedTopic::of(name),
            dense: vec![],
            sparse: HashMap::new(),
        });
        number
    }

    /// What records of a topic hold; `None` where there can be none. The number is one of `number`.
    #[inline]
    pub fn named(&self, number: usize) -> Option<&NamedTopic> {
        self.topics[number].named.as_ref()
    }

    /// The next queue offset of a queue; 0 for an unknown one.
    #[inline]
    pub fn next(&self, number: usize, queue_id: i64) -> u64 {
        let topic = &self.topics[number];
        let found = match usize::try_from(queue_id) {
            Ok(place) if place < DENSE => topic.dense.get(place),
            _ => topic.sparse.get(&queue_id),
        };
        found.copied().filter(|&next| next != UNKNOWN).unwrap_or(0)
    }

    /// Likewise by name.
    pub fn next_of(&self, name: &[u8], queue_id: i64) -> u64 {
        self.number_of
            .get(name)
            .map_or(0, |&number| self.next(number, queue_id))
    }

    /// Set the next queue offset of a queue.
    #[inline]
    pub fn set(&mut self, number: usize, queue_id: i64, next: u64) {
        let topic = &mut self.topics[number];
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

    /// Every queue that was set: topic, queue id, next queue offset.
    pub fn all(&self) -> impl Iterator<Item = (&[u8], i64, u64)> {
        self.topics.iter().flat_map(|topic| {
            let dense = (0..).zip(topic.dense.iter().copied());
            let sparse = topic.sparse.iter().map(|(&queue, &next)| (queue, next));
            let known = dense.chain(sparse).filter(|&(_, next)| next != UNKNOWN);
            known.map(|(queue, next)| (&*topic.name, queue, next))
        })
    }
}
