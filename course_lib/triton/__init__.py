"""The Triton engine of the course. Importing this package is light; triton itself is imported at first use."""
