# SPDX-License-Identifier: Apache-2.0
"""One client for each thing outside this process; every call has a deadline."""
