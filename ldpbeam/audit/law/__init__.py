"""The law that an audited client must keep: exact probabilities of its reports, and exact binomial limits."""
