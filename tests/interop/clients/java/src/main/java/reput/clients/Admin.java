package reput.clients;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** {@code mqadmin}. */
final class Admin {
    private Admin() {
    }

    /** What a command prints; what it says of an error, it says in passing only. */
    static String said(String nameServer, List<String> arguments) throws Exception {
        List<String> all = new ArrayList<>(arguments);
        all.add("-n");
        all.add(nameServer);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        PrintStream before = System.out;
        PrintStream errorsBefore = System.err;
        System.setOut(new PrintStream(bytes, true, "UTF-8"));
        System.setErr(new PrintStream(errors, true, "UTF-8"));
        try {
            MQAdminStartup.main0(all.toArray(new String[0]), null);
        } finally {
            System.setOut(before);
            System.setErr(errorsBefore);
        }
        String said = errors.toString("UTF-8");
        if (said.contains("SubCommandException")) {
            throw new IllegalStateException(String.join(" ", all) + ": " + said);
        }
        return bytes.toString("UTF-8");
    }
}
