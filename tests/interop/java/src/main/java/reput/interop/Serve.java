package reput.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * {@code serve}: does one piece of {@link Work} after the other in one process, whose compiled code
 * stays. A line of stdin is one of its commands, arguments parted by tabs; its rows go to stdout, then
 * a row {@code end}, or {@code error} with a text, after which the next line is taken. Ends with stdin.
 */
final class Serve {
    private Serve() {
    }

    static void run() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                new Work(new Main(line.split("\t"))).run();
                System.out.println(Json.text(Json.row("end")));
            } catch (Throwable error) {
                error.printStackTrace();
                System.out.println(Json.text(Json.row("error", "text", error.toString())));
            }
        }
    }
}
