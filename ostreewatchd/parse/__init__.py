# SPDX-License-Identifier: Apache-2.0
"""Bytes to types: every module here is pure and takes hostile input."""
