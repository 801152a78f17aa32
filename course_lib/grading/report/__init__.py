"""The verdict and how it reads, as text and as a card. Imports no other room."""
