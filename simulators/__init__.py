"""Simulation: populations with a known truth, and randomness that does not depend on batching."""

if __name__ == "simulators":
    raise ImportError(
        "simulators is a folder of the repository and a part of the package ldpbeam: "
        "import ldpbeam.simulators."
    )
