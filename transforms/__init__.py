"""One Beam adapter per stage: sources, reports, epochs, support, estimate, histogram, sinks."""

if __name__ == "transforms":
    raise ImportError(
        "transforms is a folder of the repository and a part of the package ldpbeam: "
        "import ldpbeam.transforms."
    )
