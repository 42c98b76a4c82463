//! Parts of property texts that somebody acts on.

const COUNT_MAX: usize = 64;

/// A set of byte strings that are looked for at once.
pub struct Unusual {
    parts: Vec<Box<[u8]>>,
    /// By first byte: which parts begin with it, a bit each.
    by_first: Box<[u64; 256]>,
}

impl Unusual {
    /// `None` for more than 64 parts, or an empty one.
    pub fn of(parts: Vec<Box<[u8]>>) -> Option<Self> {
        if parts.len() > COUNT_MAX {
            return None;
        }
        let mut by_first = Box::new([0; 256]);
        for (number, part) in parts.iter().enumerate() {
            by_first[usize::from(*part.first()?)] |= 1 << number;
        }
        Some(Self { parts, by_first })
    }

    /// Whether a text holds any of them.
    #[inline]
    pub fn is_in(&self, text: &[u8]) -> bool {
        text.iter().enumerate().any(|(at, &byte)| {
            let mut left = self.by_first[usize::from(byte)];
            while left != 0 {
                let part = &self.parts[left.trailing_zeros() as usize];
                if text[at..].starts_with(part) {
                    return true;
                }
                left &= left - 1;
            }
            false
        })
    }
}
