"""Binary files: each object, of any content, is a row."""
