package reput.broker;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * One broker after the other in one process, because most of the time of a start is that of Java. A
 * line of stdin is a JSON object: {@code do} is "start" with {@code arguments} of a broker, or "stop",
 * which shuts the broker down as the end of its process does.
 */
public final class BrokerHost {
    private BrokerController broker;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BrokerHost host = new BrokerHost();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = Map.of();
            try {
                host.work(RemotingSerializable.fromJson(line, HashMap.class));
            } catch (Throwable error) {
                error.printStackTrace();
                answer = Map.of("error", error.toString());
            }
            answers.println(RemotingSerializable.toJson(answer, false));
        }
        // Without the hooks of brokers that were shut down: their directories belong to others now.
        Runtime.getRuntime().halt(0);
    }

    private void work(Map<String, Object> asked) throws Exception {
        if (asked.get("do").equals("stop")) {
            broker.shutdown();
            return;
        }
        List<String> arguments = (List<String>) asked.get("arguments");
        broker = BrokerStartup.createBrokerController(arguments.toArray(new String[0]));
        BrokerStartup.start(broker);
    }
}
