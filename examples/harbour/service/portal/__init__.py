"""The harbour portal: ships, devices, charts and crews."""
