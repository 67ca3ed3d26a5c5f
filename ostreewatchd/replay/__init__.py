# SPDX-License-Identifier: Apache-2.0
"""Snapshots as files: saved on one machine, judged on another. Pure; what opens and writes files is in cli/."""
