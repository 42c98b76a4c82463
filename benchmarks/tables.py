"""The questions, in the order in which their answers are printed."""

from __future__ import annotations

from benchmarks.case import Table

APPEND_ONE = Table(
    "Append one at a time, flushed later",
    note="LMDB and the queues keep no index by topic and queue; SQLite does, so its row compares "
    "with the one until readable",
)
APPEND_MANY = Table("Append in batches of 1000, flushed later", note="times are of one batch")
APPEND_ONE_DURABLE = Table("Append one at a time, each on disk before the call returns")
APPEND_MANY_DURABLE = Table(
    "Append in batches of 1000, each on disk before the call returns", note="times are of one batch"
)
DERIVE = Table("Consume queues from nothing, the log already there", bytes_of="records")
INDEX = Table(
    "Consume queues and key index from nothing, the log already there", bytes_of="records"
)
COUNTS = Table(
    "Messages counted by topic, tag and minute, the log already there",
    bytes_of="records",
    note="in SQLite, by the plugin of fifteen lines in examples/",
)
REBUILD = Table(
    "Build queues and index aside, and exchange them",
    bytes_of="records",
    note="all is on disk when it ends; Spark's session is there before it begins",
)
REPAIR = Table(
    "Repair a store into a new directory",
    bytes_of="records",
    note="bytes are those of the log, in which ten bodies are damaged: it is verified and copied, "
    "queues and index are rebuilt; processes are started inside of the measurement",
    compares=False,
)
VERIFY = Table(
    "Verify a store: every record, and every derived file",
    bytes_of="records",
    note="bytes are those of the log; queues and index are built aside and compared; processes "
    "are started inside of the measurement",
    compares=False,
)
REPORT = Table(
    "Report what a store holds",
    bytes_of="records",
    note="every record is read, with its checksum; the first process is there before it begins",
)
DIFF = Table(
    "Compare a store with a copy of it",
    bytes_of="records",
    note="bytes are those of one of the two logs; queues and other derived files are compared, too",
    compares=False,
)
QUERY = Table("Find a message by key", compares=False)
COMPACTION = Table(
    "Compacted topics",
    bytes_of="records",
    note="bytes are the bytes read: a run reads them twice and writes the messages that stay",
    compares=False,
)
COMPACTION_JOBS = Table(
    "Compact four queues of which one message in five stays",
    bytes_of="records",
    note="the same files come of it; Spark's session is there before it begins",
)
SCAN = Table("Scan the log into columns", bytes_of="records")
FRAMES = Table(
    "The log as Arrow batches in one process",
    bytes_of="records",
    note="batches are made and dropped; files are in the page cache",
)
IMPORT = Table("A store of exported files", bytes_of="records", compares=False)
SPARK_READ = Table(
    "The log as rows of Spark",
    bytes_of="records",
    note="Spark's session is there before it begins; rows are made and dropped",
)
EXPORT = Table(
    "The log as files, all columns, Parquet with zstd where the row names no other",
    bytes_of="records",
    note="Spark's session is there before it begins",
)
SPARK_STREAM = Table(
    "The log as a stream of Spark, in batches",
    note="Spark's session is there before it begins; each batch opens and closes the store",
)
SPARK_WRITE = Table(
    "Columns out of a log as a store, flushed, without queues",
    bytes_of="records",
    note="Spark's session is there before it begins; reading the log is part of it",
)
READ = Table("Read everything in order, bodies taken as bytes")
CONSUME = Table(
    "Consume everything as a group, bodies taken as bytes",
    note="SQLite and persist-queue consume fewer messages",
)
CONSUME_IN_TURNS = Table(
    "Consume everything as a group and without one, in turns",
    compares=False,
    note="rates are of processor time, of the best of five turns",
)
GROUPS = Table("Other measurements of consumer groups", compares=False)
LEDGER = Table(
    "The same messages in a plain log and in one of DLedger, in turns",
    compares=False,
    note="rates are of processor time, of the best of five turns, with opening and closing",
)
FILTER = Table("Evaluate a condition for every message of the log", compares=False)
FILTERED_READ = Table(
    "Read all queues, one message in a hundred wanted",
    note="counted are the messages that a read goes past, wanted or not",
)
IDLE = Table("An idle store: put one message, wait until it can be read", compares=False)
WEB = Table(
    "A request to a FastAPI application that stores an order",
    note="without a network; the order is on disk when the request is answered, but for the list",
    compares=False,
)
PAGES = Table(
    "Pages of `reput browse` over a large store",
    note="the server has just begun; the message page is asked for by four clients at once",
    compares=False,
)
ISOLATION = Table(
    "Put and list in queues, beside another plugin",
    bytes_of="bodies",
    note="the other plugin's own lag is not included",
)
BACKFILL = Table(
    "Put one message, wait until it can be read, beside a plugin that catches up", compares=False
)
OPEN_AFTER_KILL = Table(
    "Open a store that was killed",
    bytes_of="records",
    note="the rows have the same bytes after their last flush; reading them is what it takes",
    compares=False,
)
OPEN = Table("Open a store", bytes_of="records", compares=False)
SCHEDULE = Table("Deliver messages of delay levels", compares=False)
TIMER = Table("Deliver timed messages", compares=False)
TRANSACTION = Table("Transactions", bytes_of="records", compares=False)
SERVE = Table(
    "Send to a server, flushed later",
    note="medians of turns; processor time and the memory named last are the broker's alone; times "
    "are of single sends; client: its processor time for each",
    compares=False,
)
SERVE_DURABLE = Table(
    "Send to a server, each message on disk before it is answered",
    note="medians of turns; processor time and the memory named last are the broker's alone; times "
    "are of single sends; client: its processor time for each",
    compares=False,
)
SERVE_PUSH = Table(
    "Consume from a server, by a stock push consumer",
    note="medians of turns; processor time and the memory named last are the broker's alone; times "
    "are from before the send until the function has the message; client: its processor time for "
    "each message",
    compares=False,
)
GRPC_BESIDE = Table(
    "Serve the Java client for release 5, beside RocketMQ's proxy and broker",
    note="medians of turns; processor time and memory are those of all server processes together; "
    "memory: anonymous; resident: with mapped files; client: its processor time per message",
    compares=False,
)
FOLLOW = Table(
    "Follow a master: take its log",
    note="from a master that has its log in memory unless named; until queues and index are made",
    compares=False,
)
FOLLOW_LAG = Table(
    "Follow a master: how far behind a message is",
    note="one message after the other; the times are those of single messages",
    compares=False,
)
FOLLOW_WORDS = Table(
    "Follow a broker of RocketMQ: a word index of its messages",
    note="10,000 messages a second, then as many as one producer gets answered, in batches of 10, "
    "in turns without and with the follower",
    compares=False,
)
GROWTH = Table(
    "What grows with a store",
    note="size: of what grows; private: bytes of anonymous memory that the work left behind",
    compares=False,
)
BESIDE_JAVA = Table("Beside RocketMQ's own store", compares=False)

TABLES = (
    APPEND_ONE,
    APPEND_MANY,
    APPEND_ONE_DURABLE,
    APPEND_MANY_DURABLE,
    DERIVE,
    INDEX,
    COUNTS,
    REBUILD,
    VERIFY,
    REPAIR,
    REPORT,
    DIFF,
    QUERY,
    COMPACTION,
    COMPACTION_JOBS,
    SCAN,
    FRAMES,
    SPARK_READ,
    SPARK_STREAM,
    SPARK_WRITE,
    EXPORT,
    IMPORT,
    READ,
    CONSUME,
    CONSUME_IN_TURNS,
    GROUPS,
    LEDGER,
    FILTER,
    FILTERED_READ,
    IDLE,
    ISOLATION,
    BACKFILL,
    OPEN,
    OPEN_AFTER_KILL,
    SCHEDULE,
    TIMER,
    TRANSACTION,
    WEB,
    PAGES,
    SERVE,
    SERVE_DURABLE,
    SERVE_PUSH,
    GRPC_BESIDE,
    FOLLOW,
    FOLLOW_LAG,
    FOLLOW_WORDS,
    GROWTH,
    BESIDE_JAVA,
)
