package reput.clients;

import static reput.clients.Words.number;
import static reput.clients.Words.text;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * RocketMQ's own client and admin tool, for tests of the server. A line of stdin is a JSON object
 * whose {@code do} names the work; the answer is a line of JSON, with {@code error} where the work
 * failed. Ends with stdin. The programs in the other languages take the same lines.
 */
public final class Program {
    private final Map<String, Producing> producers = new LinkedHashMap<>();
    private final Map<String, Taking> consumers = new LinkedHashMap<>();
    private String nameServer = "";

    public static void main(String[] arguments) throws Exception {
        // What the tools print must not get between the answers.
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        Program program = new Program();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer;
            try {
                answer = program.work(RemotingSerializable.fromJson(line, HashMap.class));
            } catch (Throwable error) {
                error.printStackTrace();
                answer = Map.of("error", error.toString());
            }
            answers.println(RemotingSerializable.toJson(answer, false));
        }
        program.end();
        System.exit(0);
    }

    private Map<String, Object> work(Map<String, Object> asked) throws Exception {
        String name = text(asked, "name", "");
        switch (text(asked, "do", "")) {
            case "begin":
                nameServer = text(asked, "name_server", "");
                return Map.of();
            case "admin":
                return Map.of("text", Admin.said(nameServer, (List<String>) asked.get("arguments")));
            case "producer":
                producers.put(name, new Producing(nameServer, asked));
                return Map.of();
            case "send":
                return Map.of("sent", producers.get(name).send(asked));
            case "request":
                return producers.get(name).request(asked);
            case "checked":
                return Map.of("checked", producers.get(name).checked(number(asked, "count"), number(asked, "ms")));
            case "listen":
                consumers.put(name, new Listening(nameServer, asked));
                return Map.of();
            case "poll":
                consumers.put(name, new Polling(nameServer, asked));
                return Map.of();
            case "pull":
                return Map.of("taken", Pulling.all(nameServer, asked));
            case "taken":
                return Map.of("taken", consumers.get(name).taken(number(asked, "count"), number(asked, "ms")));
            case "stop":
                if (consumers.containsKey(name)) {
                    consumers.remove(name).stop();
                } else {
                    producers.remove(name).stop();
                }
                return Map.of();
            default:
                throw new IllegalArgumentException("unknown work: " + asked);
        }
    }

    private void end() {
        consumers.values().forEach(Taking::stop);
        producers.values().forEach(Producing::stop);
    }
}
