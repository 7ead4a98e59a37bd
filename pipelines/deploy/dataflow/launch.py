"""What the launcher of the flex template runs; nothing here is ever pickled."""

from . import run_template

if __name__ == "__main__":
    run_template()
