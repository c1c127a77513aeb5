"""Model files of frameworks, converted by the frameworks themselves."""
