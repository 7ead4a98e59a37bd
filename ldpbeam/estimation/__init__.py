"""From counts to limits: counts of bits, intervals, and the exact binomial laws behind them."""
