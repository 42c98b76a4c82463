//! The bytes of a map, and the file behind it.

use std::any::Any;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::encode::record::{Place, Record};
use crate::put::refusal::Refusal;
use crate::shared::layout::{SIZE_AND_MAGIC_SIZE, SIZE_SIZE};

/// The first bytes of a record: its size. It is written last.
pub type SizeWord = [u8; SIZE_SIZE];

/// Bytes from which on records go through the file.
pub const MANY: usize = 16 << 10;

/// Bytes of this process that one thread at a time writes records to.
pub struct Region {
    begin: NonNull<u8>,
    size: usize,
    /// Of the file that the bytes are a map of; `None` where there is no file.
    descriptor: Option<i32>,
    /// Keeps the bytes where they are, and the descriptor open.
    _keeper: Box<dyn Any + Send + Sync>,
}

// SAFETY: the keeper may be dropped on any thread. The bytes are written to by one thread at a
// time: by the one that holds the lock of the `LogEnd`, or by the one that has set its
// `is_appending`, which all others ask for first.
unsafe impl Send for Region {}
// SAFETY: likewise.
unsafe impl Sync for Region {}

/// Four bytes at any address, which are stored by one instruction.
#[repr(C, packed)]
struct Word(u32);

impl Region {
    /// # Safety
    ///
    /// The `size` bytes from `begin` on can be written to, and the descriptor is that of their
    /// file, as long as `keeper` is not dropped.
    pub unsafe fn new(
        begin: NonNull<u8>,
        size: usize,
        descriptor: Option<i32>,
        keeper: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            begin,
            size,
            descriptor,
            _keeper: keeper,
        }
    }

    /// Whether `size` bytes from `position` on are in the map.
    #[inline]
    fn has(&self, position: usize, size: usize) -> bool {
        size <= self.size && position <= self.size - size
    }

    /// Copy `bytes` to `position`. The caller has asked whether there is room for them.
    #[inline]
    fn copy(&self, position: usize, bytes: &[u8]) {
        debug_assert!(self.has(position, bytes.len()));
        // SAFETY: the place is among the bytes, and nobody else in this process writes to them.
        unsafe {
            let to = self.begin.as_ptr().add(position);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Write a size after everything that was written before.
    ///
    /// Readers of this process learn of a record by the end of the log, under a lock. Only those of
    /// other processes go by this word. The fence keeps processors and compilers from storing it
    /// earlier (`dmb` on aarch64, nothing on x86-64, whose stores keep their order). The store is
    /// one instruction: an atomic one where the word is aligned, which Miri follows, and a volatile
    /// one elsewhere. Other processes see all four bytes at once where these do not cross a cache
    /// line (aarch64 before LSE2: where they are aligned). Elsewhere they may see a part of the
    /// size for a moment, as with Python's engine: so a reader compares it with the sizes of a
    /// record's parts.
    #[inline]
    fn copy_last(&self, position: usize, word: SizeWord) {
        debug_assert!(self.has(position, word.len()));
        fence(Ordering::Release);
        let word = u32::from_ne_bytes(word);
        // SAFETY: as in `copy`; a packed word may stand at any address.
        unsafe {
            let to = self.begin.as_ptr().add(position).cast::<u32>();
            if to.is_aligned() {
                AtomicU32::from_ptr(to).store(word, Ordering::Relaxed);
            } else {
                to.cast::<Word>().write_volatile(Word(word));
            }
        }
    }

    /// Write one record, its size last. False if it does not fit, which the log's limits rule out.
    #[inline]
    pub fn write_record(&self, position: usize, record: &Record<'_>, place: &Place) -> bool {
        if !self.has(position, record.size()) {
            return false;
        }
        let (header, size) = (record.header(place), record.properties_size());
        let mut at = position + SIZE_SIZE;
        for part in [
            &header[SIZE_SIZE..],
            record.body,
            &record.topic.part,
            &size,
            record.properties,
        ] {
            self.copy(at, part);
            at += part.len();
        }
        let [first, second, third, fourth, ..] = header;
        self.copy_last(position, [first, second, third, fourth]);
        true
    }

    /// Write records, or the blank that ends a file, the first size last.
    ///
    /// The first magic is written first, see `Appender.publish`. Many bytes go through the file, as
    /// that takes half the time of touching pages for the first time.
    pub fn write_records(
        &self,
        position: usize,
        word: SizeWord,
        rest: &[u8],
    ) -> Result<(), Refusal> {
        const MAGIC_SIZE: usize = SIZE_AND_MAGIC_SIZE - SIZE_SIZE;
        let whole_size = SIZE_SIZE.saturating_add(rest.len());
        if !self.has(position, whole_size) || rest.len() < MAGIC_SIZE {
            return Err(Refusal::NoRoom);
        }
        let (magic, rest) = rest.split_at(MAGIC_SIZE);
        self.copy(position + SIZE_SIZE, magic);
        let at = position + SIZE_AND_MAGIC_SIZE;
        match self.descriptor {
            Some(descriptor) if rest.len() >= MANY => {
                write_through(descriptor, at, rest).map_err(Refusal::Disk)?;
            }
            _ => self.copy(at, rest),
        }
        self.copy_last(position, word);
        Ok(())
    }

    /// The size that another process sees at an aligned position.
    #[cfg(test)]
    pub fn size_at(&self, position: usize) -> u32 {
        assert!(self.has(position, SIZE_SIZE));
        // SAFETY: the place is among the bytes, and a test's are aligned as such words.
        let word = unsafe { AtomicU32::from_ptr(self.begin.as_ptr().add(position).cast()) };
        u32::from_be(word.load(Ordering::Acquire))
    }

    /// What stands there; the bytes have to be there.
    #[cfg(test)]
    pub fn read(&self, position: usize, size: usize) -> Vec<u8> {
        assert!(self.has(position, size));
        // SAFETY: the place is among the bytes, and tests read what no thread writes any more.
        unsafe {
            let from = self.begin.as_ptr().add(position);
            std::slice::from_raw_parts(from, size).to_vec()
        }
    }
}

/// Write to a file, whose cache its maps show.
pub fn write_through(descriptor: i32, position: usize, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the caller, or the region's keeper, keeps it open; it is not closed here.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    file.write_all_at(bytes, position as u64)
}
