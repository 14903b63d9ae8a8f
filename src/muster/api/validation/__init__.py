"""What a schema cannot say: field-path problems of our kinds, each with a way to mend it. Pure."""
