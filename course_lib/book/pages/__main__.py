"""python -m course_lib.book.pages"""

import sys

from . import main

sys.exit(main())
