package reput.programs;

import org.apache.rocketmq.tools.command.MQAdminStartup;

/** The admin tool with one command. */
public final class Tool {
    private Tool() {}

    public static void main(String[] arguments) {
        MQAdminStartup.main0(arguments, null);
        System.exit(0);
    }
}
