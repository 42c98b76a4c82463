# What reput's own plugins offer on a store: only type checkers read this file. A method is of type
# Any where its plugin is not installed; see `reput.Plugin.store_methods`.

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from reput_consumer import ConsumerPlugin
from reput_retention import RetentionPlugin

_P = ParamSpec("_P")
_R = TypeVar("_R", covariant=True)

class _OfferedMethod(Generic[_P, _R]):
    def __init__(self, method: Callable[Concatenate[Any, _P], _R]) -> None: ...
    def __get__(self, store: object, kind: object = None) -> Callable[_P, _R]: ...

class OfferedMethods:
    consumer = _OfferedMethod(ConsumerPlugin.consumer)
    pop_consumer = _OfferedMethod(ConsumerPlugin.pop_consumer)
    expire_log = _OfferedMethod(RetentionPlugin.expire_log)
