"""The four states of a verdict.

May import: nothing of the course.
"""

PASS = "PASS"
FAIL = "FAIL"
NOT_STARTED = "NOT STARTED"
NOT_VERIFIED_HERE = "NOT VERIFIED HERE"
