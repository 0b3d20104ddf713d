"""Which addresses of the network may be connected to: those of the public internet."""

from __future__ import annotations

import ipaddress
import socket

_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: an address of version 4 in its last 32 bits
# Reserved by the registries of IANA, and taken for global by some versions of Python; some clouds have services there.
_RESERVED = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "2001::/23", "3fff::/20", "5f00::/16"),
    )
)


def is_public(address: str) -> bool:
    """Whether `address`, in digits, belongs to the public internet: not to this machine, its network, or nobody.

    An address of version 6 that holds one of version 4 is what it holds; those that lead through a tunnel are not.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
        if found.sixtofour is not None or found.teredo is not None or found.is_site_local:
            return False
    return found.is_global and not (
        any(found in network for network in _RESERVED)
        or found.is_multicast
        or found.is_reserved
        or found.is_unspecified
        or found.is_loopback
    )


def is_address(host: str) -> bool:
    """Whether `host` is an address in digits, and no name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def resolve(host: str, port: int) -> list[str]:
    """The addresses of `host`, in digits, in the order in which they are to be tried. Raises OSError."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
