# SPDX-License-Identifier: Apache-2.0
"""A simulated node: the real watcher's decisions, plan, remediation and ledger under a virtual clock, with
collaborators that crash, lie, delay and lose power; random histories, checked against the design's invariants."""
