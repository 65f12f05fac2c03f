"""Windows of many keys at once, in columns of Arrow."""
