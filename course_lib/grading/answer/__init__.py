"""A learner's answer: its text, taken from a cell, a function or a file, and loaded. Imports no other room."""
