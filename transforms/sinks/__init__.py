"""Where results go: files, a topic, BigQuery."""
