//! Items of an index file, entered in its slots; see `reput_index.files.hashchain`.

use numpy::PyReadwriteArray1;
use pyo3::prelude::*;

use crate::shared::arrays::{array, slices};
use crate::shared::border::{guarded, unlocked};
use crate::shared::decline::{Arg, Decline, declined_unless};

const ITEM_SIZE: usize = 20;
const AHEAD: usize = 24; // items; a slot is nearly always in memory and in no cache

/// See `reput_index.files.hashchain.make_items`.
#[pyfunction]
pub fn make_items<'py>(
    py: Python<'py>,
    slots: Arg<PyReadwriteArray1<'py, i32>>,
    hashes: &Bound<'py, PyAny>,
    physical_offsets: &Bound<'py, PyAny>,
    timestamps: &Bound<'py, PyAny>,
    first: Arg<i32>,
    begin_timestamp: Arg<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "make_items", || {
        slices!(hashes, physical_offsets, timestamps);
        let mut slots = slots.get()?;
        let slots = slots.as_slice_mut().map_err(|_| Decline::ToPython)?;
        let (first, begin_timestamp) = (first.get()?, begin_timestamp.get()?);
        let keys = Keys {
            hashes,
            physical_offsets,
            timestamps,
        };
        declined_unless(keys.fit(slots.len(), first))?;
        let size = 256 * hashes.len(); // a slot is a cache miss
        let (items, slot, empty) = unlocked(py, size, || keys.enter(slots, first, begin_timestamp));
        Ok((array(py, items), array(py, slot), empty))
    })
}

struct Keys<'a> {
    hashes: &'a [i32],
    physical_offsets: &'a [i64],
    timestamps: &'a [i64],
}

impl Keys<'_> {
    fn fit(&self, slot_count: usize, first: i32) -> bool {
        let count = self.hashes.len();
        self.physical_offsets.len() == count
            && self.timestamps.len() == count
            && (1..=i32::MAX as usize).contains(&slot_count)
            && i32::try_from(count).is_ok_and(|count| first.checked_add(count).is_some())
            && self.hashes.iter().all(|hash| *hash >= 0)
    }

    /// Bytes of the items, the slot of each, and how many slots were empty before.
    fn enter(&self, slots: &mut [i32], first: i32, begin: i64) -> (Vec<u8>, Vec<isize>, usize) {
        let slot_count = slots.len() as u32;
        let slot_of = |hash: &i32| (*hash as u32 % slot_count) as isize;
        let slot: Vec<isize> = self.hashes.iter().map(slot_of).collect();
        let mut items = Vec::with_capacity(ITEM_SIZE * slot.len());
        let (mut begin, mut empty, mut number) = (begin, 0, first);
        for (row, (&hash, &timestamp)) in self.hashes.iter().zip(self.timestamps).enumerate() {
            if let Some(later) = slot.get(row + AHEAD) {
                fetch(slots, *later as usize);
            }
            let seconds = seconds_since(begin, timestamp);
            if row == 0 && first <= 1 {
                // The first item counts from the end of the file in front; the others from it.
                begin = timestamp;
            }
            let previous = std::mem::replace(&mut slots[slot[row] as usize], number);
            empty += usize::from(previous == 0);
            let mut item = [0; ITEM_SIZE];
            item[..4].copy_from_slice(&hash.to_be_bytes());
            item[4..12].copy_from_slice(&self.physical_offsets[row].to_be_bytes());
            item[12..16].copy_from_slice(&seconds.to_be_bytes());
            item[16..].copy_from_slice(&previous.to_be_bytes());
            items.extend_from_slice(&item);
            number += 1;
        }
        (items, slot, empty)
    }
}

/// Whole seconds between two times in ms, between 0 and the largest number of an item.
#[inline]
fn seconds_since(begin: i64, timestamp: i64) -> i32 {
    if begin <= 0 {
        return 0;
    }
    // Wraps around as Java's difference does.
    (timestamp.wrapping_sub(begin).div_euclid(1000)).clamp(0, i64::from(i32::MAX)) as i32
}

/// Have the processor bring a slot near.
#[inline]
fn fetch(slots: &[i32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(slot) = slots.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing as far as the program can tell.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(slot).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slots, at);
}
