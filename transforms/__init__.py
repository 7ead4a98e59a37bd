"""One Beam adapter per stage: sources, reports, epochs, support, estimate, histogram, sinks."""
