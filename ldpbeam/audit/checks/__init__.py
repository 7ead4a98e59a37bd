"""What an audit checks, and what each check finds."""
