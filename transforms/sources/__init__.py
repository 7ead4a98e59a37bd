"""Where reports come from: files, messages, Kafka."""
