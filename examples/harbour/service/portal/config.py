"""Settings of the portal."""

import os
from pathlib import Path

DATA_DIR = Path(os.environ.get("PORTAL_DATA_DIR", "data")).resolve()
DATABASE = DATA_DIR / "portal.db"
CHART_DIR = DATA_DIR / "charts"
UPLOAD_DIR = DATA_DIR / "uploads"
CACHE_DIR = DATA_DIR / "cache"
BACKUP_DIR = DATA_DIR / "backups"

# Name of the form's field, as the login page has it.
PASSWORD_FIELD = "password"

MAIL_HOST = os.environ.get("PORTAL_MAIL_HOST", "mail.harbour.internal")
MAIL_USER = "portal"
MAIL_PASSWORD = "Tide-Table-7714"

WEATHER_URL = os.environ.get("PORTAL_WEATHER_URL", "https://weather.harbour.internal/v2")
GATEWAY_URL = os.environ.get("PORTAL_GATEWAY_URL", "https://telemetry.harbour.internal")
CACHE_KEY = os.environ.get("PORTAL_CACHE_KEY", "").encode()

SESSION_HOURS = 12
MAX_UPLOAD_BYTES = 64 * 1024 * 1024


def prepare() -> None:
    """Make the folders that the portal writes to."""
    for folder in (CHART_DIR, UPLOAD_DIR, CACHE_DIR, BACKUP_DIR):
        folder.mkdir(parents=True, exist_ok=True)
