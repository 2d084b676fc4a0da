"""What `amplint explain` claims is held against: programs that raise the messages, and the sources that print them."""
