# SPDX-License-Identifier: Apache-2.0
"""`python -m ostreewatchd.cli` is `ostreewatchctl`, from a checkout: a saved snapshot is judged without an
installation."""

import sys

from ostreewatchd.cli import main

sys.exit(main())
