"""python -m course_lib.book"""

import sys

from .command import main

sys.exit(main())
