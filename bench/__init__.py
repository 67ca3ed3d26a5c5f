# SPDX-License-Identifier: Apache-2.0
"""How fast the product is, against a floor and against what people do today, on real mount namespaces.

`python -m bench` needs root, a C compiler and util-linux. Everything happens in a pid and a mount namespace of
its own, whose PID 1 is the host to the product."""
