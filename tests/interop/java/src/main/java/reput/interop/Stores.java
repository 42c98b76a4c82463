package reput.interop;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** Opens and closes a DefaultMessageStore of whichever version is on the class path. */
final class Stores {
    private static final int HUNDRED_YEARS_IN_HOURS = 876_000;
    private static final int READ_SIZE = 8 << 20;
    private static final long BIT_MAP_FACTOR = 2_654_435_761L;

    static {
        // 4.9 reads these once; a full disk of the machine must not stop or clean a test store.
        System.setProperty("rocketmq.broker.diskSpaceWarningLevelRatio", "0.99");
        System.setProperty("rocketmq.broker.diskSpaceCleanForciblyRatio", "0.99");
    }

    private Stores() {
    }

    /** Sizes from the command line; what is not given keeps RocketMQ's default. */
    static MessageStoreConfig config(Path directory, Main options) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(directory.toString());
        config.setStorePathCommitLog(directory.resolve("commitlog").toString());
        if (options.has("commitlog-size")) {
            config.setMappedFileSizeCommitLog(options.number("commitlog-size", 0));
        }
        if (options.has("cq-units")) {
            config.setMappedFileSizeConsumeQueue(20 * options.number("cq-units", 0));
        }
        config.setMessageIndexEnable(options.has("index") || options.has("index-slots"));
        if (options.has("index-slots")) {
            config.setMaxHashSlotNum(options.number("index-slots", 0));
            config.setMaxIndexNum(options.number("index-max", 0));
        }
        if (options.has("extend-size")) {
            config.setEnableConsumeQueueExt(true);
            config.setMappedFileSizeConsumeQueueExt(options.number("extend-size", 0));
        }
        config.setBrokerRole(BrokerRole.ASYNC_MASTER);
        config.setFlushDiskType(options.has("sync") ? FlushDiskType.SYNC_FLUSH : FlushDiskType.ASYNC_FLUSH);
        if (options.has("batches")) { // reads as large as asked for, wherever the log is
            config.setMaxTransferCountOnMessageInMemory(Integer.MAX_VALUE);
            config.setMaxTransferCountOnMessageInDisk(Integer.MAX_VALUE);
            config.setMaxTransferBytesOnMessageInMemory(READ_SIZE);
            config.setMaxTransferBytesOnMessageInDisk(READ_SIZE);
        }
        config.setHaListenPort(0); // any free port: stores may be open side by side
        config.setFileReservedTime(HUNDRED_YEARS_IN_HOURS);
        config.setCleanFileForciblyEnable(false);
        config.setDiskMaxUsedSpaceRatio(95);
        setIfPresent(config, "setEnableCompaction", false);
        setIfPresent(config, "setEnableLmq", options.has("light-queues"));
        setIfPresent(config, "setEnableMultiDispatch", options.has("light-queues"));
        setIfPresent(config, "setEnabledAppendPropCRC", options.has("record-crc"));
        setIfPresent(config, "setForceVerifyPropCRC", options.has("record-crc"));
        setIfPresent(config, "setTimerWheelEnable", false);
        return config;
    }

    static DefaultMessageStore create(MessageStoreConfig config) throws Exception {
        BrokerConfig broker = new BrokerConfig();
        BrokerStatsManager stats = new BrokerStatsManager("interop", false);
        MessageArrivingListener listener =
            (topic, queueId, offset, tagsCode, storeTime, bitMap, properties) -> { };
        for (Constructor<?> constructor : DefaultMessageStore.class.getConstructors()) {
            if (constructor.getParameterCount() == 4) { // 4.9
                return (DefaultMessageStore) constructor.newInstance(config, stats, listener, broker);
            }
            if (constructor.getParameterCount() == 5) { // 5.x takes the topics' configuration too
                return (DefaultMessageStore)
                    constructor.newInstance(config, stats, listener, broker, new ConcurrentHashMap<>());
            }
        }
        throw new IllegalStateException("unknown constructor of DefaultMessageStore");
    }

    static DefaultMessageStore open(MessageStoreConfig config) throws Exception {
        DefaultMessageStore store = create(config);
        if (config.isEnableConsumeQueueExt()) {
            // Before load(): recovery dispatches, too. First: the consume queues take what is there.
            store.getDispatcherList().addFirst(request -> request.setBitMap(bitMap(request)));
        }
        if (!store.load()) {
            throw new IllegalStateException("load() refused " + config.getStorePathRootDir());
        }
        store.start();
        awaitDispatched(store);
        return store;
    }

    /** Stands for the broker's filters: a bit map that tells each message from the others. */
    private static byte[] bitMap(DispatchRequest request) {
        return ByteBuffer.allocate(8).putLong(request.getCommitLogOffset() * BIT_MAP_FACTOR).array();
    }

    static void awaitDispatched(DefaultMessageStore store) throws InterruptedException {
        long deadline = System.nanoTime() + 600_000_000_000L;
        while (store.dispatchBehindBytes() > 0) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("still behind: " + store.dispatchBehindBytes());
            }
            Thread.sleep(1);
        }
    }

    /**
     * Opens a store and notes when all is dispatched: {@code start()} of 4.9 looks only every second
     * whether that is so, and this looks from beside it.
     */
    static DefaultMessageStore openUntilDispatched(MessageStoreConfig config, AtomicLong ended) throws Exception {
        DefaultMessageStore store = create(config);
        if (!store.load()) {
            throw new IllegalStateException("load() refused " + config.getStorePathRootDir());
        }
        Thread watcher = new Thread(() -> {
            try {
                awaitDispatched(store);
                ended.set(System.nanoTime());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        watcher.start();
        store.start();
        watcher.join();
        return store;
    }

    /**
     * Closes a store that nobody uses any more, and so spares the one to three seconds for which
     * {@code shutdown()} first lets calls end that are under way.
     */
    static void closeAtOnce(DefaultMessageStore store) throws InterruptedException {
        Thread closing = new Thread(store::shutdown);
        closing.start();
        boolean spared = false;
        while (closing.isAlive()) {
            if (!spared && sleepsIn(closing, "shutdown")) {
                closing.interrupt(); // only once: what it waits for later is needed
                spared = true;
            }
            closing.join(1);
        }
    }

    /** Whether the thread sleeps, and this method of the store itself asked for that. */
    private static boolean sleepsIn(Thread thread, String method) {
        StackTraceElement[] frames = thread.getStackTrace();
        int at = 0;
        while (at < frames.length && frames[at].getClassName().equals("java.lang.Thread")) {
            at++;
        }
        return at > 0 && at < frames.length && frames[at].getMethodName().equals(method)
            && frames[at].getClassName().equals(DefaultMessageStore.class.getName());
    }

    static void expectInQueues(DefaultMessageStore store, long count) throws Exception {
        long total = 0;
        for (int topic = 0; topic < Messages.TOPICS; topic++) {
            for (int queue = 0; queue < Messages.QUEUES; queue++) {
                total += store.getMaxOffsetInQueue(Messages.topic(topic), queue);
            }
        }
        if (total != count) {
            throw new IllegalStateException(total + " messages in the queues instead of " + count);
        }
    }

    static void delete(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        List<Path> paths;
        try (Stream<Path> walk = Files.walk(folder)) {
            paths = walk.sorted(Comparator.reverseOrder()).collect(Collectors.toList());
        }
        for (Path path : paths) {
            Files.delete(path);
        }
    }

    /** Throws away what was derived from the log and lets the running reput loop begin again. */
    static void forgetDerived(DefaultMessageStore store) throws Exception {
        Object queues = has(store, "destroyLogics") ? store : call(store, "getQueueStore");
        call(queues, queues == store ? "destroyLogics" : "destroy");
        call(field(store, "indexService"), "destroy");
    }

    static void reputFromStart(DefaultMessageStore store) throws Exception {
        Object service = field(store, "reputMessageService");
        Method method = service.getClass().getMethod("setReputFromOffset", long.class);
        method.setAccessible(true);
        method.invoke(service, store.getMinPhyOffset());
    }

    /** Only 5.x knows boundaries. */
    static long offsetByTime(DefaultMessageStore store, String topic, int queueId, long time, String boundary)
        throws Exception {
        for (Method method : DefaultMessageStore.class.getMethods()) {
            if (method.getName().equals("getOffsetInQueueByTime") && method.getParameterCount() == 4) {
                Object type = method.getParameterTypes()[3].getField(boundary).get(null);
                return (long) method.invoke(store, topic, queueId, time, type);
            }
        }
        throw new IllegalStateException("this version knows no boundaries");
    }

    private static boolean has(Object target, String method) {
        try {
            target.getClass().getMethod(method);
            return true;
        } catch (NoSuchMethodException e) {
            return false;
        }
    }

    private static Object call(Object target, String name) throws Exception {
        Method method = target.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(target);
    }

    private static Object field(Object target, String name) throws Exception {
        Field field = DefaultMessageStore.class.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(target);
    }

    private static void setIfPresent(Object target, String setter, boolean value) throws Exception {
        try {
            target.getClass().getMethod(setter, boolean.class).invoke(target, value);
        } catch (NoSuchMethodException e) {
            // 4.9 has no such option
        }
    }
}
