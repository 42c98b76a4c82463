"""Suspends and resumes plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from reput_web.actions.action import Action, Field, MoveGroup, Plan, Sentence
from reput_web.errors import NotThereError

if TYPE_CHECKING:
    from reput import Store
    from reput_web.readmodel.openedstore import OpenedStore


@attrs.frozen
class PluginAction(Action):
    """A change of one plugin's state."""

    fields: ClassVar = (Field("plugin", "Plugin", most=128),)
    opens_store: ClassVar = False
    request: ClassVar[str]
    """`reput.storefiles.SUSPEND` or `RESUME`."""
    promise: ClassVar[str]
    done: ClassVar[str]

    def plan(self, opened: OpenedStore) -> Plan:
        """See `Action.plan`."""
        plugin = self.values["plugin"]
        manifest = opened.traces().manifest
        if manifest is None or plugin not in manifest.plugins:
            raise NotThereError(f"The store does not use a plugin {plugin!r}.")
        return Plan((Sentence(self.promise, {"plugin": plugin}),))

    @property
    def result(self) -> Sentence:
        """The sentence that reports it."""
        return Sentence(self.done, {"plugin": self.values["plugin"]})


@attrs.frozen
class SuspendPlugin(PluginAction):
    """Gives a plugin no messages until it is resumed, as ``reput suspend`` does."""

    name: ClassVar = "suspend"
    title: ClassVar = "Suspend a plugin"
    button: ClassVar = "Suspend"
    request: ClassVar = "suspend"
    promise: ClassVar = (
        "Plugin {plugin} gets no messages until it is resumed, also after the store was closed. It "
        "keeps its files and its place in the log; the other plugins continue."
    )
    done: ClassVar = "Plugin {plugin} is suspended."

    def run(self, store: Store, move_group: MoveGroup | None) -> Sentence:
        """See `Action.run`."""
        store.suspend_plugin(self.values["plugin"])
        return self.result


@attrs.frozen
class ResumePlugin(PluginAction):
    """Lets a plugin go on, as ``reput resume`` does."""

    name: ClassVar = "resume"
    title: ClassVar = "Resume a plugin"
    button: ClassVar = "Resume"
    request: ClassVar = "resume"
    promise: ClassVar = (
        "Plugin {plugin} goes on where it was suspended, and catches up with the log."
    )
    done: ClassVar = "Plugin {plugin} is resumed."

    def run(self, store: Store, move_group: MoveGroup | None) -> Sentence:
        """See `Action.run`."""
        store.resume_plugin(self.values["plugin"])
        return self.result
