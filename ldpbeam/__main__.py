"""``python -m ldpbeam`` is the command ``ldpbeam``."""

from ldpbeam.pipelines.commands.main import main

if __name__ == "__main__":
    main()
