//! Next queue offsets, by topic and queue. A plugin, a property or a damaged record may state any
//! number, also one that no record can hold.

use std::collections::HashMap;

use crate::encode::decline::Decline;
use crate::encode::record::NamedTopic;
use crate::shared::folding::Folding;

const DENSE: usize = 1024; // queue ids below are places in a vector
const UNKNOWN: u64 = u64::MAX;
const ELSEWHERE: u64 = u64::MAX - 1; // the next queue offset is among `Queues::large`

/// A whole number of any size, as `int.to_bytes(…, "little", signed=True)` has it.
pub type Large = Box<[u8]>;

/// A number of a queue, which mostly is small.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Whole<T> {
    Small(T),
    Large(Large),
}

/// Topics, each with its queues, numbered in the order of their appearance.
pub struct Queues {
    number_of: HashMap<Box<[u8]>, usize, Folding>,
    topics: Vec<Topic>,
    /// Queues of which the id or the next queue offset is no small number.
    large: HashMap<(usize, Whole<i64>), Whole<u64>>,
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
            large: HashMap::new(),
        }
    }

    /// The number of a topic that has a queue.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.number_of.get(name).copied()
    }

    /// What records of a topic hold; `None` if no record can. The number is one of `find`.
    #[inline]
    pub fn named(&self, topic: usize) -> Option<&NamedTopic> {
        self.topics[topic].named.as_ref()
    }

    /// The next queue offset of a queue: 0 for an unknown one, `None` for a large number.
    #[inline]
    pub fn next(&self, topic: usize, queue_id: i64) -> Option<u64> {
        let topic = &self.topics[topic];
        let found = match usize::try_from(queue_id) {
            Ok(place) if place < DENSE => topic.dense.get(place),
            _ => topic.sparse.get(&queue_id),
        };
        match found.copied().unwrap_or(UNKNOWN) {
            UNKNOWN => Some(0),
            ELSEWHERE => None,
            next => Some(next),
        }
    }

    /// Likewise for a queue id of any size, and by the topic's name.
    pub fn next_of(&self, name: &[u8], queue_id: &Whole<i64>) -> Whole<u64> {
        let Some(topic) = self.find(name) else {
            return Whole::Small(0);
        };
        if let &Whole::Small(queue_id) = queue_id
            && let Some(next) = self.next(topic, queue_id)
        {
            return Whole::Small(next);
        }
        let found = self.large.get(&(topic, queue_id.clone()));
        found.cloned().unwrap_or(Whole::Small(0))
    }

    /// Have memory for a queue, so that `set` needs none afterwards.
    #[inline]
    pub fn reserve(&mut self, topic: Option<usize>, queue_id: i64) -> Result<(), Decline> {
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

    /// Set the next queue offset of a queue.
    #[inline]
    pub fn set(&mut self, topic: usize, queue_id: i64, next: u64) {
        if next >= ELSEWHERE {
            let next = Whole::Large(i128::from(next).to_le_bytes().into());
            return self.set_large(topic, Whole::Small(queue_id), next);
        }
        let before = self.replace(topic, queue_id, next);
        if before == ELSEWHERE {
            self.large.remove(&(topic, Whole::Small(queue_id)));
        }
    }

    /// Likewise for a topic that `find` does not know.
    pub fn set_new(&mut self, name: &[u8], queue_id: i64, next: u64) {
        let topic = self.add(name);
        self.set(topic, queue_id, next);
    }

    /// Likewise by name, which may be new, and with numbers of any size.
    pub fn set_of(&mut self, name: &[u8], queue_id: Whole<i64>, next: Whole<u64>) {
        let topic = match self.find(name) {
            Some(topic) => topic,
            None => self.add(name),
        };
        match (queue_id, next) {
            (Whole::Small(queue_id), Whole::Small(next)) => self.set(topic, queue_id, next),
            (queue_id, next) => self.set_large(topic, queue_id, next),
        }
    }

    /// Every queue that was set: topic, queue id, next queue offset.
    pub fn all(&self) -> impl Iterator<Item = (&[u8], Whole<i64>, Whole<u64>)> {
        let small = self.topics.iter().flat_map(|topic| {
            let dense = (0..).zip(topic.dense.iter().copied());
            let sparse = topic.sparse.iter().map(|(&queue, &next)| (queue, next));
            let known = dense.chain(sparse).filter(|&(_, next)| next < ELSEWHERE);
            known.map(|(queue, next)| (&*topic.name, Whole::Small(queue), Whole::Small(next)))
        });
        let large = self.large.iter().map(|((topic, queue), next)| {
            (&*self.topics[*topic].name, queue.clone(), next.clone())
        });
        small.chain(large)
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
        });
        topic
    }

    #[cold]
    fn set_large(&mut self, topic: usize, queue_id: Whole<i64>, next: Whole<u64>) {
        if let Whole::Small(queue_id) = queue_id {
            self.replace(topic, queue_id, ELSEWHERE);
        }
        self.large.insert((topic, queue_id), next);
    }

    #[inline]
    fn replace(&mut self, topic: usize, queue_id: i64, next: u64) -> u64 {
        let topic = &mut self.topics[topic];
        match usize::try_from(queue_id) {
            Ok(place) if place < DENSE => {
                if place >= topic.dense.len() {
                    topic.dense.resize(place + 1, UNKNOWN);
                }
                std::mem::replace(&mut topic.dense[place], next)
            }
            _ => topic.sparse.insert(queue_id, next).unwrap_or(UNKNOWN),
        }
    }
}
