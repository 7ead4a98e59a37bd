"""Runnable jobs and the command line."""

if __name__ == "pipelines":
    raise ImportError(
        "pipelines is a folder of the repository and a part of the package ldpbeam: import ldpbeam.pipelines."
    )
