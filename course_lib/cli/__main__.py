"""python -m course_lib.cli"""

import sys

from . import main

sys.exit(main())
