"""What a worker does with a staged job, in an interpreter that knows a few folders and nothing else.

Called as ``python -I -S worker.py FOLDER[:FOLDER…] PIPELINE…``: loads every coder, window and function of the
pipelines, sets the functions up, and tells where their classes came from.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def loaded(path: Path) -> Iterator[Any]:
    """Everything of ours that a staged pipeline holds."""
    from apache_beam.internal import pickler
    from apache_beam.portability import python_urns
    from apache_beam.portability.api import beam_runner_api_pb2 as api
    from apache_beam.runners.pipeline_context import PipelineContext
    from apache_beam.transforms.core import CombineFn

    parts = api.Pipeline.FromString(path.read_bytes()).components
    context = PipelineContext(parts)
    for name in parts.coders:
        yield context.coders.get_by_id(name)
    for name in parts.windowing_strategies:
        yield context.windowing_strategies.get_by_id(name).windowfn
    for transform in parts.transforms.values():
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload = api.ParDoPayload.FromString(transform.spec.payload)
            if payload.do_fn.urn == python_urns.KEY_WITH_NONE_DOFN:
                continue  # Beam's own, of a side input: it has a name and no code.
            function = pickler.loads(payload.do_fn.payload)[0]
        elif transform.spec.urn.startswith("beam:transform:combine_"):
            combined = api.CombinePayload.FromString(transform.spec.payload)
            function = CombineFn.from_runner_api(combined.combine_fn, context)
        else:
            continue
        # OfEach sets a step up when it has its first element.
        for step in (function, *getattr(function, "_steps", {}).values()):
            step.setup()
            step.teardown()
            yield step


def main() -> None:
    """Load, and tell."""
    sys.path[:0] = sys.argv[1].split(":")
    classes = {
        f"{type(made).__module__}.{type(made).__qualname__}"
        for name in sys.argv[2:]
        for made in loaded(Path(name))
    }
    ours = {"ldpbeam"}
    files = [str(module.__file__) for name, module in sys.modules.items() if name.partition(".")[0] in ours]
    told = {"classes": sorted(classes), "files": files, "path": sys.path, "numba": "numba" in sys.modules}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
