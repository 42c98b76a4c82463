package reput.interop;

import java.io.BufferedWriter;
import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Rows as JSON lines, ASCII only (so that broken surrogates survive). */
final class Json implements Closeable {
    private static final char[] HEX = "0123456789abcdef".toCharArray();

    private final BufferedWriter out;

    Json(Path file) throws IOException {
        out = Files.newBufferedWriter(file, StandardCharsets.US_ASCII);
    }

    /** A row: its kind, then names and values in turns. */
    static Map<String, Object> row(String kind, Object... namesAndValues) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("kind", kind);
        for (int i = 0; i < namesAndValues.length; i += 2) {
            row.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return row;
    }

    void write(Map<String, Object> row) throws IOException {
        out.write(text(row));
        out.newLine();
    }

    @Override
    public void close() throws IOException {
        out.close();
    }

    static String text(Object value) {
        StringBuilder text = new StringBuilder();
        append(text, value);
        return text.toString();
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder(2 * bytes.length);
        for (byte b : bytes) {
            text.append(HEX[b >> 4 & 15]).append(HEX[b & 15]);
        }
        return text.toString();
    }

    private static void append(StringBuilder text, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                text.append(separator);
                separator = ",";
                append(text, entry.getKey());
                text.append(':');
                append(text, entry.getValue());
            }
            text.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            String separator = "[";
            for (Object item : (List<?>) value) {
                text.append(separator);
                separator = ",";
                append(text, item);
            }
            text.append(separator.equals("[") ? "[]" : "]");
        } else {
            appendString(text, value.toString());
        }
    }

    private static void appendString(StringBuilder text, String string) {
        text.append('"');
        for (int i = 0; i < string.length(); i++) {
            char c = string.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < 32 || c > 126) {
                text.append("\\u").append(HEX[c >> 12]).append(HEX[c >> 8 & 15]);
                text.append(HEX[c >> 4 & 15]).append(HEX[c & 15]);
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }
}
