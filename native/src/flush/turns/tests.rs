//! Without Python, so that Miri can run them.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;

use super::*;

const LONG: Duration = Duration::from_secs(3_600);

thread_local! {
    /// How often this thread woke where it slept.
    pub static WOKEN: Cell<usize> = const { Cell::new(0) };
}

/// A log that grows, and is flushed in turn.
#[derive(Default)]
struct Log {
    end: AtomicI64,
    flushing: AtomicUsize,
    flushes: AtomicUsize,
}

impl Log {
    fn flush(&self, turns: &FlushLeader) {
        assert_eq!(self.flushing.fetch_add(1, Ordering::SeqCst), 0);
        let end = self.end.load(Ordering::SeqCst);
        self.flushes.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        self.flushing.fetch_sub(1, Ordering::SeqCst);
        turns.reached(end);
    }

    /// What `FlushLeader.wait` does, without an interpreter and its signals.
    fn wait(&self, turns: &FlushLeader, physical_offset: i64, longest: Duration) -> bool {
        let began = Instant::now();
        loop {
            let awake = turns.sleep(physical_offset, None, longest);
            assert!(began.elapsed() < LONG, "nobody has woken this thread");
            match awake {
                Awake::OnDisk => return true,
                Awake::Failed => return false,
                Awake::ItsTurn(turn, _) => {
                    self.flush(turns);
                    drop(turn);
                }
                Awake::Slept => {}
            }
        }
    }
}

fn poll(turns: &FlushLeader, physical_offset: i64) -> Option<Awake<'_>> {
    let mut waiting = turns.lock();
    turns.poll(&mut waiting, physical_offset)
}

fn turn_at(turns: &FlushLeader, physical_offset: i64) -> Turn<'_> {
    match poll(turns, physical_offset) {
        Some(Awake::ItsTurn(turn, _)) => turn,
        _ => panic!("it is not this thread's turn"),
    }
}

/// Four threads, of which some wake by themselves all the time, wait for a hundred flushes.
fn wait_by_turns(longest_of: impl Fn(usize) -> Duration) -> (FlushLeader, Log) {
    let (turns, log) = (FlushLeader::new(0), Log::default());
    thread::scope(|scope| {
        for longest in (0..4).map(longest_of) {
            let (turns, log) = (&turns, &log);
            scope.spawn(move || {
                for _ in 0..25 {
                    let offset = log.end.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(log.wait(turns, offset, longest));
                    assert!(turns.flushed_offset() >= offset);
                }
            });
        }
    });
    assert_eq!(turns.flushed_offset(), 100);
    (turns, log)
}

#[test]
fn everybody_is_woken_and_nobody_flushes_beside_another() {
    let (turns, log) = wait_by_turns(|_| LONG);

    assert!(log.flushes.load(Ordering::SeqCst) <= 100);
    let waiting = turns.lock();
    assert!(waiting.turn.is_none() && waiting.asleep.is_empty() && waiting.covered.is_empty());
}

#[test]
fn who_wakes_by_itself_goes_on_and_forgets_nobody() {
    wait_by_turns(|number| [Duration::ZERO, LONG][number % 2]);
}

#[test]
fn the_end_of_a_turn_wakes_the_next_and_all_whose_bytes_are_on_disk_each_once() {
    const COUNT: i64 = if cfg!(miri) { 24 } else { 1_600 };
    let (turns, woken) = (FlushLeader::new(0), AtomicUsize::new(0));
    let turn = turn_at(&turns, COUNT);

    thread::scope(|scope| {
        // Each offset once, in another order.
        for offset in (0..COUNT).map(|number| 1 + number * 7 % COUNT) {
            let (turns, woken) = (&turns, &woken);
            let wait = move || {
                // Each flush is enough for one thread only, the worst there is.
                match turns.sleep(offset, None, LONG) {
                    Awake::ItsTurn(_turn, _) if offset > COUNT / 2 => turns.reached(offset),
                    awake => assert!(matches!(awake, Awake::OnDisk) && offset <= COUNT / 2),
                }
                woken.fetch_add(WOKEN.get(), Ordering::SeqCst);
            };
            let small = thread::Builder::new().stack_size(128 << 10);
            small.spawn_scoped(scope, wait).unwrap();
        }
        while turns.lock().asleep.len() < COUNT as usize {
            thread::yield_now();
        }
        turns.reached(COUNT / 2);
        drop(turn);
    });

    // The system may wake a thread by itself; nobody here wakes one a second time.
    let woken = woken.into_inner() as i64;
    assert!((COUNT..COUNT + COUNT / 8).contains(&woken), "{woken}");
    assert_eq!(turns.flushed_offset(), COUNT);
}

#[test]
fn a_failure_wakes_everybody_and_gives_no_turn() {
    let (turns, log) = (FlushLeader::new(5), Log::default());
    let turn = turn_at(&turns, 6);

    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!(!log.wait(&turns, 9, LONG)));
        }
        scope.spawn(|| assert!(log.wait(&turns, 5, LONG)));
        thread::yield_now();
        turns.fail();
        drop(turn);
    });

    assert!(!log.wait(&turns, 6, LONG));
    assert_eq!(log.flushes.load(Ordering::SeqCst), 0);
}

#[test]
fn a_turn_in_a_turn_of_its_thread_ends_alone() {
    let turns = FlushLeader::new(0);
    let outer = turn_at(&turns, 1);
    drop(turn_at(&turns, 1));

    let other = thread::scope(|scope| scope.spawn(|| poll(&turns, 1).is_none()).join());
    assert!(other.is_ok_and(|sleeps| sleeps));
    drop(outer);

    assert!(turns.lock().turn.is_none());
}

#[test]
fn a_turn_ends_where_a_panic_leaves_it() {
    let turns = FlushLeader::new(0);

    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let awake = poll(&turns, 1);
        assert!(
            awake.is_none(),
            "before anybody has done anything with the turn"
        );
    }));

    assert!(panic.is_err());
    assert!(turns.lock().turn.is_none());
}

#[test]
fn a_flush_waits_for_those_whose_bytes_the_flush_before_has_covered() {
    let turns = FlushLeader::new(0);
    let turn = turn_at(&turns, 1);
    {
        let mut waiting = turns.lock();
        (waiting.away, waiting.took, waiting.ended) = (3, 2 * LONG, Some(Instant::now()));
    }

    thread::scope(|scope| {
        for offset in 2..5 {
            let turns = &turns;
            scope.spawn(move || {
                assert!(matches!(turns.sleep(offset, None, LONG), Awake::OnDisk));
            });
        }
        turns.gather();
        assert_eq!(turns.lock().asleep.len(), 3);
        turns.reached(4);
        drop(turn);
    });

    let waiting = turns.lock();
    assert_eq!((waiting.away, waiting.rest), (0, 0));
}

#[test]
fn flushes_to_which_nobody_comes_wait_less_and_less_often() {
    let turns = FlushLeader::new(0);
    let turn = turn_at(&turns, 1);
    let mut waits = Vec::new();

    for number in 0..40 {
        let mut waiting = turns.lock();
        // In the future, as the clock goes on while this thread waits for the processor.
        let ended = Some(Instant::now() + LONG);
        (waiting.away, waiting.took, waiting.ended) = (2, 2 * GATHER_EACH, ended);
        let is_resting = waiting.rest > 0;
        drop(waiting);
        turns.gather();
        if !is_resting {
            waits.push(number);
        }
    }

    assert_eq!(waits, [0, 2, 6, 14, 30]);
    drop(turn);
}

#[test]
fn a_flush_waits_neither_for_too_many_nor_for_those_who_went_long_ago() {
    let turns = FlushLeader::new(0);
    let turn = turn_at(&turns, 1);
    let (many, few) = (3 * GATHER_EACH, 4 * GATHER_EACH);

    for (took, ended) in [(many, Instant::now() + LONG), (few, Instant::now())] {
        while took == few && ended.elapsed() < took {
            thread::yield_now();
        }
        {
            let mut waiting = turns.lock();
            (waiting.away, waiting.took, waiting.ended) = (4, took, Some(ended));
        }
        turns.gather();
        let waiting = turns.lock();
        assert_eq!((waiting.away, waiting.rest, waiting.next_rest), (4, 0, 0));
    }
    drop(turn);
}

#[test]
fn who_finds_its_bytes_on_disk_has_not_come_back() {
    let turns = FlushLeader::new(5);
    turns.lock().away = 1;

    assert!(matches!(turns.sleep(5, None, LONG), Awake::OnDisk));

    assert_eq!(turns.lock().away, 1);
}

/// Turns that flush a file of 100 bytes, and the file, which the test removes.
fn turns_with_file(name: &str) -> (FlushLeader, std::path::PathBuf) {
    use std::os::fd::AsRawFd;

    let path = std::env::temp_dir().join(format!("reput-{name}-{}", std::process::id()));
    let file = File::create(&path).unwrap();
    file.set_len(100).unwrap();
    let turns = FlushLeader::new(0);
    turns.use_file(file.as_raw_fd(), 0, 100); // which duplicates it
    (turns, path)
}

#[test]
#[cfg_attr(miri, ignore = "flushes a file")]
fn a_flush_notes_whom_it_has_covered_until_another_file_is_used() {
    let (turns, path) = turns_with_file("turns");
    let turn = turn_at(&turns, 1);

    thread::scope(|scope| {
        for offset in 2..4 {
            let turns = &turns;
            scope.spawn(move || assert!(matches!(turns.sleep(offset, None, LONG), Awake::OnDisk)));
        }
        while turns.lock().asleep.len() < 2 {
            thread::yield_now();
        }
        assert!(turns.flush_here(1).unwrap());
        assert_eq!(turns.flushed_offset(), 3);
        assert_eq!(turns.lock().away, 3);
        assert!(turns.lock().took > Duration::ZERO);
        drop(turn);
    });

    turns.use_calls();
    assert_eq!(turns.lock().away, 0);
    std::fs::remove_file(path).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "flushes a file")]
fn a_thread_flushes_when_the_others_have_come_back() {
    let (turns, path) = turns_with_file("gathers");
    {
        let mut waiting = turns.lock();
        (waiting.away, waiting.took, waiting.ended) = (3, 2 * LONG, Some(Instant::now()));
    }

    // Each would flush by itself, if it did not wait for the two others.
    thread::scope(|scope| {
        for offset in 1..4 {
            let turns = &turns;
            scope.spawn(move || {
                let awake = turns.flush_or_sleep(offset, None, LONG);
                assert!(matches!(awake, Awake::OnDisk));
                assert_eq!(turns.flushed_offset(), 3);
            });
        }
    });
    std::fs::remove_file(path).unwrap();
}
