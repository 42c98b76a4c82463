import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * Decodes byte strings: reads a length of two bytes and the bytes, again and again, and writes each as
 * UTF-16BE with its length in bytes before it. Needs nothing but a JDK: {@code java Texts.java}.
 */
public final class Texts {
    private Texts() {
    }

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            byte[] data;
            try {
                data = new byte[in.readUnsignedShort()];
            } catch (EOFException end) {
                break;
            }
            in.readFully(data);
            String text = new String(data, StandardCharsets.UTF_8);
            out.writeShort(2 * text.length());
            for (int at = 0; at < text.length(); at++) {
                out.writeChar(text.charAt(at));
            }
        }
        out.flush();
    }
}
