# SPDX-License-Identifier: Apache-2.0
"""Rules about the credentials of CNI plugins. None of them makes a restart due: what a stale mount has done to a token
the rule of that mount cures, and what else is wrong with one a person decides on."""
