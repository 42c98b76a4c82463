package reput.fives;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;

/**
 * RocketMQ's client for release 5, for tests of the server. A line of stdin is a JSON object whose
 * {@code do} names the work; the answer is a line of JSON, with {@code error} where the work failed.
 * Ends with stdin. The programs in the other languages take the same lines.
 */
public final class Program {
    private final Map<String, Producing> producers = new LinkedHashMap<>();
    private final Map<String, Consuming> consumers = new LinkedHashMap<>();
    private ClientConfiguration configuration;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        Program program = new Program();
        Gson json = new Gson();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer;
            try {
                answer = program.work(json.fromJson(line, JsonObject.class));
            } catch (Throwable error) {
                error.printStackTrace();
                answer = Map.of("error", error.toString());
            }
            answers.println(json.toJson(answer));
        }
        program.end();
        System.exit(0);
    }

    private Map<String, Object> work(JsonObject asked) throws Exception {
        String name = asked.has("name") ? asked.get("name").getAsString() : "";
        switch (asked.get("do").getAsString()) {
            case "begin":
                configuration = configuration(asked);
                return Map.of();
            case "producer":
                producers.put(name, new Producing(configuration, asked));
                return Map.of();
            case "send":
                return Map.of("sent", producers.get(name).send(asked.getAsJsonArray("messages")));
            case "recall":
                return Map.of("id", producers.get(name).recall(asked));
            case "checked":
                return Map.of("checked", producers.get(name).checked.wait(asked));
            case "simple":
                consumers.put(name, new Simple(configuration, asked, filter(asked)));
                return Map.of();
            case "listen":
                consumers.put(name, new Push(configuration, asked, filter(asked)));
                return Map.of();
            case "lite":
                consumers.put(name, new LitePush(configuration, asked));
                return Map.of();
            case "subscribe":
                ((LitePush) consumers.get(name)).change(asked.getAsJsonArray("added"), asked.getAsJsonArray("removed"));
                return Map.of();
            case "taken_lite":
                return Map.of("taken", ((LitePush) consumers.get(name)).taken.wait(asked));
            case "receive":
                return Map.of("taken", ((Simple) consumers.get(name)).receive(asked));
            case "taken":
                return Map.of("taken", ((Push) consumers.get(name)).taken.wait(asked));
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

    private void end() throws Exception {
        for (Consuming each : consumers.values()) {
            each.stop();
        }
        for (Producing each : producers.values()) {
            each.stop();
        }
    }

    private static ClientConfiguration configuration(JsonObject asked) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(asked.get("endpoints").getAsString())
            .enableSsl(asked.has("tls"));
        if (asked.has("namespace")) {
            builder.setNamespace(asked.get("namespace").getAsString());
        }
        if (asked.has("access_key")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(
                asked.get("access_key").getAsString(), asked.get("secret_key").getAsString()));
        }
        return builder.build();
    }

    private static FilterExpression filter(JsonObject asked) {
        if (asked.has("sql")) {
            return new FilterExpression(asked.get("sql").getAsString(), FilterExpressionType.SQL92);
        }
        return asked.has("expression")
            ? new FilterExpression(asked.get("expression").getAsString())
            : FilterExpression.SUB_ALL;
    }
}
