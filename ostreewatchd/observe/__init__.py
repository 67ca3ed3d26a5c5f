# SPDX-License-Identifier: Apache-2.0
"""Builds one Snapshot of the world, its own history in it."""
