"""What the engine reads: a Pub/Sub subscription, or a folder that grows."""
