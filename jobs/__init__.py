"""What the command line does: the back-fill, the demonstration, the development server."""
