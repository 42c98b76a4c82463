package reput.load5;

import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;

/** Durations of one thread's calls, ns. */
final class Times {
    private long[] times = new long[1 << 12];
    private int count;

    void add(long nanoseconds) {
        if (count == times.length) {
            times = Arrays.copyOf(times, 2 * count);
        }
        times[count++] = nanoseconds;
    }

    static long[] together(List<Times> each) {
        return each.stream()
                .flatMapToLong(one -> LongStream.of(one.times).limit(one.count))
                .toArray();
    }
}
