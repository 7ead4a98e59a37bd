"""What the launcher of the flex template runs; nothing here is ever pickled."""

from ldpbeam.pipelines.deploy.dataflow import run_template

if __name__ == "__main__":
    run_template()
