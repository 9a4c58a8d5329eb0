"""The operator's commands for the Cloudflare home."""
