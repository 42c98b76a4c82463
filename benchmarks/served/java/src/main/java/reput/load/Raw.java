package reput.load;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;

/** Frames made beforehand, with no client: what a server does when nobody is slower than it. */
final class Raw implements Runnable {
    private static final int QUEUES = 4;

    private final String[] address;
    private final byte[][] frames;
    private final long measuredFrom;
    private final long end;
    private final long limit;
    private long all;
    private long count;
    /** How long each answer took, if one request at a time is under way. */
    private long[] times = new long[0];
    private IOException error;

    private Raw(String[] values, int number, long measuredFrom, long end, long limit) {
        this.address = values[0].split(":");
        this.measuredFrom = measuredFrom;
        this.end = end;
        this.limit = limit;
        frames = new byte[Integer.parseInt(values[3])][];
        for (int at = 0; at < frames.length; at++) {
            frames[at] = frame(values[1], at, number, Integer.parseInt(values[4]));
        }
    }

    /**
     * Values: broker, topic, connections, requests that each has under way, size of bodies, ms to
     * warm up, ms to measure, messages after which each connection ends.
     */
    static String send(String[] values) throws Exception {
        long measuredFrom = System.nanoTime() + Long.parseLong(values[5]) * 1_000_000;
        long end = measuredFrom + Long.parseLong(values[6]) * 1_000_000;
        List<Raw> loads = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int at = 0; at < Integer.parseInt(values[2]); at++) {
            Raw each = new Raw(values, at, measuredFrom, end, Long.parseLong(values[7]));
            loads.add(each);
            threads.add(new Thread(each));
        }
        threads.forEach(Thread::start);
        for (Thread each : threads) {
            each.join();
        }
        for (Raw each : loads) {
            if (each.error != null) {
                throw each.error;
            }
        }
        long seconds = Math.min(System.nanoTime(), end) - measuredFrom;
        long all = loads.stream().mapToLong(each -> each.all).sum();
        long count = loads.stream().mapToLong(each -> each.count).sum();
        long[] times = loads.stream()
                .flatMapToLong(each -> LongStream.of(each.times).limit(each.count))
                .toArray();
        return Load.row(all, count, 0, seconds, times);
    }

    @Override
    public void run() {
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            socket.setTcpNoDelay(true);
            exchange(new DataInputStream(new BufferedInputStream(socket.getInputStream(), 1 << 16)),
                    socket.getOutputStream());
        } catch (IOException found) {
            error = found;
        }
    }

    private void exchange(DataInputStream in, OutputStream out) throws IOException {
        int underWay = 0;
        long sent = 0;
        byte[] answer = new byte[1 << 12];
        ByteArrayOutputStream next = new ByteArrayOutputStream();
        while (true) {
            boolean goesOn = sent < limit && System.nanoTime() < end;
            next.reset();
            for (; goesOn && underWay < frames.length && sent < limit; underWay++, sent++) {
                next.write(frames[(int) (sent % frames.length)]);
            }
            long began = System.nanoTime();
            out.write(next.toByteArray());
            if (underWay == 0) {
                return;
            }
            do {
                int size = in.readInt();
                answer = answer.length < size ? new byte[size] : answer;
                in.readFully(answer, 0, size);
                if (all == 0) {
                    check(new String(answer, 4, size - 4, StandardCharsets.UTF_8));
                }
                all++;
                underWay--;
                long now = System.nanoTime();
                if (now >= measuredFrom && now <= end) {
                    note(now - began);
                }
            } while (underWay > 0 && in.available() >= 4);
        }
    }

    private void note(long nanoseconds) {
        if (frames.length == 1) {
            if (count == times.length) {
                times = Arrays.copyOf(times, Math.max(2 * times.length, 1 << 12));
            }
            times[(int) count] = nanoseconds;
        }
        count++;
    }

    private static void check(String answer) throws IOException {
        if (!answer.startsWith("{\"code\":0,")) {
            throw new IOException("not stored: " + answer);
        }
    }

    private static byte[] frame(String topic, int at, int number, int size) {
        String properties = String.format(
                "UNIQ_KEY\\u0001%032X\\u0002WAIT\\u0001true\\u0002TAGS\\u0001tag\\u0002",
                (long) number << 32 | at);
        String header = "{\"code\":310,\"extFields\":{\"a\":\"load\",\"b\":\"" + topic
                + "\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"" + at % QUEUES
                + "\",\"f\":\"0\",\"g\":\"" + System.currentTimeMillis() + "\",\"h\":\"0\",\"i\":\""
                + properties + "\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\"},\"flag\":0,"
                + "\"language\":\"JAVA\",\"opaque\":" + at
                + ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}";
        byte[] head = header.getBytes(StandardCharsets.US_ASCII);
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        return ByteBuffer.allocate(8 + head.length + size)
                .putInt(4 + head.length + size).putInt(head.length).put(head).put(body).array();
    }
}
