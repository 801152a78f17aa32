"""python -m course_lib.book.site"""

import sys

from . import main

sys.exit(main())
