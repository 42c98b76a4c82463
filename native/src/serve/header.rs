//! What a header says, with its texts where they stand.

const FIELDS_MAX: usize = 32;

/// A text of a header: a part of the header's bytes, or of what they mean without escapes.
#[derive(Clone, Copy, Default)]
pub struct Text {
    begin: u32,
    size: u32,
    pub has_escapes: bool,
}

impl Text {
    /// `None` for places that no header has.
    #[inline]
    pub fn new(begin: usize, end: usize, has_escapes: bool) -> Option<Self> {
        Some(Self {
            begin: u32::try_from(begin).ok()?,
            size: u32::try_from(end.checked_sub(begin)?).ok()?,
            has_escapes,
        })
    }
}

/// A header that is being read. It is used again for the next one, with its memory.
#[derive(Default)]
pub struct Header {
    pub code: i32,
    pub flag: i32,
    pub opaque: i32,
    /// What texts with escapes mean.
    pub unescaped: Vec<u8>,
    fields: [(Text, Text); FIELDS_MAX],
    count: usize,
}

impl Header {
    /// Forget the header before.
    pub fn clear(&mut self) {
        (self.code, self.flag, self.opaque, self.count) = (0, 0, 0, 0);
        self.unescaped.clear();
    }

    /// The bytes of a text.
    #[inline]
    pub fn bytes<'a>(&'a self, header: &'a [u8], text: Text) -> &'a [u8] {
        let all = if text.has_escapes {
            &self.unescaped
        } else {
            header
        };
        &all[text.begin as usize..][..text.size as usize]
    }

    /// The fields by their names.
    #[inline]
    pub fn fields<'a>(&'a self, header: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let bytes = move |text| self.bytes(header, text);
        let fields = self.fields[..self.count].iter();
        fields.map(move |&(name, value)| (bytes(name), bytes(value)))
    }

    /// Add a field; `None` if there are too many. Of two with one name the last one counts, unless
    /// that is not allowed: then there is no answer, either.
    #[inline]
    pub fn add(&mut self, header: &[u8], name: Text, value: Text, may_replace: bool) -> Option<()> {
        let given = self.bytes(header, name);
        let known = self.fields[..self.count].iter();
        let known = known
            .map(|&(name, _)| self.bytes(header, name))
            .position(|known| known == given);
        let place = match known {
            Some(_) if !may_replace => return None,
            Some(place) => place,
            None => self.count,
        };
        *self.fields.get_mut(place)? = (name, value);
        self.count = self.count.max(place + 1);
        Some(())
    }
}
