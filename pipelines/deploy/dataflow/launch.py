"""What the launcher of the flex template runs, as a file of its own; nothing here is ever pickled."""

from ldpbeam.pipelines.deploy.dataflow import run_template

if __name__ == "__main__":
    run_template()
