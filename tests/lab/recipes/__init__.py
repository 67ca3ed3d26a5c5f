# SPDX-License-Identifier: Apache-2.0
"""One module for each stage of the lab: how its result is made from its inputs."""
