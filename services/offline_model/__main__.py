"""Starts the offline model server."""

from services.offline_model.server import main

if __name__ == "__main__":
    main()
