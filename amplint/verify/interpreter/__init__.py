"""The interpreter that runs the intermediate representation on real tensors."""
