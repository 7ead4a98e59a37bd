"""The command line: a command is a module with its body; what several commands use is in shared/."""
