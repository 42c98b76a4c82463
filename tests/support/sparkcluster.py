"""A real cluster on this machine: a master and workers from the installed package of Spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading

_READY = re.compile(r"Starting Spark master at (spark://\S+)|Successfully (registered) with")


class Cluster:
    """Processes of ``spark-class``; each leads a group of its own, its executors included."""

    def __init__(self, directory):
        import pyspark

        self.home = os.path.dirname(pyspark.__file__)
        self.directory = directory
        self.processes = {}
        self.readers = []
        self.environment = {
            **os.environ,
            "SPARK_HOME": self.home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(directory / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    def start_master(self):
        """Start a master; its URL."""
        self.master = self._start("Master", "--port", "0")
        return self.master

    def start_worker(self):
        """Start a worker of one core, and wait until the master knows it."""
        self._start("Worker", "-c", "1", "-m", "600m", self.master)

    def wait_killed(self, pid):
        """Wait until a worker has ended that somebody has killed."""
        assert self.processes.pop(pid).wait() == -signal.SIGKILL

    def _start(self, kind, *arguments):
        """Start a daemon; what it says once it is ready."""
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        command = [f"{self.home}/bin/spark-class", name]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        process = subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes[process.pid] = process
        said = []
        for line in process.stderr:
            said.append(line)
            found = _READY.search(line)
            if found:
                # What it goes on to say must not fill the pipe.
                reader = threading.Thread(target=_drain, args=(process.stderr,))
                reader.start()
                self.readers.append(reader)
                return found[1]
        raise AssertionError("".join(said))

    def stop(self):
        """End everything."""
        for process in self.processes.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        for reader in self.readers:
            reader.join()


def _drain(pipe):
    with pipe:
        pipe.read()


def kill_own_worker(mark):
    """End the worker whose executor runs this, with its executor, once; in a task of Python.

    Args:
        mark: path of a file, for all workers, that says which one it was; made here.
    """
    try:
        file = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    # This process was forked by a daemon, which the executor has started, and the worker that one.
    with open(f"/proc/{os.getppid()}/stat") as stat:
        executor = int(stat.read().rpartition(")")[2].split()[1])
    group = os.getpgid(executor)
    os.write(file, b"%d" % group)
    os.killpg(group, signal.SIGKILL)
    signal.pause()  # the daemon ends this process, too, when it sees that its executor is gone
