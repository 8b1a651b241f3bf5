"""What every answer says to the browser about itself, whoever gives it: Flask's views, the event stream, or the edge
that turns a request away. That nothing answers without them is *not* done here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NO_PAGE: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The content security policy of an answer that is no page: it may load nothing at all."""
ALWAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=(), "
        "publickey-credentials-create=(self), publickey-credentials-get=(self)",
    }
)
KEPT_NOWHERE: Final = "no-store"
