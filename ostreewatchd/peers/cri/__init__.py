# SPDX-License-Identifier: Apache-2.0
"""The container runtime, by way of CRI: `client` looks, `acts` stops, `types` and `errors` are light."""
