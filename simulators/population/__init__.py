"""What simulated devices hold, epoch after epoch."""
