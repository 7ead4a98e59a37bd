"""What devices send to: reports over HTTP, checked, made safe on disk or in a topic, then answered."""
