# SPDX-License-Identifier: Apache-2.0
"""Rules about the host itself: what contradicts itself, was interrupted, or is about to do harm. They only tell."""
