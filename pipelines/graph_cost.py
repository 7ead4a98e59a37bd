"""What Beam works out anew for every step of a graph, worked out once; the graph is the same.

While it builds and runs a graph, Beam parses all options for every step and every comparison of two types,
and inspects the signature of every method of every DoFn seven times. For three collections that was 40 % of
what a small run costs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.core import CallableWrapperDoFn, DoFn

_VIEWS = "_views"

Declared = tuple[set[Any], set[Any]]
"""The state cells and the timers that a DoFn declares, as Beam describes them."""

inspected: Callable[[DoFn], Declared] = userstate.get_dofn_specs
"""Beam's own inspection of a step, whose answers are kept."""
_known: WeakKeyDictionary[type, Declared] = WeakKeyDictionary()


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


def state_and_timers(step: DoFn) -> Declared:
    """What Beam finds by inspection of every method, which it need not do again for steps of one class.

    It looks at what the class defines, at methods of other objects that the step itself holds, and at what a
    wrapper says of the DoFn in it; the latter two are different for each step.
    """
    kind = type(step)
    wraps = kind is not CallableWrapperDoFn and hasattr(kind, "_inspect_process")
    if wraps or any(isinstance(value, MethodType) for value in vars(step).values()):
        return inspected(step)
    if kind not in _known:
        _known[kind] = inspected(step)
    states, timers = _known[kind]
    return set(states), set(timers)


def install() -> None:
    """Have Beam ask :func:`state_and_timers`, in this process."""
    userstate.get_dofn_specs = state_and_timers
