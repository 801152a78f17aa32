"""python -m course_lib.book"""

import sys

from . import main

sys.exit(main())
