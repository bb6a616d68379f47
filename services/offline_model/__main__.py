"""Starts the offline model server: `python -m services.offline_model`."""

from services.kit.text.policy_file import PolicyFileError
from services.kit.wire.web_service import main
from services.offline_model.server import NAME, build
from services.offline_model.settings import OfflineModelSettings

if __name__ == "__main__":
    main(NAME, OfflineModelSettings, build, PolicyFileError)
