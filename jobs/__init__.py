"""The commands: back-fill, demonstration, development servers and more."""
