# SPDX-License-Identifier: Apache-2.0
"""One step at a time, its intent on disk first: the only writer."""
