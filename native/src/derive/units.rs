//! Units of consume queues, those of each queue together; see `reput_consumequeue.unitruns`.

use pyo3::prelude::*;

use crate::encode::record::takes_queue_offset;
use crate::shared::arrays::{are_equal, array, slices};
use crate::shared::border::{guarded, unlocked};
use crate::shared::decline::declined_unless;

const UNIT_SIZE: usize = 20;

/// Topic code, queue id, first and last unit, and whether queue offsets go up by one.
type Run = (i32, i32, usize, usize, bool);

/// See `reput_consumequeue.unitruns.units_by_queue`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // they are columns of one batch
pub fn units_by_queue<'py>(
    py: Python<'py>,
    sys_flag: &Bound<'py, PyAny>,
    topic_code: &Bound<'py, PyAny>,
    queue_id: &Bound<'py, PyAny>,
    queue_offset: &Bound<'py, PyAny>,
    physical_offset: &Bound<'py, PyAny>,
    size: &Bound<'py, PyAny>,
    tags_code: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded(py, "units_by_queue", || {
        slices!(sys_flag, topic_code, queue_id);
        slices!(queue_offset, physical_offset, size, tags_code);
        let messages = Messages {
            sys_flag,
            topic_code,
            queue_id,
            queue_offset,
            physical_offset,
            size,
            tags_code,
        };
        declined_unless(messages.are_sound())?;
        let found = unlocked(py, 48 * sys_flag.len(), || messages.by_queue());
        Ok((
            array(py, found.units),
            array(py, found.queue_offsets),
            array(py, found.ends),
            found.runs,
        ))
    })
}

struct Messages<'a> {
    sys_flag: &'a [i32],
    topic_code: &'a [i32],
    queue_id: &'a [i32],
    queue_offset: &'a [i64],
    physical_offset: &'a [i64],
    size: &'a [i64],
    tags_code: &'a [i64],
}

struct ByQueue {
    units: Vec<u8>,
    queue_offsets: Vec<i64>,
    ends: Vec<i64>,
    runs: Vec<Run>,
}

impl Messages<'_> {
    fn are_sound(&self) -> bool {
        let lengths = [
            self.sys_flag.len(),
            self.topic_code.len(),
            self.queue_id.len(),
            self.queue_offset.len(),
            self.physical_offset.len(),
            self.size.len(),
            self.tags_code.len(),
        ];
        are_equal(lengths)
            && u32::try_from(lengths[0]).is_ok()
            && self.topic_code.iter().all(|code| *code >= 0)
    }

    fn by_queue(&self) -> ByQueue {
        let (order, borders) = self.order();
        let mut found = ByQueue {
            units: Vec::with_capacity(UNIT_SIZE * order.len()),
            queue_offsets: Vec::with_capacity(order.len()),
            ends: Vec::with_capacity(order.len()),
            runs: Vec::with_capacity(borders.len()),
        };
        for &row in &order {
            let row = row as usize;
            let (offset, size) = (self.physical_offset[row], self.size[row]);
            let mut unit = [0; UNIT_SIZE];
            unit[..8].copy_from_slice(&offset.to_be_bytes());
            unit[8..12].copy_from_slice(&(size as i32).to_be_bytes());
            unit[12..].copy_from_slice(&self.tags_code[row].to_be_bytes());
            found.units.extend_from_slice(&unit);
            found.queue_offsets.push(self.queue_offset[row]);
            found.ends.push(offset.wrapping_add(size));
        }
        for (number, &start) in borders.iter().enumerate() {
            let stop = borders.get(number + 1).copied().unwrap_or(order.len());
            let first = order[start] as usize;
            let offsets = &found.queue_offsets[start..stop];
            let is_consecutive = offsets
                .windows(2)
                .all(|pair| pair[1] == pair[0].wrapping_add(1));
            let (code, queue) = (self.topic_code[first], self.queue_id[first]);
            found.runs.push((code, queue, start, stop, is_consecutive));
        }
        found
    }

    /// Visible rows by topic, queue and place in the batch, and where each queue begins in there.
    fn order(&self) -> (Vec<u32>, Vec<usize>) {
        let rows =
            || (0..self.sys_flag.len()).filter(|row| takes_queue_offset(self.sys_flag[*row]));
        // As numbers without a sign, what is negative stands above all that is not.
        let end = |numbers: &[i32]| {
            numbers
                .iter()
                .max()
                .map_or(0, |max| *max as u32 as usize + 1)
        };
        let (topics, width) = (end(self.topic_code), end(self.queue_id));
        let is_dense = self.queue_id.iter().all(|id| *id >= 0)
            && topics
                .checked_mul(width)
                .is_some_and(|cells| cells <= (4 * rows().count()).max(256));
        if is_dense {
            return self.counted(rows, topics * width, width);
        }
        let key = |row: &u32| {
            let row = *row as usize;
            (self.topic_code[row], self.queue_id[row] as u32)
        };
        let mut order: Vec<u32> = rows().map(|row| row as u32).collect();
        order.sort_by_key(key); // a stable one
        let borders = (0..order.len())
            .filter(|at| *at == 0 || key(&order[*at]) != key(&order[*at - 1]))
            .collect();
        (order, borders)
    }

    /// The same by counting, where the numbers of topics and queues are small.
    fn counted<Rows: Iterator<Item = usize>>(
        &self,
        rows: impl Fn() -> Rows,
        cells: usize,
        width: usize,
    ) -> (Vec<u32>, Vec<usize>) {
        let cell = |row: usize| self.topic_code[row] as usize * width + self.queue_id[row] as usize;
        let mut places = vec![0usize; cells];
        let mut count = 0;
        for row in rows() {
            places[cell(row)] += 1;
            count += 1;
        }
        let (mut borders, mut total) = (vec![], 0);
        for place in &mut places {
            let size = *place;
            *place = total;
            if size > 0 {
                borders.push(total);
            }
            total += size;
        }
        let mut order = vec![0u32; count];
        for row in rows() {
            let place = &mut places[cell(row)];
            order[*place] = row as u32;
            *place += 1;
        }
        (order, borders)
    }
}
