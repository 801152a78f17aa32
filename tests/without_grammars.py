"""A plugin of pytest: jsonschema without rfc3987_syntax, which builds 38 grammars when it is imported, 1.5 s a process.

jsonschema takes it when it is there, for formats of addresses; no notebook has one. nbval imports jsonschema before
any conftest.py is read, so scripts/test.sh names this file with -p; conftest.py imports it for all other tests.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # an import of it is an ImportError
