# SPDX-License-Identifier: Apache-2.0
"""What wakes the watcher: hints only, a scan is the truth."""
