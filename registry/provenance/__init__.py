"""What was published: its versions, what each came from, and the proof that it can be made again."""
