"""The console: runs, their questions and why they went as they did, as pages for a browser on this machine."""
