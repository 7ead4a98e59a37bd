"""The clients that are audited, and the reports drawn from them."""
