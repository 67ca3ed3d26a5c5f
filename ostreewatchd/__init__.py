# SPDX-License-Identifier: Apache-2.0
"""ostreewatchd heals what still lives in the old deployment after a live switch of an OSTree host."""

__version__ = "0.1.0"
