"""What Beam works out anew for every step of a graph, worked out once; the graph is the same.

While it builds and runs a graph, Beam parses all options for every step and every comparison of two types,
inspects the signature of every method of every DoFn seven times, and reads the source of each step for a
warning. For three collections that was 40 % of what a small run costs. It also compresses and decompresses
each step four times, which pays where steps are sent to other processes. And at the end of each bundle it
waits for a thread that samples what is being done, which sleeps up to a fifth of a second at a time.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.transforms import core, userstate
from apache_beam.transforms.core import CallableWrapperDoFn, DoFn

_VIEWS = "_views"
SAMPLED_EVERY = 5
"""Milliseconds between two samples of what a bundle is doing; its end waits for one, at most."""

Arguments = tuple[list[str], list[Any]]
"""Names of a function's positional parameters, and the defaults of the last ones, as Beam has them."""

inspected: Callable[[Any], Arguments] = core.get_function_args_defaults
"""Beam's own inspection of a signature, whose answers are kept."""
Declared = tuple[set[Any], set[Any]]
"""The state cells and the timers that a DoFn declares, as Beam describes them."""

declared: Callable[[DoFn], Declared] = userstate.get_dofn_specs
"""Beam's own inspection of a step, whose answers are kept."""

yields_and_returns: Callable[[Any], bool] = core._check_fn_use_yield_and_return
"""Beam's own look at a function's source, for a warning, whose answers are kept."""

_of_sources: WeakKeyDictionary[FunctionType, bool] = WeakKeyDictionary()
_of_functions: WeakKeyDictionary[FunctionType, Arguments] = WeakKeyDictionary()
_of_methods: WeakKeyDictionary[FunctionType, Arguments] = WeakKeyDictionary()
_of_steps: WeakKeyDictionary[type, Declared] = WeakKeyDictionary()


class OptionsParsedOnce(PipelineOptions):
    """Beam's options, which keep each view of themselves; all views share their values in any case."""

    def view_as(self, cls: type[Any]) -> Any:
        """The options as an object of ``cls``, parsed at the first call only."""
        views = self.__dict__.setdefault(_VIEWS, {})  # Beam's own __setattr__ knows options only
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        """Without the views: those of a copy share the values of the copy."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != _VIEWS}


def arguments(function: Any) -> Arguments:
    """What Beam finds in a signature, once for each function and for all methods that are made of it.

    Anything else that can be called may have a signature of its own each time, so it is asked each time. So
    is a function that stands for another one, or says itself which signature it has: that can be exchanged.
    """
    known, plain = _of_functions, function
    if isinstance(function, MethodType):
        known, plain = _of_methods, function.__func__
    if not isinstance(plain, FunctionType) or plain.__dict__.keys() & {"__wrapped__", "__signature__"}:
        return inspected(function)
    if plain not in known:
        known[plain] = inspected(function)
    names, defaults = known[plain]
    return list(names), list(defaults)


def state_and_timers(step: DoFn) -> Declared:
    """What Beam finds by inspection of every method, which it need not do again for steps of one class.

    It looks at what the class defines, at methods of other objects that the step itself holds, and at what a
    wrapper says of the DoFn in it; the latter two are different for each step.
    """
    kind = type(step)
    wraps = kind is not CallableWrapperDoFn and hasattr(kind, "_inspect_process")
    if wraps or any(isinstance(value, MethodType) for value in vars(step).values()):
        return declared(step)
    if kind not in _of_steps:
        _of_steps[kind] = declared(step)
    states, timers = _of_steps[kind]
    return set(states), set(timers)


def warned_of(function: Any) -> bool:
    """Whether Beam warns of what a function's source says; it is read once, as it does not change."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        return yields_and_returns(function)
    if plain not in _of_sources:
        _of_sources[plain] = yields_and_returns(function)
    return _of_sources[plain]


def install() -> None:
    """Have Beam ask the three functions above, and sample often, in this process."""
    StateSampler.__init__.__defaults__ = (SAMPLED_EVERY,)
    core.get_function_args_defaults = arguments
    userstate.get_dofn_specs = state_and_timers
    core._check_fn_use_yield_and_return = warned_of


class _AsItIs:
    """Stands for the module bz2 where Beam pickles steps: nothing is compressed, and what is gets read."""

    @staticmethod
    def compress(data: bytes, compresslevel: int = 9) -> bytes:
        return data

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return bz2.decompress(data) if data.startswith(b"BZh") else data


@contextmanager
def nothing_travels() -> Iterator[None]:
    """Within the block steps are not compressed: for a run whose steps do not leave this process."""
    before, cloudpickle_pickler.bz2 = cloudpickle_pickler.bz2, _AsItIs
    try:
        yield
    finally:
        cloudpickle_pickler.bz2 = before
