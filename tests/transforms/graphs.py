"""What a graph is made of."""

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor


def labels(pipeline: beam.Pipeline) -> list[str]:
    found: list[str] = []

    class Visitor(PipelineVisitor):
        def enter_composite_transform(self, node: object) -> None:
            self.visit_transform(node)

        def visit_transform(self, node: object) -> None:
            parent = node.parent  # type: ignore[attr-defined]
            # A transform that is a function is of Beam's class, which keeps the function.
            made = parent and getattr(parent.transform, "_fn", type(parent.transform))
            if made and made.__module__.startswith(("ldpbeam.pipelines.", "ldpbeam.transforms.")):
                found.append(node.full_label)  # type: ignore[attr-defined]

    pipeline.visit(Visitor())
    return found
