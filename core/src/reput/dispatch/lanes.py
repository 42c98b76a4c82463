"""`Lanes`: which plugin is driven by which lane: the main one, or one of its own.

A watch looks now and then: a plugin that does not return from a call is left in its thread, and one
that delays the others is given a thread.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from reput.dispatch.lane import Lane
from reput.dispatch.phase import Phase
from reput.flags import Flag

if TYPE_CHECKING:
    from reput.dispatch.feed import Feed
    from reput.dispatch.runner import PluginRunner

logger = logging.getLogger(__name__)

__all__ = ["Lanes"]

_WATCH_SECONDS = 1.0


class Lanes:
    """The lanes of one reput loop; who is in which changes under the board's lock."""

    def __init__(self, feed: Feed, runners: list[PluginRunner]) -> None:
        self._feed = feed
        self._board = feed.board
        self.main = self._lane(runners, is_main=True)
        self.side: list[Lane] = []
        self._stop = Flag()
        self._watcher: threading.Thread | None = None

    def _lane(self, runners: list[PluginRunner], *, is_main: bool) -> Lane:
        wake, take_home = self.wake, self.take_home
        return Lane(self._feed, runners, is_main=is_main, wake=wake, take_home=take_home)

    @property
    def all(self) -> list[Lane]:
        """The main lane, and those of single plugins."""
        return [self.main, *self.side]

    # ------------------------------------------------------------------ which plugin is where

    def move_to_main(self, each: PluginRunner) -> None:
        """Drive a plugin on the main lane, wherever it was before."""
        if each in self.main.runners:
            return
        self.remove(each)
        self.main.runners = [*self.main.runners, each]
        self.main.sort(list(self._board.runners))
        self.main.work.set()

    def lane_of(self, each: PluginRunner) -> Lane | None:
        """The lane that drives a plugin; None where it was taken away."""
        return next((lane for lane in self.all if each in lane.runners), None)

    def remove(self, each: PluginRunner) -> None:
        """Drive a plugin no more."""
        lane = self.lane_of(each)
        if lane is None:
            return
        lane.runners = [other for other in lane.runners if other is not each]
        lane.work.set()
        self.side = [other for other in self.side if other.runners]

    def take_home(self, lane: Lane) -> bool:
        """Take the plugin of a side lane back, when it is quick again; whether it was taken."""
        with self._board.lock:
            if not lane.runners:
                return True
            (each,) = lane.runners
            if not each.figures.is_quick:
                return False
            if each.phase is not Phase.RUNNING or each.position < self._feed.limit():
                return False
            self.move_to_main(each)
            return True

    # ------------------------------------------------------------------ the watch

    def _watch(self) -> None:
        while not self._stop.wait(min(self._board.stall_seconds / 4, _WATCH_SECONDS)):
            with self._board.lock:
                self._board.look_for_stalls()
                each = self._stuck_in(self.main)
                if each is not None:
                    self._leave(self.main, each)
                self._set_aside_slow()
                if self.main.thread is None and not self._feed.is_over:
                    self._start_again()

    def _start_again(self) -> None:
        """Start the main lane, which had no thread when it was made."""
        try:
            self.main.start()
        except RuntimeError as error:  # still none; a caller that waits steps it meanwhile
            logger.warning("no thread to dispatch on, tried again error=%s", error)

    def _stuck_in(self, lane: Lane) -> PluginRunner | None:
        """The plugin that a lane does not come back from, perhaps taken away since."""
        call = lane.call
        each = None if call is None else self._board.runners.get(call.plugin)
        return each if each is not None and call is not None and each.is_stuck(call) else None

    def _leave(self, lane: Lane, each: PluginRunner) -> None:
        """Leave the main lane's thread with the plugin that it is in; the others get a new one."""
        others = [other for other in lane.runners if other is not each]
        lane.is_main = False
        lane.runners = [each]
        self.side.append(lane)
        self.main = self._lane(others, is_main=True)
        if not self._feed.is_over:
            self._start_again()

    def _set_aside_slow(self) -> None:
        """Give plugins that hold up the others a lane of their own."""
        if len([each for each in self.main.runners if each.wants_messages]) < 2:
            return
        call = self.main.call
        for each in self.main.runners:
            inside = call is not None and call.plugin == each.name
            if each.phase is Phase.RUNNING and not inside and each.figures.is_slow:
                each.figures.forget_times()
                lane = self._lane([each], is_main=False)
                try:
                    lane.start()
                except RuntimeError as error:  # it stays where it is
                    logger.warning("no thread for a slow plugin=%s error=%s", each.name, error)
                    continue
                self.main.runners = [other for other in self.main.runners if other is not each]
                self.side.append(lane)
                logger.info("slow plugin set aside plugin=%s", each.name)

    # ------------------------------------------------------------------ running

    def start(self) -> None:
        """Run every lane on a thread."""
        self.main.start()
        watcher = threading.Thread(target=self._watch, name="reput-watch", daemon=True)
        watcher.start()
        self._watcher = watcher

    def stop(self) -> None:
        """Wait for the threads; one that is stuck in a plugin is left."""
        self.wake()
        self.release()
        limit = time.monotonic() + self._board.stall_seconds + 2 * _WATCH_SECONDS
        with self._board.lock:
            lanes = self.all
        for lane in lanes:
            while lane.thread is not None and lane.thread.is_alive():
                lane.thread.join(0.05)
                if self._stuck_in(lane) is not None or time.monotonic() > limit:
                    break
            else:
                lane.close()
        # The watch last: it finds that a thread will not come back.
        self._stop.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None

    def release(self) -> None:
        """A caller waits: the lanes end their pauses."""
        for lane in self.all:
            lane.released.set()

    def wake(self) -> None:
        """There may be something to do."""
        for lane in self.all:
            lane.work.set()
