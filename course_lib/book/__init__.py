"""chapters/ to notebooks/, exercises/ and solutions/; pages/ makes README and docs/, site/ the static site.

    python -m course_lib.book [NN …]        all chapters, or those with these numbers

Importing the package loads nothing: `regions` is needed where nbformat and jupytext are not installed.
May import: everything of the course; nothing imports this package but the command line.
"""

FOLDERS = ("notebooks", "exercises", "solutions")  # of what is built from chapters/
