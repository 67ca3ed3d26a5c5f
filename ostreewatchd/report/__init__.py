# SPDX-License-Identifier: Apache-2.0
"""What a person or a monitoring system gets to see."""
