"""python -m course_lib.build"""

import sys

from . import main

sys.exit(main())
