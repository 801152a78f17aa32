"""Runs an answer in a limited child process and brings back data. May import: answer, cuda, triton."""
