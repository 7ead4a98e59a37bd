"""What a shuffler between devices and server would add to their protection."""
