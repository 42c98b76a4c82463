package reput.load5;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.client.apis.ClientConfiguration;

/** Makes load by the client for release 5, line by line: a word and its values, parted by tabs. */
public final class Load {
    private Load() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            String[] values = Arrays.copyOfRange(words, 1, words.length);
            try {
                answer(run(words[0], values));
            } catch (Exception | AssertionError error) {
                answer("{\"error\":\"" + String.valueOf(error).replaceAll("[^ -~]|[\"\\\\]", "?")
                        + "\"}");
            }
        }
        System.exit(0); // clients leave threads behind
    }

    private static String run(String word, String[] values) throws Exception {
        switch (word) {
            case "send":
                return Senders.send(values);
            case "take":
                return Takers.take(values);
            case "first":
                return First.message(values);
            default:
                throw new IllegalArgumentException("unknown work: " + word);
        }
    }

    private static void answer(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static ClientConfiguration configuration(String endpoints) {
        return ClientConfiguration.newBuilder()
                .setEndpoints(endpoints).enableSsl(false).build();
    }

    /** What was measured, as JSON. Times in ns are sorted here. */
    static String row(
            String call, long all, long count, long failed, long nanoseconds, long[] times) {
        Arrays.sort(times);
        return String.format(
                java.util.Locale.ROOT,
                "{\"call\":\"%s\",\"all\":%d,\"count\":%d,\"failed\":%d,\"seconds\":%.6f,"
                        + "\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}",
                call, all, count, failed, nanoseconds / 1e9,
                part(times, 0.5), part(times, 0.99), part(times, 0.999), part(times, 1));
    }

    private static double part(long[] sorted, double part) {
        int last = sorted.length - 1;
        return last < 0 ? 0 : sorted[(int) Math.round(last * part)] / 1e3;
    }
}
