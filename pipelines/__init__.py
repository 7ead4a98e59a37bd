"""Beam jobs: the graph over files, the graph over messages, and handing them to a runner."""

if __name__ == "pipelines":
    raise ImportError(
        "pipelines is a folder of the repository and a part of the package ldpbeam: import ldpbeam.pipelines."
    )
